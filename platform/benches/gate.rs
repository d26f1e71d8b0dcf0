//! The gate alone, under load from another process: messages a second, connections a second, memory a connection. Never touches a database: what arrives is settled at once, in groups as ingest does.
//!
//! `cargo bench -p furrow-platform --bench gate -- [--tls] [--connections N] [--seconds S] [--window W]`
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a rig: it prints its figures, and ends where it cannot go on"
)]

use std::{
    collections::HashMap,
    io::Write as _,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{BufMut as _, BytesMut};
use chrono::Utc;
use ed25519_dalek::{SigningKey, pkcs8::EncodePrivateKey as _};
use furrow_platform::{
    app::authority::Authority,
    ingest::arrival::Arrival,
    mqtt::{
        gate::{Gate, GateSettings},
        register::{Boxed, Refusal, Register},
        tls::TlsFiles,
    },
};
use furrow_protocol::{down::acks, frame::Device};
use rumqttc::mqttbytes::{
    QoS,
    v4::{Connect, Login, Packet, Subscribe},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Barrier, mpsc},
};
use tokio_util::sync::CancellationToken;

/// Bytes of a frame, as telemetry has them on average.
const FRAME: usize = 190;

#[derive(Debug, Clone)]
struct Args {
    tls: bool,
    connections: u32,
    seconds: u64,
    window: u16,
    /// Set in the generator: where to connect, and where the certificates lie.
    generate: Option<(SocketAddr, PathBuf)>,
}

fn args() -> Args {
    let all: Vec<String> = std::env::args().collect();
    let value = |name: &str| {
        let at = all.iter().position(|a| a == name)?;
        all.get(at + 1).cloned()
    };
    let number =
        |name: &str, default: u64| value(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    Args {
        tls: all.iter().any(|a| a == "--tls"),
        connections: u32::try_from(number("--connections", 2000)).unwrap(),
        seconds: number("--seconds", 10),
        window: u16::try_from(number("--window", 16)).unwrap(),
        generate: value("--to").map(|to| (to.parse().unwrap(), value("--folder").unwrap().into())),
    }
}

fn main() {
    let args = args();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    match args.generate.clone() {
        Some((to, folder)) => runtime.block_on(generate(&args, to, &folder)),
        None => runtime.block_on(measure(&args)),
    }
}

fn key_of(number: u32) -> SigningKey {
    let mut seed = [7; 32];
    seed[..4].copy_from_slice(&number.to_be_bytes());
    SigningKey::from_bytes(&seed)
}

struct Everybody(HashMap<[u8; 32], u32>);

impl Register for Everybody {
    fn by_key(&self, key: [u8; 32]) -> Boxed<'_, Result<Device, Refusal>> {
        let known = self.0.get(&key).copied().map(Device);
        Box::pin(async move { known.ok_or(Refusal::Unknown) })
    }

    fn by_token<'a>(&'a self, device: Device, _: &'a [u8]) -> Boxed<'a, Result<Device, Refusal>> {
        Box::pin(async move { Ok(device) })
    }

    fn revoked(&self, _: Device) -> bool {
        false
    }
}

/// Resident memory, KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// An authority in a folder, for both processes.
fn authority(folder: &Path) -> TlsFiles {
    let authority = Authority::open(folder, Utc::now()).unwrap();
    authority
        .renew_server(&["localhost".to_owned()], Utc::now())
        .unwrap();
    let files = authority.files();
    TlsFiles {
        authority: files.authority,
        certificate: files.certificate,
        key: files.key,
    }
}

