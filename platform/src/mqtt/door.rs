//! Who comes in: credentials against the register, one session a device, copied identities. Keeps no frame and no connection.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use furrow_protocol::frame::Device;
use rumqttc::mqttbytes::v4::{Connect, ConnectReturnCode};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, mpsc},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    limits::Limits,
    operator::{self, Operators},
    packet::{Broken, Packets},
    presence::Presence,
    register::{Refusal, Register},
    session::{End, Session},
    talk::Talk,
};
use crate::ingest::arrival::Arrivals;

/// A handshake, or a CONNECT, takes at most so long.
pub(super) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The register answers within this time, or counts as unavailable.
const REGISTER: Duration = Duration::from_secs(5);
/// Questions to the register at once: strangers with made-up numbers may cost the database no more.
const QUESTIONS: usize = 32;
/// Take-overs of one identity in a minute beyond which it must have been copied.
const TAKE_OVERS: usize = 5;
/// How long others of a copied identity are turned away.
const CLONED: Duration = Duration::from_secs(60);
const MINUTE: Duration = Duration::from_secs(60);
/// A session whose peer has just gone ends by itself within this time: no take-over.
const GOING: Duration = Duration::from_millis(50);
/// A session that is told to end does so at once; should it not, nobody else comes in.
const ENDING: Duration = Duration::from_secs(10);

