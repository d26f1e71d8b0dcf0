//! MQTT 3.1.1 packets over a stream, with rumqttc's codec; bounds everything before it is read. Never knows a device.

use std::{io, time::Duration};

use bytes::{BufMut as _, BytesMut};
use rumqttc::mqttbytes::{Error, v4::Packet};
use thiserror::Error as ThisError;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};

/// Largest packet: a largest frame with its topic.
pub(super) const MAX_PACKET: usize = furrow_protocol::frame::MAX_FRAME_BYTES + 256;
/// How long a peer may take to take what we write.
const WRITE: Duration = Duration::from_secs(10);

/// Why a connection ends.
#[derive(Debug, ThisError)]
pub(super) enum Broken {
    /// The peer closed it.
    #[error("closed by the peer")]
    Closed,
    /// The network.
    #[error("network")]
    Io(#[from] io::Error),
    /// Not MQTT 3.1.1, or beyond its limits.
    #[error("not MQTT 3.1.1: {0}")]
    Protocol(&'static str),
    /// The peer does not take what we write.
    #[error("slow reader")]
    Slow,
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

    /// The next packet that has been read whole, at most `max` bytes long.
    pub(super) fn next(&mut self, max: usize) -> Result<Option<Packet>, Broken> {
        if self.read.is_empty() {
            return Ok(None);
        }
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
        if self.read.capacity() == self.read.len() {
            self.read.reserve(1024);
        }
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(Broken::Closed),
            _ => Ok(()),
        }
    }

    pub(super) fn put(&mut self, packet: &Packet) -> Result<(), Broken> {
        packet
            .write(&mut self.write, MAX_PACKET)
            .map(|_| ())
            .map_err(|_| Broken::Protocol("packet too large"))
    }

    /// A QoS 0 publish, straight into the buffer.
    pub(super) fn put_publish(&mut self, topic: &str, payload: &[u8]) {
        let mut length = 2 + topic.len() + payload.len();
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
        self.write.put_slice(topic.as_bytes());
        self.write.put_slice(payload);
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
        match written {
            Ok(result) => Ok(result?),
            Err(_) => Err(Broken::Slow),
        }
    }

    /// Buffers that grew for a large packet are given back while the peer is quiet.
    pub(super) fn shrink(&mut self) {
        if self.read.is_empty() && self.read.capacity() > 4096 {
            self.read = BytesMut::new();
        }
        if self.write.is_empty() && self.write.capacity() > 4096 {
            self.write = BytesMut::new();
        }
    }
}
