//! A gate on free ports, a register in memory, an ingest that settles when it is told, and clients that speak raw MQTT.

use std::{
    collections::{HashMap, HashSet},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use furrow_platform::{
    ingest::arrival::Arrival,
    mqtt::{
        gate::{Gate, GateSettings},
        presence::Presence,
        register::{Boxed, Refusal, Register},
    },
};
use furrow_protocol::{down::Down, frame::Device};
use rumqttc::mqttbytes::{
    Error, QoS,
    v4::{Connect, ConnectReturnCode, Login, Packet, Publish, Subscribe},
};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long anything may take before a test says that it does not happen.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The epoch of all frames here.
const EPOCH: u64 = 9;

/// A register that is set by hand. Every device 1 ..= 100,000 is known by [`token`].
#[derive(Default)]
pub struct Book {
    pub keys: Mutex<HashMap<[u8; 32], u32>>,
    pub revoked: Mutex<HashSet<u32>>,
    /// Answers nothing while set.
    pub away: Mutex<bool>,
}

/// Every device's token.
pub fn token(device: u32) -> String {
    format!("{device:064x}")
}

impl Book {
    fn known(&self, device: u32) -> Result<Device, Refusal> {
        if self.revoked.lock().unwrap().contains(&device) {
            Err(Refusal::Revoked)
        } else {
            Ok(Device(device))
        }
    }
}

impl Register for Book {
    fn by_key(&self, public_key: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>> {
        Box::pin(async move {
            let number = self.keys.lock().unwrap().get(&public_key).copied();
            self.known(number.ok_or(Refusal::Unknown)?)
        })
    }

    fn by_token<'a>(
        &'a self,
        device: Device,
        shown: &'a [u8],
    ) -> Boxed<'a, Result<Device, Refusal>> {
        Box::pin(async move {
            if *self.away.lock().unwrap() {
                return std::future::pending().await;
            }
            if !(1..=100_000).contains(&device.0) || shown != token(device.0).as_bytes() {
                return Err(Refusal::Unknown);
            }
            self.known(device.0)
        })
    }

    fn revoked(&self, device: Device) -> bool {
        self.revoked.lock().unwrap().contains(&device.0)
    }
}

/// What ingest does with a device's frames.
#[derive(Default)]
struct Ingest {
    /// Kept and not answered.
    held: Mutex<HashSet<u32>>,
    kept: Mutex<Vec<Arrival>>,
    taken: AtomicU64,
}

/// A frame's stand-in: a sequence, and something to fill it up.
pub fn frame(seq: u64, size: usize) -> Vec<u8> {
    let mut bytes = seq.to_be_bytes().to_vec();
    bytes.resize(size.max(8), 0xa5);
    bytes
}

fn settle(arrival: &Arrival) {
    let seq = arrival
        .payload
        .get(..8)
        .map_or(0, |b| u64::from_be_bytes(b.try_into().unwrap()));
    let ack = Down::Ack {
        epoch: EPOCH,
        ranges: vec![(seq.max(1), seq.max(1))],
    };
    arrival
        .reply
        .settle(arrival.device, &[arrival.ticket], vec![ack]);
}

/// A gate that runs.
pub struct Bench {
    pub book: Arc<Book>,
    pub plain: SocketAddr,
    pub tls: Option<SocketAddr>,
    pub presence: Arc<Presence>,
    pub states: mpsc::Receiver<(Device, Bytes)>,
    pub shutdown: CancellationToken,
    pub gate: JoinHandle<()>,
    ingest: Arc<Ingest>,
}

/// How a gate is opened.
pub struct Opening {
    pub tls: Option<Arc<ServerConfig>>,
    pub max_connections: usize,
    pub max_per_address: usize,
    /// Frames that ingest takes before it is full.
    pub queue: usize,
    /// Nobody takes frames from the queue.
    pub stuck: bool,
}

impl Default for Opening {
    fn default() -> Self {
        Self {
            tls: None,
            max_connections: 5_000,
            max_per_address: 5_000,
            queue: 4_096,
            stuck: false,
        }
    }
}

pub fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Opening {
    pub async fn open(self) -> Bench {
        self.open_with(|gate| gate).await
    }

    pub async fn open_with(self, with: impl FnOnce(Gate) -> Gate) -> Bench {
        let book = Arc::new(Book::default());
        let ingest = Arc::new(Ingest::default());
        let (arrivals, mut received) = mpsc::channel::<Arrival>(self.queue);
        let (said, states) = mpsc::channel(64);
        let settings = GateSettings {
            listen: Some(any_port()),
            tls: self.tls.map(|config| (any_port(), config)),
            max_connections: self.max_connections,
            max_per_address: self.max_per_address,
        };
        let register = Arc::clone(&book);
        let gate = with(
            Gate::bind(settings, register, arrivals, said)
                .await
                .unwrap(),
        );
        let (plain, tls, presence) = (gate.plain_addr().unwrap(), gate.tls_addr(), gate.presence());
        let shutdown = CancellationToken::new();
        let gate = tokio::spawn(gate.run(shutdown.clone()));
        let taker = Arc::clone(&ingest);
        tokio::spawn(async move {
            if self.stuck {
                return std::future::pending().await;
            }
            while let Some(arrival) = received.recv().await {
                if taker.held.lock().unwrap().contains(&arrival.device.0) {
                    taker.kept.lock().unwrap().push(arrival);
                } else {
                    settle(&arrival);
                }
                taker.taken.fetch_add(1, Ordering::Relaxed);
            }
        });
        Bench {
            book,
            plain,
            tls,
            presence,
            states,
            shutdown,
            gate,
            ingest,
        }
    }
}

