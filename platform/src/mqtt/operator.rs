//! The operator's own integrations: they read the bus and do nothing else. Never lets one publish, and never waits for one that reads slowly.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rumqttc::mqttbytes::{
    QoS,
    v4::{
        ConnAck, Connect, ConnectReturnCode, Packet, SubAck, Subscribe, SubscribeReasonCode,
        UnsubAck,
    },
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    bus::{Bus, Listener, may_be_heard},
    door::{Refused, refused},
    packet::{Broken, MAX_CONNECT, Packets},
};

/// Their client ids begin so.
const PREFIX: &str = "operator-";
/// Sessions of one operator, and of all.
const MAX_OF_ONE: usize = 4;
const MAX_SESSIONS: usize = 64;
/// Filters of one operator, at most.
pub const MAX_FILTERS: usize = 16;
/// Keep-alive of one who asks for none, and the longest, s.
const KEEP_ALIVE_NONE: u16 = 60;
const KEEP_ALIVE_MAX: u16 = 1200;
/// Messages in one write, at most.
const BATCH: usize = 64;

/// An integration that may read.
#[derive(Debug, Clone)]
pub struct Operator {
    /// Its MQTT username.
    pub name: String,
    /// SHA-256 of its password, as sent.
    pub token_sha256: [u8; 32],
    /// What it may subscribe, exactly; each as the bus allows it.
    pub filters: Vec<String>,
}

impl Operator {
    /// Whether its filters are few and may be heard.
    #[must_use]
    pub fn is_lawful(&self) -> bool {
        (1..=MAX_FILTERS).contains(&self.filters.len())
            && self.filters.iter().all(|filter| may_be_heard(filter))
    }
}

/// Whether this CONNECT is an operator's.
pub(super) fn is_one(connect: &Connect) -> bool {
    connect.client_id.starts_with(PREFIX)
}

/// All operators, and how many sessions they have.
pub(super) struct Operators {
    known: HashMap<String, Operator>,
    bus: Arc<Bus>,
    sessions: Mutex<HashMap<String, usize>>,
}

/// A session's place; given back when dropped.
struct Place<'a> {
    operators: &'a Operators,
    name: &'a str,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut sessions = self.operators.sessions();
        match sessions.get_mut(self.name) {
            Some(n) if *n > 1 => *n -= 1,
            _ => {
                sessions.remove(self.name);
            }
        }
    }
}

impl Operators {
    /// Those whose filters are not lawful are left out.
    pub(super) fn new(operators: Vec<Operator>, bus: Arc<Bus>) -> Self {
        let (lawful, unlawful): (Vec<_>, Vec<_>) =
            operators.into_iter().partition(Operator::is_lawful);
        for operator in unlawful {
            tracing::error!(operator = operator.name, "gate.operator_filters");
        }
        Self {
            known: lawful.into_iter().map(|o| (o.name.clone(), o)).collect(),
            bus,
            sessions: Mutex::default(),
        }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, HashMap<String, usize>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn converse<S>(
        &self,
        mut packets: Packets<S>,
        connect: &Connect,
        shutdown: &CancellationToken,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let (operator, place, listener) = match self.admit(connect).await {
            Ok(admitted) => admitted,
            Err((code, reason)) => {
                refused(reason);
                return packets.refuse(code).await;
            }
        };
        let mut reading = Reading {
            operator,
            packets,
            listener,
            patience: Duration::from_millis(
                1500 * u64::from(match connect.keep_alive {
                    0 => KEEP_ALIVE_NONE,
                    asked => asked.min(KEEP_ALIVE_MAX),
                }),
            ),
        };
        let end = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            end = reading.run() => end,
        };
        if let Err(reason) = end {
            tracing::info!(operator = place.name, reason = %reason, "gate.operator_end");
        }
    }

    async fn admit(&self, connect: &Connect) -> Result<(&Operator, Place<'_>, Listener), Refused> {
        let bad = (ConnectReturnCode::BadUserNamePassword, "credentials");
        let login = connect.login.as_ref().ok_or(bad)?;
        let operator = self.known.get(&login.username).ok_or(bad)?;
        // Hashes of random tokens: comparing them byte by byte tells nothing of a token.
        let shown: [u8; 32] = Sha256::digest(login.password.as_bytes()).into();
        if shown != operator.token_sha256 {
            return Err(bad);
        }
        if connect.last_will.is_some() {
            return Err((ConnectReturnCode::NotAuthorized, "will"));
        }
        let full = (ConnectReturnCode::ServiceUnavailable, "full");
        let place = {
            let mut sessions = self.sessions();
            let all: usize = sessions.values().sum();
            let of_one = sessions.get(&operator.name).copied().unwrap_or(0);
            if all >= MAX_SESSIONS || of_one >= MAX_OF_ONE {
                return Err(full);
            }
            sessions.insert(operator.name.clone(), of_one + 1);
            Place {
                operators: self,
                name: &operator.name,
            }
        };
        let listener = self.bus.listen_remote().await.map_err(|error| {
            tracing::warn!(error = %error, "gate.operator_bus");
            full
        })?;
        Ok((operator, place, listener))
    }
}

/// An operator's session.
struct Reading<'a, S> {
    operator: &'a Operator,
    packets: Packets<S>,
    listener: Listener,
    patience: Duration,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Reading<'_, S> {
    async fn run(&mut self) -> Result<(), Broken> {
        self.packets.put(&Packet::ConnAck(ConnAck::new(
            ConnectReturnCode::Success,
            false,
        )))?;
        let mut heard = Instant::now();
        loop {
            while let Some(packet) = self.packets.next(MAX_CONNECT)? {
                if matches!(packet, Packet::Disconnect) {
                    return Ok(());
                }
                self.take(packet)?;
            }
            self.packets.flush().await?;
            tokio::select! {
                message = self.listener.next() => {
                    let mut message = Some(message.ok_or(Broken::Slow)?);
                    let mut room = BATCH;
                    while let Some(heard) = message {
                        self.packets.put_publish(&heard.topic, &heard.payload);
                        room -= 1;
                        message = if room > 0 { self.listener.cached() } else { None };
                    }
                }
                filled = timeout_at(heard + self.patience, self.packets.fill()) => {
                    filled.map_err(|_| Broken::Silent)??;
                    heard = Instant::now();
                }
            }
        }
    }

    fn take(&mut self, packet: Packet) -> Result<(), Broken> {
        match packet {
            Packet::PingReq => self.packets.put(&Packet::PingResp),
            Packet::Subscribe(subscribe) => self.subscribe(&subscribe),
            Packet::Unsubscribe(unsubscribe) => self
                .packets
                .put(&Packet::UnsubAck(UnsubAck::new(unsubscribe.pkid))),
            _ => Err(Broken::Protocol("an operator reads only")),
        }
    }

    fn subscribe(&mut self, subscribe: &Subscribe) -> Result<(), Broken> {
        if subscribe.pkid == 0 || subscribe.filters.len() > MAX_FILTERS {
            return Err(Broken::Protocol("malformed packet"));
        }
        let mut codes = Vec::with_capacity(subscribe.filters.len());
        for filter in &subscribe.filters {
            codes.push(if self.operator.filters.contains(&filter.path) {
                self.listener
                    .add(&filter.path)
                    .map_err(|_| Broken::Ended("bus"))?;
                SubscribeReasonCode::Success(QoS::AtMostOnce)
            } else {
                SubscribeReasonCode::Failure
            });
        }
        self.packets
            .put(&Packet::SubAck(SubAck::new(subscribe.pkid, codes)))
    }
}