/// A gate for everybody on free ports.
async fn open(args: &Args, files: &TlsFiles, arrivals: mpsc::Sender<Arrival>) -> Gate {
    let any: SocketAddr = ([127, 0, 0, 1], 0).into();
    let keys = (1..=args.connections).map(|n| (key_of(n).verifying_key().to_bytes(), n));
    let register = Everybody(if args.tls {
        keys.collect()
    } else {
        HashMap::new()
    });
    let settings = GateSettings {
        listen: Some(any),
        tls: Some((any, files.for_machines().unwrap())),
        max_connections: 1_000_000,
        max_per_address: 1_000_000,
    };
    let (states, _said) = mpsc::channel(8);
    Gate::bind(settings, Arc::new(register), arrivals, states)
        .await
        .unwrap()
}

/// The other process; it says when all are connected, and begins at a word.
fn generator(args: &Args, to: SocketAddr, folder: &Path) -> Child {
    let mut generator = Command::new(std::env::current_exe().unwrap());
    generator.args(["--to", &to.to_string(), "--folder"]);
    generator.arg(folder);
    generator.args(["--connections", &args.connections.to_string()]);
    generator.args(["--window", &args.window.to_string()]);
    if args.tls {
        generator.arg("--tls");
    }
    generator.stdin(Stdio::piped()).stdout(Stdio::piped());
    generator.spawn().unwrap()
}

async fn measure(args: &Args) {
    let folder = tempfile::tempdir().unwrap();
    let files = authority(folder.path());
    let (arrivals, received) = mpsc::channel(8192);
    let gate = open(args, &files, arrivals).await;
    let to = if args.tls {
        gate.tls_addr()
    } else {
        gate.plain_addr()
    };
    let shutdown = CancellationToken::new();
    let running = tokio::spawn(gate.run(shutdown.clone()));
    let count = Arc::new(AtomicU64::new(0));
    tokio::spawn(settle(received, Arc::clone(&count)));

    let empty = resident();
    let mut child = generator(args, to.unwrap(), folder.path());
    let out = tokio::process::ChildStdout::from_std(child.stdout.take().unwrap()).unwrap();
    let mut lines = tokio::io::BufReader::new(out).lines();
    let connected = lines.next_line().await.unwrap().unwrap();
    let each = (resident() - empty) * 1024 / u64::from(args.connections);
    println!(
        "{} connections in {connected} s, {each} bytes each",
        args.connections
    );
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"go\n").unwrap();
    under_load(args, &count).await;
    child.kill().unwrap();
    child.wait().unwrap();
    shutdown.cancel();
    running.await.unwrap();
}