impl Bench {
    /// A gate with nothing special.
    pub async fn open() -> Self {
        Opening::default().open().await
    }

    /// From now on a device's frames are kept and not answered.
    pub fn hold(&self, device: u32) {
        self.ingest.held.lock().unwrap().insert(device);
    }

    /// How many frames of a device are kept.
    pub fn kept(&self, device: u32) -> usize {
        let kept = self.ingest.kept.lock().unwrap();
        kept.iter().filter(|a| a.device.0 == device).count()
    }

    /// Settles what is kept, in the order that `order` puts it in.
    pub fn release(&self, order: impl FnOnce(&mut Vec<Arrival>)) -> usize {
        let mut kept = std::mem::take(&mut *self.ingest.kept.lock().unwrap());
        order(&mut kept);
        kept.iter().for_each(settle);
        kept.len()
    }

    /// A device's plain connection, admitted and subscribed.
    pub async fn device(&self, number: u32) -> Client<TcpStream> {
        let mut client = Client::dial(self.plain).await;
        client.enter(number, 60).await;
        client
    }
}

/// Waits until it holds.
pub async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < PATIENCE,
            "not within {PATIENCE:?}: {what}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A client that sends what it is told to.
pub struct Client<S> {
    pub stream: S,
    read: BytesMut,
}

/// A CONNECT of a device.
pub fn connect_of(number: u32) -> Connect {
    let mut connect = Connect::new(format!("furrow-{number}"));
    connect.login = Some(Login::new(number.to_string(), token(number)));
    connect.keep_alive = 60;
    connect
}

pub fn bytes_of(packet: &Packet) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    packet.write(&mut bytes, usize::MAX).unwrap();
    bytes.to_vec()
}

pub fn publish_of(topic: &str, pkid: u16, payload: Vec<u8>) -> Publish {
    let qos = if pkid == 0 {
        QoS::AtMostOnce
    } else {
        QoS::AtLeastOnce
    };
    let mut publish = Publish::new(topic, qos, payload);
    publish.pkid = pkid;
    publish
}

pub fn up(number: u32) -> String {
    format!("furrow/v1/{number}/up")
}

pub fn down(number: u32) -> String {
    format!("furrow/v1/{number}/down")
}

