//! MQTT 3.1.1 packets over a stream, with rumqttc's codec; bounds everything before it is read. Never knows a device.

use std::{
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Poll, ready},
    time::Duration,
};

use bytes::{BufMut as _, BytesMut};
use rumqttc::mqttbytes::{
    Error,
    v4::{ConnAck, Connect, ConnectReturnCode, Packet},
};
use thiserror::Error as ThisError;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    time::timeout,
};

/// Largest packet: a largest frame with its topic.
pub(super) const MAX_PACKET: usize = furrow_protocol::frame::MAX_FRAME_BYTES + 256;
/// Largest packet before its sender is admitted.
pub(super) const MAX_CONNECT: usize = 1024;
/// How long a peer may take to take what we write.
const WRITE: Duration = Duration::from_secs(10);
/// How long a peer that was refused may take to go.
const FAREWELL: Duration = Duration::from_millis(500);
/// Bytes taken from the socket at a time; they lie on the stack until there are any, so that a
/// quiet connection has no read buffer at all.
const READ: usize = 8192;
/// A write buffer that grew beyond this is given back once it is sent.
const KEPT_BUFFER: usize = 1024;

/// Why a connection ends.
#[derive(Debug, ThisError)]
pub(super) enum Broken {
    /// The peer closed it.
    #[error("closed by the peer")]
    Closed,
    /// The network.
    #[error("network")]
    Io(#[from] io::Error),
    /// Not MQTT 3.1.1, or not allowed here.
    #[error("not allowed: {0}")]
    Protocol(&'static str),
    /// CONNECT speaks another version of MQTT.
    #[error("not MQTT 3.1.1")]
    Version,
    /// The peer does not take what we write.
    #[error("slow reader")]
    Slow,
    /// Nothing came for longer than the keep-alive allows.
    #[error("silent for longer than its keep-alive")]
    Silent,
    /// Another part of the gate ended it.
    #[error("ended by the gate: {0}")]
    Ended(&'static str),
}

impl Broken {
    /// A word for the metrics.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Io(_) => "network",
            Self::Protocol(_) => "protocol",
            Self::Version => "version",
            Self::Slow => "slow",
            Self::Silent => "silent",
            Self::Ended(why) => why,
        }
    }
}

/// A connection: packets in, bytes out.
pub(super) struct Packets<S> {
    stream: S,
    read: BytesMut,
    write: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Packets<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
            write: BytesMut::new(),
        }
    }

    /// The CONNECT with which a connection begins, and nothing else.
    pub(super) async fn connect(&mut self) -> Result<Connect, Broken> {
        loop {
            if self.read.first().is_some_and(|b| *b != 0x10) {
                return Err(Broken::Protocol("a packet before CONNECT"));
            }
            opening(&self.read)?;
            match self.next(MAX_CONNECT)? {
                Some(Packet::Connect(connect)) => return Ok(connect),
                Some(_) => return Err(Broken::Protocol("a packet before CONNECT")),
                None => self.fill().await?,
            }
        }
    }

    /// The next packet that has been read whole, at most `max` bytes long.
    pub(super) fn next(&mut self, max: usize) -> Result<Option<Packet>, Broken> {
        let Some(&first) = self.read.first() else {
            return Ok(None);
        };
        lawful(first)?;
        match Packet::read(&mut self.read, max) {
            Ok(packet) => Ok(Some(packet)),
            Err(Error::InsufficientBytes(_)) => Ok(None),
            Err(Error::PayloadSizeLimitExceeded { .. }) => {
                Err(Broken::Protocol("packet too large"))
            }
            Err(_) => Err(Broken::Protocol("malformed packet")),
        }
    }

    /// Waits for more bytes. Safe to cancel.
    pub(super) async fn fill(&mut self) -> Result<(), Broken> {
        let Self { stream, read, .. } = self;
        if read.is_empty() {
            // Payloads on their way to ingest may still hold the former buffer.
            *read = BytesMut::new();
        }
        let count = poll_fn(|cx| {
            let mut room = [const { MaybeUninit::<u8>::uninit() }; READ];
            let mut taken = ReadBuf::uninit(&mut room);
            ready!(Pin::new(&mut *stream).poll_read(cx, &mut taken))?;
            read.extend_from_slice(taken.filled());
            Poll::Ready(io::Result::Ok(taken.filled().len()))
        })
        .await?;
        if count == 0 {
            Err(Broken::Closed)
        } else {
            Ok(())
        }
    }

    pub(super) fn put(&mut self, packet: &Packet) -> Result<(), Broken> {
        packet
            .write(&mut self.write, MAX_PACKET)
            .map(|_| ())
            .map_err(|_| Broken::Protocol("packet too large"))
    }

    /// A PUBACK, straight into the buffer.
    pub(super) fn put_puback(&mut self, pkid: u16) {
        self.write.put_slice(&[0x40, 2]);
        self.write.put_u16(pkid);
    }

    /// A QoS 0 publish, straight into the buffer. Topic and payload together under 128 MiB, the
    /// topic at most 65,535 bytes.
    pub(super) fn put_publish(&mut self, topic: &[u8], payload: &[u8]) {
        let mut length = 2 + topic.len() + payload.len();
        self.write.reserve(5 + length);
        self.write.put_u8(0x30);
        loop {
            let digit = u8::try_from(length % 128).unwrap_or(0);
            length /= 128;
            self.write
                .put_u8(if length > 0 { digit | 0x80 } else { digit });
            if length == 0 {
                break;
            }
        }
        self.write.put_u16(u16::try_from(topic.len()).unwrap_or(0));
        self.write.put_slice(topic);
        self.write.put_slice(payload);
    }

    /// Bytes that wait to be sent.
    pub(super) fn unsent(&self) -> usize {
        self.write.len()
    }

    /// Sends what was put, in one write where the peer takes it.
    pub(super) async fn flush(&mut self) -> Result<(), Broken> {
        if self.write.is_empty() {
            return Ok(());
        }
        let written = timeout(WRITE, async {
            self.stream.write_all(&self.write).await?;
            self.stream.flush().await
        })
        .await;
        self.write.clear();
        if self.write.capacity() > KEPT_BUFFER {
            self.write = BytesMut::new();
        }
        match written {
            Ok(result) => Ok(result?),
            Err(_) => Err(Broken::Slow),
        }
    }

    /// Answers CONNECT with a refusal and sees the peer off. What it has sent meanwhile is taken
    /// and thrown away: closing a socket with unread bytes would reset it, and the answer be lost.
    pub(super) async fn refuse(&mut self, code: ConnectReturnCode) {
        if self
            .put(&Packet::ConnAck(ConnAck::new(code, false)))
            .is_err()
        {
            return;
        }
        let _ = timeout(FAREWELL, async {
            self.flush().await.ok()?;
            self.stream.shutdown().await.ok()?;
            let mut thrown = [0; 512];
            let mut left: usize = 64 * 1024;
            while left > 0 {
                match self.stream.read(&mut thrown).await {
                    Ok(count) if count > 0 => left = left.saturating_sub(count),
                    _ => break,
                }
            }
            Some(())
        })
        .await;
    }
}

