//! Behind a real Mosquitto: two processes share the load, acks reach the devices, restarts lose nothing, and holes in its access rules are found.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use furrow_platform::{
    ingest::arrival::Arrival,
    mqtt::{
        acl::{AclError, Probe, prove_acl},
        bus::{Bus, LIVE_FILTER, Message, live_topic},
        outside::{Outside, OutsideSettings},
        presence::Presence,
    },
};
use furrow_protocol::{down::Down, frame::Device};
use rumqttc::mqttbytes::v4::ConnectReturnCode;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    sync::mpsc,
    task::JoinHandle,
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::bench::{Client, PATIENCE, connect_of, down, frame, token, until, up};

const MOSQUITTO: &str = "/usr/sbin/mosquitto";

pub const STRICT: &str = "user platform
topic read furrow/v1/+/up
topic read furrow/v1/+/state
topic readwrite furrow/v1/+/down
topic readwrite furrow/v1/live/+
pattern write furrow/v1/%u/up
pattern write furrow/v1/%u/state
pattern read furrow/v1/%u/down
";

/// A broker of one test.
pub struct Broker {
    folder: tempfile::TempDir,
    pub address: SocketAddr,
    process: Child,
}

impl Broker {
    /// A broker with these access rules; None, said clearly, where Mosquitto is not installed.
    #[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
    pub async fn start(rules: &str, more: &str) -> Option<Self> {
        if !Path::new(MOSQUITTO).exists() {
            eprintln!(
                "{MOSQUITTO} is not present: the outside broker is not tested (apt install mosquitto)"
            );
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let mut passwords = String::from("platform:secret\n");
        for number in 1..=60 {
            passwords.push_str(&format!("{number}:{}\n", token(number)));
        }
        fs::write(file("passwords"), passwords).unwrap();
        let hashed = std::process::Command::new("mosquitto_passwd")
            .args(["-U", &file("passwords")])
            .status()
            .unwrap();
        assert!(hashed.success());
        fs::write(file("rules"), rules).unwrap();
        let conf = format!(
            "user root\nlistener {} 127.0.0.1\npassword_file {}\nacl_file {}\n{more}\n",
            address.port(),
            file("passwords"),
            file("rules"),
        );
        fs::write(file("conf"), conf).unwrap();
        let process = launch(&folder);
        let mut broker = Self {
            folder,
            address,
            process,
        };
        broker.ready().await;
        Some(broker)
    }

    async fn ready(&mut self) {
        let begin = Instant::now();
        while TcpStream::connect(self.address).await.is_err() {
            let ended = self.process.try_wait().unwrap();
            assert!(ended.is_none(), "mosquitto ended: {ended:?}");
            assert!(begin.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills it and starts it anew on the same port.
    async fn restart(&mut self) {
        self.process.kill().await.unwrap();
        self.process = launch(&self.folder);
        self.ready().await;
    }

    fn settings(&self, client_id: &str) -> OutsideSettings {
        OutsideSettings {
            url: format!("mqtt://{}", self.address),
            username: Some("platform".into()),
            password: Some("secret".into()),
            ca_file: None,
            share_group: "furrow".into(),
            client_id: client_id.into(),
        }
    }

    pub async fn device(&self, number: u32) -> Client<TcpStream> {
        let mut client = Client::dial(self.address).await;
        let admitted = client.knock(connect_of(number)).await.unwrap();
        assert_eq!(admitted, ConnectReturnCode::Success);
        assert_eq!(client.subscribe(&[&down(number)]).await, [1]);
        client
    }
}

fn launch(folder: &tempfile::TempDir) -> Child {
    Command::new(MOSQUITTO)
        .arg("-c")
        .arg(folder.path().join("conf"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// A platform process as far as the broker sees it.
struct Process {
    taken: Arc<Mutex<Vec<(u32, u64)>>>,
    /// While set, nothing is settled.
    stalls: Arc<AtomicBool>,
    states: mpsc::Receiver<(Device, Bytes)>,
    live: mpsc::Sender<Message>,
    bus: Arc<Bus>,
    presence: Arc<Presence>,
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Process {
    fn start(broker: &Broker, name: &str) -> Self {
        let (arrivals, mut received) = mpsc::channel::<Arrival>(64);
        let (said, states) = mpsc::channel(64);
        let bus = Arc::new(Bus::new().unwrap());
        let (outside, live) =
            Outside::new(broker.settings(name), arrivals, said, Arc::clone(&bus)).unwrap();
        let presence = outside.presence();
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(outside.run(shutdown.clone()));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let stalls = Arc::new(AtomicBool::new(false));
        let (note, stalled) = (Arc::clone(&taken), Arc::clone(&stalls));
        tokio::spawn(async move {
            while let Some(arrival) = received.recv().await {
                let seq = u64::from_be_bytes(arrival.payload[..8].try_into().unwrap());
                note.lock().unwrap().push((arrival.device.0, seq));
                if !stalled.load(Ordering::Relaxed) {
                    let ack = Down::Ack {
                        epoch: 9,
                        ranges: vec![(seq, seq)],
                    };
                    let ticket = arrival.ticket;
                    arrival.reply.settle(arrival.device, &[ticket], vec![ack]);
                }
            }
        });
        Self {
            taken,
            stalls,
            states,
            live,
            bus,
            presence,
            shutdown,
            running,
        }
    }

    fn count(&self) -> usize {
        self.taken.lock().unwrap().len()
    }
}

/// Sends a frame until it is acknowledged, as an agent does.
async fn until_answered(client: &mut Client<TcpStream>, number: u32, seq: u64) {
    let begin = Instant::now();
    loop {
        assert!(
            begin.elapsed() < PATIENCE,
            "frame {seq} of {number} is never acknowledged"
        );
        client.publish(&up(number), 1, frame(seq, 190)).await;
        let answered = timeout(Duration::from_millis(300), client.answered(number, 1, seq));
        if matches!(answered.await, Ok(Ok(()))) {
            return;
        }
    }
}

#[tokio::test]
async fn two_processes_share_the_frames_and_every_device_gets_its_acks() {
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let (one, other) = (
        Process::start(&broker, "one"),
        Process::start(&broker, "other"),
    );
    let mut first = broker.device(60).await;
    // Both have subscribed once each has taken something.
    let mut seq = 0;
    while one.count() == 0 || other.count() == 0 {
        seq += 1;
        until_answered(&mut first, 60, seq).await;
    }
    let (before_one, before_other) = (one.count(), other.count());
    let mut devices = tokio::task::JoinSet::new();
    for number in 1..=20 {
        let mut client = broker.device(number).await;
        devices.spawn(async move {
            for seq in 1..=30 {
                client.publish(&up(number), 2, frame(seq, 190)).await;
                client.answered(number, 2, seq).await.unwrap();
            }
        });
    }
    while let Some(done) = devices.join_next().await {
        done.unwrap();
    }
    let mut all = one.taken.lock().unwrap()[before_one..].to_vec();
    let shares = all.len();
    all.extend_from_slice(&other.taken.lock().unwrap()[before_other..]);
    assert_eq!(all.len(), 600, "each frame goes to one of them");
    assert!((100..=500).contains(&shares), "{shares} of 600");
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 600);
}

#[tokio::test]
async fn a_restarted_broker_is_found_again_and_frames_go_on() {
    let Some(mut broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let process = Process::start(&broker, "one");
    let mut client = broker.device(7).await;
    until_answered(&mut client, 7, 1).await;
    for seq in 2..=4 {
        broker.restart().await;
        let mut client = broker.device(7).await;
        until_answered(&mut client, 7, seq).await;
    }
    assert!(!process.running.is_finished());
}

#[tokio::test]
async fn frames_that_are_never_settled_do_not_hold_up_others_for_long() {
    let Some(broker) = Broker::start(STRICT, "max_inflight_messages 10").await else {
        return;
    };
    let process = Process::start(&broker, "one");
    let mut client = broker.device(7).await;
    until_answered(&mut client, 7, 1).await;
    process.stalls.store(true, Ordering::Relaxed);
    let before = process.count();
    for seq in 2..=40 {
        client.publish(&up(7), seq, frame(seq.into(), 190)).await;
    }
    until("the broker's window is full", || {
        process.count() >= before + 10
    })
    .await;
    process.stalls.store(false, Ordering::Relaxed);
    let mut other = broker.device(8).await;
    until_answered(&mut other, 8, 1).await;
}

#[tokio::test]
async fn a_process_that_ends_leaves_the_frames_to_the_other() {
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let (one, other) = (
        Process::start(&broker, "one"),
        Process::start(&broker, "other"),
    );
    let mut client = broker.device(7).await;
    let mut seq = 0;
    while one.count() == 0 || other.count() == 0 {
        seq += 1;
        until_answered(&mut client, 7, seq).await;
    }
    one.shutdown.cancel();
    timeout(PATIENCE, one.running).await.unwrap().unwrap();
    for seq in seq + 1..seq + 20 {
        until_answered(&mut client, 7, seq).await;
    }
}

#[tokio::test]
async fn health_presence_and_positions_reach_the_processes() {
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let (mut one, other) = (
        Process::start(&broker, "one"),
        Process::start(&broker, "other"),
    );
    let mut client = broker.device(7).await;
    let mut seq = 0;
    while one.count() == 0 || other.count() == 0 {
        seq += 1;
        until_answered(&mut client, 7, seq).await;
    }
    let changes = timeout(PATIENCE, one.presence.changed()).await.unwrap();
    assert!(changes.iter().any(|c| c.device.0 == 7 && c.online));
    other.shutdown.cancel();
    timeout(PATIENCE, other.running).await.unwrap().unwrap();
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < PATIENCE);
        client.publish("furrow/v1/7/state", 0, vec![1, 2]).await;
        let said = timeout(Duration::from_millis(100), one.states.recv()).await;
        if let Ok(Some((device, bytes))) = said {
            assert_eq!((device.0, &bytes[..]), (7, &[1, 2][..]));
            break;
        }
    }
    // A position told by one process is heard on the bus of another.
    let third = Process::start(&broker, "third");
    let mut listener = third.bus.listen(&[LIVE_FILTER]).await.unwrap();
    let message = Message {
        topic: live_topic(Uuid::nil()).into(),
        payload: Bytes::from_static(b"here"),
    };
    loop {
        assert!(begin.elapsed() < PATIENCE);
        one.live.send(message.clone()).await.unwrap();
        if let Ok(heard) = timeout(Duration::from_millis(100), listener.next()).await {
            assert_eq!(heard.unwrap(), message);
            break;
        }
    }
}

async fn proof(rules: &str, more: &str) -> Option<Result<(), AclError>> {
    let broker = Broker::start(rules, more).await?;
    let probe = Probe {
        device: Device(7),
        password: token(7),
    };
    Some(prove_acl(&broker.settings("check"), &probe).await)
}

#[tokio::test]
async fn strict_rules_are_proven() {
    if let Some(proven) = proof(STRICT, "").await {
        proven.unwrap();
    }
}

#[tokio::test]
async fn a_broker_that_lets_devices_write_down_is_found_out() {
    let loose = format!("{STRICT}pattern readwrite furrow/v1/%u/down\n");
    let Some(proven) = proof(&loose, "").await else {
        return;
    };
    match proven {
        Err(AclError::MayWrite { who, topic }) => {
            assert_eq!((who, topic), ("a device", down(7)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_broker_that_lets_devices_write_for_each_other_is_found_out() {
    let loose = format!("{STRICT}pattern write furrow/v1/+/up\n");
    if let Some(proven) = proof(&loose, "").await {
        assert!(
            matches!(&proven, Err(AclError::MayWrite { topic, .. }) if *topic == up(u32::MAX)),
            "{proven:?}"
        );
    }
}

#[tokio::test]
async fn a_broker_that_lets_devices_read_each_others_down_is_found_out() {
    let loose = format!("{STRICT}pattern read furrow/v1/+/down\n");
    if let Some(proven) = proof(&loose, "").await {
        assert!(matches!(proven, Err(AclError::MayRead(_))), "{proven:?}");
    }
}

#[tokio::test]
async fn a_broker_that_lets_nameless_clients_write_is_found_out() {
    let loose = format!("topic readwrite furrow/#\n{STRICT}");
    if let Some(proven) = proof(&loose, "allow_anonymous true").await {
        assert!(
            matches!(&proven, Err(AclError::MayWrite { who, .. }) if who.contains("without")),
            "{proven:?}"
        );
    }
}

#[tokio::test]
async fn nothing_is_proven_where_the_platform_may_not_write_or_the_probe_not_enter() {
    let mute = STRICT.replace(
        "topic readwrite furrow/v1/+/down",
        "topic read furrow/v1/+/down",
    );
    if let Some(proven) = proof(&mute, "").await {
        assert!(
            matches!(proven, Err(AclError::PlatformMayNot(_))),
            "{proven:?}"
        );
    }
    let Some(broker) = Broker::start(STRICT, "").await else {
        return;
    };
    let probe = Probe {
        device: Device(7),
        password: "guess".into(),
    };
    let proven = prove_acl(&broker.settings("check"), &probe).await;
    assert!(
        matches!(proven, Err(AclError::Connect { .. })),
        "{proven:?}"
    );
}