impl Client<TcpStream> {
    pub async fn dial(to: SocketAddr) -> Self {
        let stream = timeout(PATIENCE, TcpStream::connect(to)).await.unwrap();
        let stream = stream.unwrap();
        stream.set_nodelay(true).unwrap();
        Self::over(stream)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn over(stream: S) -> Self {
        Self {
            stream,
            read: BytesMut::new(),
        }
    }

    /// Sends bytes; a peer that has closed already is no fault of the test.
    pub async fn raw(&mut self, bytes: &[u8]) {
        let _ = timeout(PATIENCE, self.stream.write_all(bytes))
            .await
            .unwrap();
        let _ = self.stream.flush().await;
    }

    pub async fn send(&mut self, packet: Packet) {
        self.raw(&bytes_of(&packet)).await;
    }

    /// The next packet; an error once the other side has closed.
    pub async fn try_next(&mut self) -> io::Result<Packet> {
        timeout(PATIENCE, async {
            loop {
                match Packet::read(&mut self.read, usize::MAX) {
                    Ok(packet) => return Ok(packet),
                    Err(Error::InsufficientBytes(_)) => {}
                    Err(error) => return Err(io::Error::other(error)),
                }
                if self.stream.read_buf(&mut self.read).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        })
        .await
        .expect("a packet or the end of the connection")
    }

    pub async fn next(&mut self) -> Packet {
        self.try_next().await.unwrap()
    }

    /// What has come by now, and whatever comes with it: the bytes of one read.
    pub async fn one_read(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let count = timeout(PATIENCE, self.stream.read(&mut bytes))
            .await
            .unwrap()
            .unwrap();
        bytes.truncate(count);
        bytes
    }

    /// Whether nothing comes for a moment.
    pub async fn is_quiet(&mut self) -> bool {
        self.read.is_empty()
            && timeout(
                Duration::from_millis(200),
                self.stream.read_buf(&mut self.read),
            )
            .await
            .is_err()
    }

    /// Waits for the other side to close; nothing but pings and acks may come before.
    pub async fn closed(&mut self) {
        while let Ok(packet) = self.try_next().await {
            assert!(
                !matches!(packet, Packet::ConnAck(_) | Packet::SubAck(_)),
                "{packet:?}"
            );
        }
    }

    /// CONNECT, and the code that comes back.
    pub async fn knock(&mut self, connect: Connect) -> io::Result<ConnectReturnCode> {
        self.send(Packet::Connect(connect)).await;
        match self.try_next().await? {
            Packet::ConnAck(ack) => {
                assert!(!ack.session_present);
                Ok(ack.code)
            }
            other => panic!("{other:?} instead of CONNACK"),
        }
    }

    /// Is admitted and subscribes its own `down`.
    pub async fn enter(&mut self, number: u32, keep_alive: u16) {
        let mut connect = connect_of(number);
        connect.keep_alive = keep_alive;
        assert_eq!(
            self.knock(connect).await.unwrap(),
            ConnectReturnCode::Success
        );
        assert_eq!(self.subscribe(&[&down(number)]).await, [0]);
    }

    /// Subscribes, and the codes that come back.
    pub async fn subscribe(&mut self, filters: &[&str]) -> Vec<u8> {
        let mut subscribe = Subscribe::new(filters[0], QoS::AtLeastOnce);
        for filter in &filters[1..] {
            subscribe.add((*filter).to_owned(), QoS::AtMostOnce);
        }
        subscribe.pkid = 77;
        self.send(Packet::Subscribe(subscribe)).await;
        match self.next().await {
            Packet::SubAck(ack) => {
                assert_eq!(ack.pkid, 77);
                let mut bytes = BytesMut::new();
                ack.write(&mut bytes).unwrap();
                bytes[4..].to_vec()
            }
            other => panic!("{other:?} instead of SUBACK"),
        }
    }

    pub async fn publish(&mut self, topic: &str, pkid: u16, payload: Vec<u8>) {
        self.send(Packet::Publish(publish_of(topic, pkid, payload)))
            .await;
    }

    /// The PUBACK and the Ack of a frame, in either order.
    pub async fn answered(&mut self, number: u32, pkid: u16, seq: u64) -> io::Result<()> {
        let (mut puback, mut ack) = (pkid == 0, false);
        while !(puback && ack) {
            match self.try_next().await? {
                Packet::PubAck(p) if p.pkid == pkid => puback = true,
                Packet::Publish(p) if p.topic == down(number) => {
                    let told = Down::decode(&p.payload).unwrap();
                    let expected = Down::Ack {
                        epoch: EPOCH,
                        ranges: vec![(seq, seq)],
                    };
                    assert_eq!(told, expected);
                    ack = true;
                }
                Packet::PingResp => {}
                other => panic!("{other:?} instead of an answer to {pkid}/{seq}"),
            }
        }
        Ok(())
    }

    /// Whether a PINGREQ is answered; other packets are passed over.
    pub async fn pings(&mut self) -> bool {
        self.send(Packet::PingReq).await;
        loop {
            match self.try_next().await {
                Ok(Packet::PingResp) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }
}

/// Two good devices that work while others attack: one on a connection that it keeps, one that comes
/// in anew each time.
pub struct Witness {
    steady: Arc<AtomicU64>,
    fresh: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

const STEADY: u32 = 90_001;
const FRESH: u32 = 90_002;

impl Witness {
    pub async fn begin(bench: &Bench) -> Self {
        let (steady, fresh) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut client = bench.device(STEADY).await;
        let rounds = Arc::clone(&steady);
        let one = tokio::spawn(async move {
            for seq in 1_u64.. {
                let pkid = u16::try_from(seq % 65_535).unwrap() + 1;
                client.publish(&up(STEADY), pkid, frame(seq, 190)).await;
                client.answered(STEADY, pkid, seq).await.unwrap();
                assert!(client.pings().await);
                rounds.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        let (to, rounds) = (bench.plain, Arc::clone(&fresh));
        let other = tokio::spawn(async move {
            for seq in 1_u64.. {
                let mut client = Client::dial(to).await;
                client.enter(FRESH, 60).await;
                client.publish(&up(FRESH), 1, frame(seq, 190)).await;
                client.answered(FRESH, 1, seq).await.unwrap();
                client.send(Packet::Disconnect).await;
                client.closed().await;
                rounds.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let witness = Self {
            steady,
            fresh,
            tasks: vec![one, other],
        };
        witness.both_work().await;
        witness
    }

    /// The one that keeps its connection works now.
    pub async fn steady_works(&self) {
        self.goes_on(&self.steady, 0).await;
    }

    /// Both work now.
    pub async fn both_work(&self) {
        self.goes_on(&self.steady, 0).await;
        self.goes_on(&self.fresh, 1).await;
    }

    async fn goes_on(&self, rounds: &AtomicU64, task: usize) {
        let begin = rounds.load(Ordering::Relaxed);
        until("a good device works", || {
            assert!(!self.tasks[task].is_finished(), "a good device was put out");
            rounds.load(Ordering::Relaxed) >= begin + 3
        })
        .await;
    }

    /// The one that comes anew stops coming.
    pub fn no_more_fresh(&self) {
        self.tasks[1].abort();
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}