/// A refused CONNECT: its code, and a word for the metrics.
pub(super) type Refused = (ConnectReturnCode, &'static str);

/// The gate's shared state.
pub(super) struct Door {
    pub register: Arc<dyn Register>,
    pub arrivals: Arrivals,
    pub states: mpsc::Sender<(Device, Bytes)>,
    pub presence: Arc<Presence>,
    pub limits: Arc<Limits>,
    pub operators: Option<Operators>,
    pub shutdown: CancellationToken,
    sessions: Mutex<HashMap<u32, Arc<Session>>>,
    take_overs: Mutex<TakeOvers>,
    questions: Semaphore,
    next: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    pub(super) fn new(
        register: Arc<dyn Register>,
        arrivals: Arrivals,
        states: mpsc::Sender<(Device, Bytes)>,
        limits: Limits,
    ) -> Self {
        Self {
            register,
            arrivals,
            states,
            presence: Arc::default(),
            limits: Arc::new(limits),
            operators: None,
            shutdown: CancellationToken::new(),
            sessions: Mutex::default(),
            take_overs: Mutex::default(),
            questions: Semaphore::new(QUESTIONS),
            next: AtomicU64::new(0),
        }
    }

    /// Runs a connection to its end. `key` is that of the client certificate, if one was shown.
    pub(super) async fn converse<S>(&self, stream: S, key: Option<[u8; 32]>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let mut packets = Packets::new(stream);
        let opening = async {
            match timeout(HANDSHAKE, packets.connect()).await {
                Ok(Ok(connect)) => Some(connect),
                Ok(Err(Broken::Version)) => {
                    refused("version");
                    packets
                        .refuse(ConnectReturnCode::RefusedProtocolVersion)
                        .await;
                    None
                }
                Ok(Err(_)) | Err(_) => {
                    refused("no_connect");
                    None
                }
            }
        };
        let connect = tokio::select! {
            () = self.shutdown.cancelled() => return,
            connect = opening => match connect {
                Some(connect) => connect,
                None => return,
            },
        };
        if let Some(operators) = &self.operators
            && operator::is_one(&connect)
        {
            return operators.converse(packets, &connect, &self.shutdown).await;
        }
        let admitted = tokio::select! {
            () = self.shutdown.cancelled() => return,
            admitted = self.admit(&connect, key) => admitted,
        };
        match admitted {
            Ok(present) => present.talk(packets, connect.keep_alive).await,
            Err((code, reason)) => {
                refused(reason);
                packets.refuse(code).await;
            }
        }
    }

    async fn admit(
        &self,
        connect: &Connect,
        key: Option<[u8; 32]>,
    ) -> Result<Present<'_>, Refused> {
        let device =
            device_of(&connect.client_id).ok_or((ConnectReturnCode::BadClientId, "client_id"))?;
        if connect.last_will.is_some() {
            return Err((ConnectReturnCode::NotAuthorized, "will"));
        }
        let named = |name: &str| name == device.0.to_string();
        let known = match (key, &connect.login) {
            // With a certificate the name is not needed, but if it is given it must be the device's.
            (Some(_), Some(login)) if !login.username.is_empty() && !named(&login.username) => {
                return Err((ConnectReturnCode::NotAuthorized, "other_identity"));
            }
            (Some(key), _) => self.ask(self.register.by_key(key)).await,
            (None, Some(login)) if named(&login.username) => {
                self.ask(self.register.by_token(device, login.password.as_bytes()))
                    .await
            }
            (None, _) => return Err((ConnectReturnCode::BadUserNamePassword, "credentials")),
        };
        match known {
            Ok(known) if known == device => {}
            Ok(_) => return Err((ConnectReturnCode::NotAuthorized, "other_identity")),
            Err(Refusal::Unknown) if key.is_some() => {
                return Err((ConnectReturnCode::NotAuthorized, "certificate"));
            }
            Err(Refusal::Unknown) => {
                return Err((ConnectReturnCode::BadUserNamePassword, "credentials"));
            }
            Err(Refusal::Revoked) => return Err((ConnectReturnCode::NotAuthorized, "revoked")),
            Err(Refusal::Unavailable) => {
                return Err((ConnectReturnCode::ServiceUnavailable, "register"));
            }
        }
        self.enter(device).await
    }

    async fn ask(
        &self,
        question: impl Future<Output = Result<Device, Refusal>>,
    ) -> Result<Device, Refusal> {
        let asked = timeout(REGISTER, async {
            let _permit = self.questions.acquire().await.ok();
            question.await
        });
        asked.await.unwrap_or(Err(Refusal::Unavailable))
    }

    /// Ends the device's former session and puts the new one in its place.
    async fn enter(&self, device: Device) -> Result<Present<'_>, Refused> {
        let session = Arc::new(Session::new(
            device,
            self.next.fetch_add(1, Ordering::Relaxed) + 1,
        ));
        loop {
            let former = {
                let mut sessions = locked(&self.sessions);
                match sessions.get(&device.0) {
                    Some(former) => Arc::clone(former),
                    None => {
                        sessions.insert(device.0, Arc::clone(&session));
                        break;
                    }
                }
            };
            if timeout(GOING, former.gone()).await.is_ok() {
                continue;
            }
            if locked(&self.take_overs).cloned(device, Instant::now()) {
                self.presence.cloned(device, former.number);
                return Err((ConnectReturnCode::ServiceUnavailable, "cloned"));
            }
            // The old one ends first, so that no frame of it comes after the new one's.
            former.end(End::TakenOver);
            if timeout(ENDING, former.gone()).await.is_err() {
                return Err((ConnectReturnCode::ServiceUnavailable, "take_over"));
            }
        }
        if self.shutdown.is_cancelled() {
            // It came in behind the back of `end_all`.
            session.end(End::Shutdown);
        }
        metrics::gauge!("furrow_gate_sessions").increment(1.0);
        self.presence.began(device, session.number);
        Ok(Present {
            door: self,
            session,
        })
    }

    /// Ends the sessions of devices that were turned away.
    pub(super) fn end_revoked(&self) {
        let running: Vec<Arc<Session>> = locked(&self.sessions).values().cloned().collect();
        for session in running {
            if self.register.revoked(session.device) {
                session.end(End::Revoked);
            }
        }
    }

    /// Sessions that run.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        locked(&self.sessions).len()
    }

    /// Asks all sessions to end, telling their devices what is settled meanwhile.
    pub(super) fn end_all(&self) {
        for session in locked(&self.sessions).values() {
            session.end(End::Shutdown);
        }
    }
}

pub(super) fn refused(reason: &'static str) {
    metrics::counter!("furrow_gate_refused_total", "reason" => reason).increment(1);
}

/// The device of a client id `furrow-{number}`.
fn device_of(client_id: &str) -> Option<Device> {
    let number = client_id.strip_prefix("furrow-")?;
    let digits = number.bytes().all(|b| b.is_ascii_digit()) && !number.starts_with('0');
    if !digits {
        return None;
    }
    number.parse().ok().map(Device)
}

/// A device's place; however its session ends, even by a fault of ours, the place is given back.
struct Present<'a> {
    door: &'a Door,
    session: Arc<Session>,
}

