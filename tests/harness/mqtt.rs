//! The least of MQTT 3.1.1 that a device speaks, written and read by hand: load must cost little, and attacks must be able to break rules. Never used by the product.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};

/// A packet from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// Return code.
    ConnAck(u8),
    /// Granted QoS, or 0x80.
    SubAck(u8),
    /// Packet id.
    PubAck(u16),
    /// QoS 0 only.
    Publish {
        /// Where to.
        topic: String,
        /// What.
        payload: Vec<u8>,
    },
    /// Answer to a ping.
    Pong,
}

/// A packet at the front of `bytes` and its length; None while it is not whole. For the load
/// generator, which borrows payloads: what a packet means is left to [`Packet`].
///
/// Errors: not a packet of a server.
pub fn split(bytes: &[u8]) -> anyhow::Result<Option<(u8, &[u8], usize)>> {
    let Some((&kind, rest)) = bytes.split_first() else {
        return Ok(None);
    };
    let (mut length, mut shift) = (0_usize, 0);
    for (used, byte) in rest.iter().enumerate() {
        length |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            let begin = 2 + used;
            return Ok(bytes
                .get(begin..begin + length)
                .map(|body| (kind, body, begin + length)));
        }
        if shift > 21 {
            bail!("a length of more than four bytes");
        }
    }
    Ok(None)
}

/// Topic and payload of a QoS 0 publish's body.
#[must_use]
pub fn publish_parts(body: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = body.split_first_chunk::<2>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
}

impl Packet {
    fn read(kind: u8, body: &[u8]) -> anyhow::Result<Self> {
        let number = || {
            body.first_chunk::<2>()
                .map(|b| u16::from_be_bytes(*b))
                .context("a packet id")
        };
        Ok(match kind {
            0x20 => Self::ConnAck(*body.get(1).context("a return code")?),
            0x90 => Self::SubAck(*body.get(2).context("a granted QoS")?),
            0x40 => Self::PubAck(number()?),
            0x30 => {
                let (topic, payload) = publish_parts(body).context("a publish")?;
                Self::Publish {
                    topic: String::from_utf8(topic.to_vec())?,
                    payload: payload.to_vec(),
                }
            }
            0xd0 => Self::Pong,
            other => bail!("a packet of kind {other:#x} from a server"),
        })
    }
}

fn put_length(out: &mut Vec<u8>, mut length: usize) {
    loop {
        let digit = u8::try_from(length % 128).unwrap_or(0);
        length /= 128;
        out.push(if length > 0 { digit | 0x80 } else { digit });
        if length == 0 {
            return;
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(text);
}

/// CONNECT of a device, clean session.
#[must_use]
pub fn connect(device: u32, token: &str, keep_alive_s: u16) -> Vec<u8> {
    let mut body = Vec::with_capacity(128);
    put_text(&mut body, b"MQTT");
    body.extend_from_slice(&[4, 0b1100_0010]);
    body.extend_from_slice(&keep_alive_s.to_be_bytes());
    put_text(&mut body, format!("furrow-{device}").as_bytes());
    put_text(&mut body, device.to_string().as_bytes());
    put_text(&mut body, token.as_bytes());
    packet(0x10, &body)
}

/// SUBSCRIBE to one filter, packet id 1, QoS 0.
#[must_use]
pub fn subscribe(filter: &str) -> Vec<u8> {
    let mut body = vec![0, 1];
    put_text(&mut body, filter.as_bytes());
    body.push(0);
    packet(0x82, &body)
}

/// PUBLISH, QoS 1, appended.
pub fn put_publish(out: &mut Vec<u8>, topic: &str, id: u16, payload: &[u8]) {
    out.push(0x32);
    put_length(out, 2 + topic.len() + 2 + payload.len());
    put_text(out, topic.as_bytes());
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(payload);
}

/// PINGREQ.
pub const PING: [u8; 2] = [0xc0, 0];
/// DISCONNECT.
pub const FAREWELL: [u8; 2] = [0xe0, 0];

fn packet(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    put_length(&mut out, body.len());
    out.extend_from_slice(body);
    out
}

/// A blocking session of a device.
pub struct Session {
    stream: TcpStream,
    read: Vec<u8>,
    topic: String,
    next_id: u16,
}

impl Session {
    /// Connects and subscribes to the device's `down`.
    ///
    /// Errors: the network, or the server refuses (with its code).
    pub fn open(server: SocketAddr, device: u32, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let mut session = Self {
            stream,
            read: Vec::new(),
            topic: format!("furrow/v1/{device}/up"),
            next_id: 0,
        };
        session.stream.write_all(&connect(device, token, 30))?;
        match session.next(Duration::from_secs(10))? {
            Some(Packet::ConnAck(0)) => {}
            other => bail!("CONNECT was answered with {other:?}"),
        }
        let filter = format!("furrow/v1/{device}/down");
        session.stream.write_all(&subscribe(&filter))?;
        match session.next(Duration::from_secs(10))? {
            Some(Packet::SubAck(0)) => Ok(session),
            other => bail!("SUBSCRIBE was answered with {other:?}"),
        }
    }

    /// Publishes a frame; its packet id.
    ///
    /// Errors: the network.
    pub fn publish(&mut self, payload: &[u8]) -> anyhow::Result<u16> {
        self.next_id = self.next_id.checked_add(1).unwrap_or(1);
        let mut out = Vec::new();
        put_publish(&mut out, &self.topic, self.next_id, payload);
        self.stream.write_all(&out)?;
        Ok(self.next_id)
    }

    /// The next packet; None if none comes in time.
    ///
    /// Errors: the server has closed the connection, or does not speak MQTT.
    pub fn next(&mut self, patience: Duration) -> anyhow::Result<Option<Packet>> {
        let until = Instant::now() + patience;
        loop {
            if let Some((kind, body, length)) = split(&self.read)? {
                let packet = Packet::read(kind, body)?;
                self.read.drain(..length);
                return Ok(Some(packet));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            self.stream.set_read_timeout(Some(left))?;
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => bail!("closed by the server"),
                Ok(n) => self
                    .read
                    .extend_from_slice(buffer.get(..n).unwrap_or_default()),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next down message; PUBACKs on the way are left out. None if none comes in time.
    ///
    /// Errors: as [`Session::next`], or not a down message.
    pub fn next_down(
        &mut self,
        patience: Duration,
    ) -> anyhow::Result<Option<furrow_protocol::down::Down>> {
        let until = Instant::now() + patience;
        loop {
            match self.next(until.saturating_duration_since(Instant::now()))? {
                None => return Ok(None),
                Some(Packet::Publish { payload, .. }) => {
                    return Ok(Some(furrow_protocol::down::Down::decode(&payload)?));
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_told_whole_only_when_it_is() {
        let mut out = Vec::new();
        put_publish(&mut out, "t", 7, &[9; 200]);
        for cut in 0..out.len() {
            assert!(split(&out[..cut]).unwrap().is_none(), "{cut}");
        }
        let (kind, body, length) = split(&out).unwrap().unwrap();
        assert_eq!((kind, length, body.len()), (0x32, out.len(), 205));
        assert!(split(&[0x30, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    }
}
