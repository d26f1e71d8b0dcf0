//! The bus: what was committed, told to whoever looks on. In-process rumqttd router, never its listeners; whatever goes over it may be lost.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use bytes::Bytes;
use futures_util::FutureExt as _;
use rumqttd::{
    Broker, Config, Notification, RouterConfig,
    local::{LinkError, LinkRx, LinkTx},
    protocol::{Disconnect, DisconnectReasonCode, Packet},
};
use thiserror::Error;
use tokio::sync::mpsc;
use uuid::Uuid;

/// Where positions are told.
pub const LIVE_FILTER: &str = "furrow/v1/live/+";
/// Where events are told.
pub const EVENT_FILTER: &str = "furrow/v1/event/+";
/// Most listeners at once.
const LISTENERS: u32 = 256;
/// The router's own cap lies above ours: one that is refused there tells nobody, and one that tries
/// again at its cap has killed the router.
const ROUTER_CONNECTIONS: usize = 512;
/// Messages that wait for the router; beyond it they are dropped and counted.
const QUEUE: usize = 4096;
/// What the router keeps of a filter: this many segments of this many bytes.
const SEGMENTS: usize = 4;
const SEGMENT_BYTES: usize = 256 * 1024;

/// `furrow/v1/live/{machine}`.
#[must_use]
pub fn live_topic(machine: Uuid) -> String {
    format!("furrow/v1/live/{machine}")
}

/// Why one cannot listen.
#[derive(Debug, Error)]
pub enum BusError {
    /// Too many listen.
    #[error("{LISTENERS} listen already")]
    Full,
    /// A filter that may not be.
    #[error("{0:?} is no filter of the bus")]
    Filter(String),
    /// The router.
    #[error("the bus's router")]
    Link(#[from] Box<LinkError>),
    /// The process is ending.
    #[error("the process is ending")]
    Ending,
}

/// A message of the bus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its topic; ASCII.
    pub topic: Bytes,
    /// What it says.
    pub payload: Bytes,
}

/// The bus.
#[derive(Debug)]
pub struct Bus {
    router: Arc<Routers>,
    queue: mpsc::Sender<Message>,
}

/// The router that runs, and the names of its listeners.
struct Routers {
    running: Mutex<Broker>,
    restarts: AtomicU64,
    free: Mutex<BTreeSet<u32>>,
}

impl std::fmt::Debug for Routers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Routers {{ restarts: {:?} }}", self.restarts)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn broker() -> Broker {
    let router = RouterConfig {
        max_connections: ROUTER_CONNECTIONS,
        max_outgoing_packet_count: 200,
        max_segment_size: SEGMENT_BYTES,
        max_segment_count: SEGMENTS,
        ..RouterConfig::default()
    };
    Broker::new(Config {
        router,
        ..Config::default()
    })
}

impl Routers {
    /// A link to the router; a dead router is replaced first.
    fn link(&self, name: &str) -> Result<(LinkTx, LinkRx), Box<LinkError>> {
        let mut running = locked(&self.running);
        match running.link(name) {
            // The router's end of the channel is gone: its thread has ended.
            Err(LinkError::Send(_) | LinkError::Recv(_)) => {
                tracing::error!("bus.router_restarted");
                metrics::counter!("furrow_bus_restarts_total").increment(1);
                self.restarts.fetch_add(1, Ordering::Relaxed);
                *running = broker();
                running.link(name).map_err(Box::new)
            }
            linked => linked.map_err(Box::new),
        }
    }
}

impl Bus {
    /// A running bus.
    ///
    /// # Errors
    ///
    /// The thread cannot be had.
    pub fn new() -> std::io::Result<Self> {
        let router = Arc::new(Routers {
            running: Mutex::new(broker()),
            restarts: AtomicU64::new(0),
            free: Mutex::new((1..=LISTENERS).collect()),
        });
        let (queue, messages) = mpsc::channel(QUEUE);
        let routers = Arc::clone(&router);
        // A thread of its own: the router's channel blocks its senders.
        thread::Builder::new()
            .name("bus".into())
            .spawn(move || tell(&routers, messages))?;
        Ok(Self { router, queue })
    }

    /// Tells a message to whoever listens; drops it when too many wait, or when the topic is not
    /// plain ASCII (one that begins with another character has killed the router).
    pub fn publish(&self, topic: String, payload: Bytes) {
        let lawful = topic
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'+' && b != b'#')
            && !topic.starts_with('$')
            && !payload.is_empty();
        let message = Message {
            topic: topic.into(),
            payload,
        };
        if !lawful || self.queue.try_send(message).is_err() {
            metrics::counter!("furrow_bus_dropped_total").increment(1);
        }
    }

    /// Listens from now on, inside the process.
    ///
    /// # Errors
    ///
    /// [`BusError`].
    pub async fn listen(&self, filters: &[&str]) -> Result<Listener, BusError> {
        let mut listener = self.attach(false).await?;
        for filter in filters {
            listener.add(filter)?;
        }
        Ok(listener)
    }

    /// A listener for a remote peer: it is ended when it does not keep up.
    pub(super) async fn listen_remote(&self) -> Result<Listener, BusError> {
        self.attach(true).await
    }

    async fn attach(&self, remote: bool) -> Result<Listener, BusError> {
        let slot = Slot::take(&self.router).ok_or(BusError::Full)?;
        let router = Arc::clone(&self.router);
        // Linking blocks until the router answers.
        let linked = tokio::task::spawn_blocking(move || {
            let (tx, rx) = router.link(&format!("listener-{}", slot.number))?;
            Ok(Listener {
                tx,
                rx,
                remote,
                ended: false,
                _slot: slot,
            })
        });
        match linked.await {
            Ok(listener) => listener,
            Err(_) => Err(BusError::Ending),
        }
    }

    /// How often the router had to be replaced.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.router.restarts.load(Ordering::Relaxed)
    }
}