impl Present<'_> {
    async fn talk<S>(self, packets: Packets<S>, keep_alive: u16)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let mut talk = Talk::new(self.door, Arc::clone(&self.session), packets, keep_alive);
        let reason = match talk.run().await {
            Ok(()) => "disconnect",
            Err(broken) => {
                tracing::debug!(device = self.session.device.0, reason = %broken, "gate.session_end");
                broken.reason()
            }
        };
        metrics::counter!("furrow_gate_ended_total", "reason" => reason).increment(1);
        // The connection closes before the place is given back.
        drop(talk);
    }
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let mut sessions = locked(&self.door.sessions);
        if sessions
            .get(&self.session.device.0)
            .is_some_and(|s| Arc::ptr_eq(s, &self.session))
        {
            sessions.remove(&self.session.device.0);
        }
        drop(sessions);
        self.door
            .presence
            .ended(self.session.device, self.session.number);
        metrics::gauge!("furrow_gate_sessions").decrement(1.0);
        self.session.close();
    }
}

/// Take-overs of the last minute, by device.
#[derive(Debug, Default)]
struct TakeOvers {
    by_device: HashMap<u32, OfOne>,
    /// Entries at which old ones are thrown out; doubled with what stays, so that the sweep costs
    /// nothing on average however many devices come back at once.
    sweep_at: usize,
}

#[derive(Debug, Default)]
struct OfOne {
    recent: Vec<Instant>,
    cloned_until: Option<Instant>,
}

impl TakeOvers {
    /// Notes a take-over; whether it must not be, because the identity was copied.
    fn cloned(&mut self, device: Device, now: Instant) -> bool {
        if self.by_device.len() >= self.sweep_at.max(64) {
            self.by_device.retain(|_, of| {
                of.cloned_until.is_some_and(|until| until > now)
                    || of.recent.last().is_some_and(|at| now - *at < MINUTE)
            });
            self.sweep_at = self.by_device.len() * 2;
        }
        let of = self.by_device.entry(device.0).or_default();
        if of.cloned_until.is_some_and(|until| until > now) {
            return true;
        }
        of.recent.retain(|at| now - *at < MINUTE);
        of.recent.push(now);
        if of.recent.len() <= TAKE_OVERS {
            return false;
        }
        of.recent.clear();
        of.cloned_until = Some(now + CLONED);
        metrics::counter!("furrow_gate_cloned_total").increment(1);
        tracing::error!(device = device.0, "gate.cloned");
        true
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn client_ids_are_read_exactly() {
        assert_eq!(device_of("furrow-7"), Some(Device(7)));
        assert_eq!(device_of("furrow-4294967295"), Some(Device(u32::MAX)));
        for other in [
            "",
            "furrow-",
            "furrow-0",
            "furrow-07",
            "furrow-+7",
            "furrow-7 ",
            "furrow-\u{663}",
            "furrow-4294967296",
            "Furrow-7",
            "furrow7",
            "furrow-7/#",
        ] {
            assert_eq!(device_of(other), None, "{other}");
        }
    }

    #[test]
    fn the_sixth_take_over_in_a_minute_raises_the_alarm_for_a_minute() {
        let mut all = TakeOvers::default();
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        for s in 0..5 {
            assert!(!all.cloned(Device(7), at(s)));
        }
        assert!(!all.cloned(Device(8), at(5)));
        assert!(all.cloned(Device(7), at(5)));
        assert!(all.cloned(Device(7), at(64)));
        assert!(!all.cloned(Device(7), at(66)));
    }

    #[test]
    fn five_take_overs_in_each_minute_are_no_alarm() {
        let mut all = TakeOvers::default();
        let begin = Instant::now();
        for n in 0..100 {
            assert!(!all.cloned(Device(7), begin + Duration::from_secs(n * 13)));
        }
    }

    #[test]
    fn old_take_overs_are_forgotten() {
        let mut all = TakeOvers::default();
        let begin = Instant::now();
        for n in 0..1000_u32 {
            all.cloned(
                Device(n + 1),
                begin + Duration::from_secs(u64::from(n) * 61),
            );
        }
        assert!(all.by_device.len() <= 65, "{}", all.by_device.len());
        let last = all.by_device.get(&1000).unwrap();
        assert_eq!(last.recent.len(), 1);
    }
}