async fn under_load(args: &Args, count: &AtomicU64) {
    let (begin, cpu) = (Instant::now(), cpu_seconds());
    tokio::time::sleep(Duration::from_secs(args.seconds)).await;
    let messages = count.load(Ordering::Relaxed);
    let (took, used) = (begin.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    #[expect(clippy::cast_precision_loss, reason = "a figure to print")]
    let messages = messages as f64;
    println!(
        "{:.0} messages/s, {:.1} us of the gate's CPU each, {} KiB resident",
        messages / took,
        used * 1e6 / messages,
        resident()
    );
}

/// CPU of this process so far, s.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Answers in groups, one settling a session and group.
async fn settle(mut received: mpsc::Receiver<Arrival>, count: Arc<AtomicU64>) {
    let mut group: Vec<Arrival> = Vec::new();
    let mut seq = 0;
    while received.recv_many(&mut group, 2000).await > 0 {
        count.fetch_add(u64::try_from(group.len()).unwrap(), Ordering::Relaxed);
        let mut by_session: HashMap<usize, (Arrival, Vec<u64>)> = HashMap::new();
        for arrival in group.drain(..) {
            let session = Arc::as_ptr(&arrival.reply).cast::<()>() as usize;
            let ticket = arrival.ticket;
            let of = by_session.entry(session).or_insert((arrival, Vec::new()));
            of.1.push(ticket);
        }
        for (arrival, tickets) in by_session.into_values() {
            seq += 1;
            arrival
                .reply
                .settle(arrival.device, &tickets, acks(9, vec![seq]));
        }
    }
}

/// The other process: connects all, says how long it took, and at the word sends for ever.
async fn generate(args: &Args, to: SocketAddr, folder: &Path) {
    let tls = args.tls.then(|| tls_of(folder));
    let begin = Instant::now();
    let all = Arc::new(Barrier::new(usize::try_from(args.connections).unwrap() + 1));
    let go = CancellationToken::new();
    for number in 1..=args.connections {
        let (all, go, window, tls) = (Arc::clone(&all), go.clone(), args.window, tls.clone());
        tokio::spawn(async move {
            let stream = TcpStream::connect(to).await.unwrap();
            stream.set_nodelay(true).unwrap();
            match tls {
                None => device(stream, number, window, &all, &go).await,
                Some((roots, authority)) => {
                    let stream = handshake(stream, number, roots, &authority).await;
                    device(stream, number, window, &all, &go).await;
                }
            }
        });
    }
    all.wait().await;
    println!("{:.2}", begin.elapsed().as_secs_f64());
    word().await;
    go.cancel();
    word().await;
}

/// Waits for a line from the other process.
async fn word() {
    let read = || std::io::stdin().read_line(&mut String::new());
    tokio::task::spawn_blocking(read).await.unwrap().unwrap();
}

type Tls = (RootCertStore, Arc<Authority>);

fn tls_of(folder: &Path) -> Tls {
    let authority = Authority::open(folder, Utc::now()).unwrap();
    let mut roots = RootCertStore::empty();
    let pem = authority.certificate_pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    (roots, Arc::new(authority))
}

async fn handshake(
    stream: TcpStream,
    number: u32,
    roots: RootCertStore,
    authority: &Authority,
) -> tokio_rustls::client::TlsStream<TcpStream> {
    let key = key_of(number);
    let public = key.verifying_key().to_bytes();
    let pem = authority
        .device_certificate(number, &public, Utc::now())
        .unwrap();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::try_from(key.to_pkcs8_der().unwrap().as_bytes().to_vec()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

async fn device<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    number: u32,
    window: u16,
    all: &Barrier,
    go: &CancellationToken,
) {
    let mut out = BytesMut::new();
    let mut connect = Connect::new(format!("furrow-{number}"));
    connect.login = Some(Login::new(number.to_string(), "0".repeat(64)));
    connect.keep_alive = 600;
    connect.write(&mut out).unwrap();
    let mut subscribe = Subscribe::new(format!("furrow/v1/{number}/down"), QoS::AtLeastOnce);
    subscribe.pkid = 1;
    subscribe.write(&mut out).unwrap();
    stream.write_all(&out).await.unwrap();
    let mut read = BytesMut::with_capacity(4096);
    // CONNACK and SUBACK are 4 and 5 bytes.
    while read.len() < 9 {
        stream.read_buf(&mut read).await.unwrap();
    }
    read.clear();
    all.wait().await;
    go.cancelled().await;
    let topic = format!("furrow/v1/{number}/up");
    let mut next: u16 = 0;
    let mut owed = window;
    loop {
        out.clear();
        for _ in 0..owed {
            next = next % u16::MAX + 1;
            put_frame(&mut out, &topic, next);
        }
        stream.write_all(&out).await.unwrap();
        owed = 0;
        while owed == 0 {
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
            while let Ok(packet) = Packet::read(&mut read, 1 << 16) {
                owed += u16::from(matches!(packet, Packet::PubAck(_)));
            }
        }
    }
}

fn put_frame(out: &mut BytesMut, topic: &str, pkid: u16) {
    let length = 2 + topic.len() + 2 + FRAME;
    out.put_u8(0x32);
    out.put_u8(u8::try_from(length % 128).unwrap() | 0x80);
    out.put_u8(u8::try_from(length / 128).unwrap());
    out.put_u16(u16::try_from(topic.len()).unwrap());
    out.put_slice(topic.as_bytes());
    out.put_u16(pkid);
    out.put_bytes(0x5a, FRAME);
}