/// The bus's thread: from the queue to the router.
fn tell(routers: &Routers, mut messages: mpsc::Receiver<Message>) {
    let mut link = None;
    while let Some(message) = messages.blocking_recv() {
        // Twice: the first may find that the router is gone.
        for _ in 0..2 {
            if link.is_none() {
                link = routers.link("platform").ok();
            }
            let Some((tx, _)) = link.as_mut() else {
                continue;
            };
            match tx.publish(message.topic.clone(), message.payload.clone()) {
                Ok(_) => break,
                Err(_) => link = None,
            }
        }
    }
    if let Some((mut tx, _rx)) = link {
        farewell(&mut tx);
    }
}

/// Every session ends with a Disconnect. Nothing of it may be sent after it: a Ready for a session
/// that is gone kills the router.
fn farewell(tx: &mut LinkTx) {
    let disconnect = Disconnect {
        reason_code: DisconnectReasonCode::NormalDisconnection,
    };
    let _ = tx.send(Packet::Disconnect(disconnect, None)).now_or_never();
}

/// A listener's number; the router keeps something for each name it has ever heard, so names are
/// used again.
struct Slot {
    routers: Arc<Routers>,
    number: u32,
}

impl Slot {
    fn take(routers: &Arc<Routers>) -> Option<Self> {
        let number = locked(&routers.free).pop_first()?;
        Some(Self {
            routers: Arc::clone(routers),
            number,
        })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        locked(&self.routers.free).insert(self.number);
    }
}

/// One who listens.
pub struct Listener {
    tx: LinkTx,
    rx: LinkRx,
    remote: bool,
    /// Nothing is heard any more.
    ended: bool,
    // After the links: the name is free only once the Disconnect is on its way.
    _slot: Slot,
}

impl Listener {
    /// Listens to one more filter: [`LIVE_FILTER`], [`EVENT_FILTER`], or one of their topics.
    ///
    /// # Errors
    ///
    /// [`BusError::Filter`] for any other; [`BusError::Link`] when the router is gone.
    pub fn add(&mut self, filter: &str) -> Result<(), BusError> {
        if !may_be_heard(filter) {
            return Err(BusError::Filter(filter.to_owned()));
        }
        self.tx.subscribe(filter).map_err(Box::new)?;
        Ok(())
    }

    /// The next message. None when it must end: the router is gone, or a remote peer is too slow.
    /// Safe to cancel.
    pub async fn next(&mut self) -> Option<Message> {
        while !self.ended {
            match self.rx.next().await {
                Ok(notification) => {
                    if let Some(message) = self.hear(notification) {
                        return Some(message);
                    }
                }
                Err(_) => self.ended = true,
            }
        }
        None
    }

    /// A message that is there already.
    pub(super) fn cached(&mut self) -> Option<Message> {
        if self.ended {
            return None;
        }
        let notification = self.rx.recv_deadline(std::time::Instant::now()).ok()?;
        self.hear(notification)
    }

    fn hear(&mut self, notification: Option<Notification>) -> Option<Message> {
        match notification {
            Some(Notification::Forward(forward)) => {
                return Some(Message {
                    topic: forward.publish.topic,
                    payload: forward.publish.payload,
                });
            }
            Some(Notification::Unschedule) if self.remote => {
                metrics::counter!("furrow_bus_slow_total").increment(1);
                self.ended = true;
            }
            Some(Notification::Unschedule) => self.ended = self.rx.ready().is_err(),
            Some(Notification::Disconnect(..)) => self.ended = true,
            _ => {}
        }
        None
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        farewell(&mut self.tx);
    }
}