/// The reserved bits of a packet's first byte, which the codec does not look at.
fn lawful(first: u8) -> Result<(), Broken> {
    let flags = first & 0x0f;
    let lawful = match first >> 4 {
        3 => true,
        6 | 8 | 10 => flags == 2,
        _ => flags == 0,
    };
    if lawful {
        Ok(())
    } else {
        Err(Broken::Protocol("reserved bits of the first byte"))
    }
}

/// What must hold of CONNECT's first bytes and is not looked at by the codec, which takes version 5
/// for version 4 with other contents. Judges as much as has come.
fn opening(read: &[u8]) -> Result<(), Broken> {
    let Some(length_at) = read.iter().skip(1).take(4).position(|b| b & 0x80 == 0) else {
        return Ok(());
    };
    let Some(body) = read.get(length_at + 2..) else {
        return Ok(());
    };
    let [high, low, rest @ ..] = body else {
        return Ok(());
    };
    let name_length = usize::from(u16::from_be_bytes([*high, *low]));
    if !matches!(name_length, 4 | 6) {
        return Err(Broken::Protocol("malformed packet"));
    }
    let Some((name, rest)) = rest.split_at_checked(name_length) else {
        return Ok(());
    };
    match (name, rest) {
        (b"MQTT", []) => Ok(()),
        // Will, password and name bits are the codec's; the lowest is reserved, and a password
        // without a name is not allowed.
        (b"MQTT", [4, flags, ..]) if flags & 1 == 1 || flags & 0xc0 == 0x40 => {
            Err(Broken::Protocol("malformed packet"))
        }
        (b"MQTT", [4, ..]) => Ok(()),
        (b"MQTT" | b"MQIsdp", _) => Err(Broken::Version),
        _ => Err(Broken::Protocol("malformed packet")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    async fn connect(bytes: &[u8]) -> Result<Connect, Broken> {
        let (mut ours, theirs) = tokio::io::duplex(64 * 1024);
        ours.write_all(bytes).await.unwrap();
        drop(ours);
        Packets::new(theirs).connect().await
    }

    fn good() -> Vec<u8> {
        let mut bytes = BytesMut::new();
        Connect::new("furrow-7").write(&mut bytes).unwrap();
        bytes.to_vec()
    }

    fn with(at: usize, byte: u8) -> Vec<u8> {
        let mut bytes = good();
        bytes[at] = byte;
        bytes
    }

    #[tokio::test]
    async fn a_connect_is_read_whole() {
        assert_eq!(connect(&good()).await.unwrap().client_id, "furrow-7");
    }

    #[tokio::test]
    async fn other_versions_of_mqtt_are_named_as_such() {
        for bytes in [
            with(8, 5),
            with(8, 3),
            with(8, 0),
            b"\x10\x0e\x00\x06MQIsdp\x03\x02\x00\x0a\x00\x00".to_vec(),
        ] {
            assert!(
                matches!(connect(&bytes).await, Err(Broken::Version)),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn reserved_bits_other_names_and_a_password_alone_are_refused() {
        for bytes in [
            with(0, 0x11),
            with(9, 3),
            with(9, 0x42),
            with(4, b'm'),
            with(3, 5),
        ] {
            assert!(
                matches!(connect(&bytes).await, Err(Broken::Protocol(_))),
                "{bytes:?}"
            );
        }
    }

    #[tokio::test]
    async fn a_truncated_connect_ends_with_the_peer() {
        for length in 0..good().len() {
            assert!(
                matches!(connect(&good()[..length]).await, Err(Broken::Closed)),
                "{length}"
            );
        }
    }

    #[tokio::test]
    async fn a_packet_that_claims_too_much_is_refused_before_it_is_read() {
        for claim in [&[0x10, 0xff, 0xff, 0xff, 0x7f][..], &[0x10, 0x81, 0x08]] {
            assert!(
                matches!(
                    connect(claim).await,
                    Err(Broken::Protocol("packet too large"))
                ),
                "{claim:?}"
            );
        }
        assert!(matches!(
            connect(&[0x10, 0xff, 0xff, 0xff, 0xff, 0x7f]).await,
            Err(Broken::Protocol("malformed packet"))
        ));
    }
}