/// Whether this filter may be listened to: two fixed ones, and the topics under them.
#[must_use]
pub fn may_be_heard(filter: &str) -> bool {
    if filter == LIVE_FILTER || filter == EVENT_FILTER {
        return true;
    }
    let rest = filter
        .strip_prefix("furrow/v1/live/")
        .or_else(|| filter.strip_prefix("furrow/v1/event/"));
    rest.is_some_and(|rest| {
        (1..=64).contains(&rest.len())
            && rest
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    async fn hears(bus: &Bus, listener: &mut Listener, text: &str) {
        let machine = live_topic(Uuid::nil());
        let heard = timeout(PATIENCE, async {
            loop {
                // What was told before the router knew of the subscription is not heard.
                bus.publish(machine.clone(), Bytes::copy_from_slice(text.as_bytes()));
                let next = timeout(Duration::from_millis(20), listener.next()).await;
                if let Ok(Some(message)) = next
                    && message.payload == text.as_bytes()
                {
                    return message;
                }
            }
        });
        assert_eq!(heard.await.unwrap().topic, machine.as_bytes());
    }

    #[test]
    fn only_the_fixed_filters_and_their_topics_may_be_heard() {
        for good in [
            LIVE_FILTER,
            EVENT_FILTER,
            "furrow/v1/live/01939c3c-0000-7000-8000-000000000000",
        ] {
            assert!(may_be_heard(good), "{good}");
        }
        for bad in [
            "#",
            "+",
            "furrow/#",
            "furrow/v1/live/#",
            "furrow/v1/live/",
            "furrow/v1/+/up",
            "furrow/v1/7/down",
            "$share/g/furrow/v1/live/+",
            "furrow/v1/live/\u{e9}",
            "furrow/v1/live/a/b",
            "$SYS/broker",
        ] {
            assert!(!may_be_heard(bad), "{bad}");
        }
    }

    #[tokio::test]
    async fn what_is_told_is_heard_by_those_who_listen() {
        let bus = Bus::new().unwrap();
        let mut one = bus.listen(&[LIVE_FILTER]).await.unwrap();
        let mut other = bus.listen(&[&live_topic(Uuid::nil())]).await.unwrap();
        hears(&bus, &mut one, "a").await;
        hears(&bus, &mut other, "b").await;
    }

    #[tokio::test]
    async fn topics_that_have_killed_routers_are_dropped() {
        let bus = Bus::new().unwrap();
        let mut listener = bus.listen(&[LIVE_FILTER]).await.unwrap();
        for topic in ["\u{e9}/v1", "", "$SYS/x", "furrow/v1/live/+", "a\0b"] {
            bus.publish(topic.to_owned(), Bytes::from_static(b"x"));
        }
        hears(&bus, &mut listener, "still there").await;
        assert_eq!(bus.restarts(), 0);
    }

    #[tokio::test]
    async fn a_listener_that_lags_is_caught_up_inside_and_ended_when_remote() {
        let bus = Bus::new().unwrap();
        let mut inside = bus.listen(&[LIVE_FILTER]).await.unwrap();
        let mut remote = bus.listen_remote().await.unwrap();
        remote.add(LIVE_FILTER).unwrap();
        hears(&bus, &mut inside, "begin").await;
        hears(&bus, &mut remote, "begin").await;
        for n in 0..3000 {
            bus.publish(live_topic(Uuid::nil()), Bytes::from(format!("{n}")));
        }
        let ended = timeout(PATIENCE, async { while remote.next().await.is_some() {} });
        ended.await.unwrap();
        drop(remote);
        hears(&bus, &mut inside, "caught up").await;
        assert_eq!(bus.restarts(), 0);
    }

    #[tokio::test]
    async fn listeners_come_and_go_while_others_lag_and_the_router_lives() {
        let bus = Arc::new(Bus::new().unwrap());
        let mut steady = bus.listen(&[LIVE_FILTER]).await.unwrap();
        for round in 0..200_u32 {
            let mut listener = bus.listen_remote().await.unwrap();
            listener.add(LIVE_FILTER).unwrap();
            for _ in 0..250 {
                bus.publish(live_topic(Uuid::nil()), Bytes::from_static(b"flood"));
            }
            if round % 2 == 0 {
                let _ = timeout(Duration::from_millis(1), listener.next()).await;
            }
            drop(listener);
        }
        hears(&bus, &mut steady, "after the storm").await;
        assert_eq!(bus.restarts(), 0);
    }

    #[tokio::test]
    async fn there_is_an_end_to_listeners_and_their_places_come_back() {
        let bus = Bus::new().unwrap();
        let mut all = Vec::new();
        for _ in 0..LISTENERS {
            all.push(bus.listen(&[]).await.unwrap());
        }
        assert!(matches!(bus.listen(&[]).await, Err(BusError::Full)));
        all.clear();
        let mut again = bus.listen(&[LIVE_FILTER]).await.unwrap();
        hears(&bus, &mut again, "room").await;
    }

    #[tokio::test]
    async fn a_dead_router_is_replaced_and_the_bus_goes_on() {
        let bus = Bus::new().unwrap();
        let mut listener = bus.listen(&[LIVE_FILTER]).await.unwrap();
        hears(&bus, &mut listener, "before").await;
        // What our rules forbid: a Ready for a session that is gone.
        farewell(&mut listener.tx);
        let ended = timeout(PATIENCE, async {
            while listener.rx.ready().is_ok() {
                tokio::task::yield_now().await;
            }
        });
        ended.await.unwrap();
        assert!(timeout(PATIENCE, listener.next()).await.unwrap().is_none());
        let mut again = bus.listen(&[LIVE_FILTER]).await.unwrap();
        hears(&bus, &mut again, "after").await;
        assert!(bus.restarts() >= 1);
    }
}
