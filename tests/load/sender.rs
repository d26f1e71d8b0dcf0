//! One connection: sends the stock of its devices in their windows and takes the time from the send to the commit ack. Never counts a PUBACK.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use e2e::mqtt;
use furrow_protocol::down::Down;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::{Semaphore, watch},
    time::{sleep_until, timeout},
};

use crate::{latency::Latencies, sign::Stock};

/// How long the last acks may take after the end.
const LAST_ACKS: Duration = Duration::from_secs(30);
/// Keep-alive told to the server, s; longer than a run is never needed: something is always sent or awaited.
const KEEP_ALIVE_S: u16 = 600;

/// What all connections share.
pub struct Shared {
    /// Where to.
    pub server: std::net::SocketAddr,
    /// Most frames of a device that are not acked.
    pub window: usize,
    /// Time between two frames of a connection when paced.
    pub pace: Option<Duration>,
    /// True once time is taken.
    pub begin: watch::Receiver<bool>,
    /// Nothing more is sent.
    pub stop: AtomicBool,
    /// Frames acked so far.
    pub acked: AtomicU64,
    /// Connections made at a time.
    pub connecting: Semaphore,
    /// Connections that stand.
    pub connected: AtomicU64,
    /// Devices whose frames nobody has begun to send.
    pub waiting: Mutex<VecDeque<Arc<Stock>>>,
}

impl Shared {
    fn next_device(&self) -> Option<Arc<Stock>> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front()
    }
}

/// What a connection did.
#[derive(Default)]
pub struct Done {
    /// Frames sent.
    pub sent: u64,
    /// Frames acked.
    pub acked: u64,
    /// Frames that were refused.
    pub refused: u64,
    /// Send to commit ack.
    pub latencies: Latencies,
}

impl Done {
    /// Adds what another connection did.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.acked += other.acked;
        self.refused += other.refused;
        self.latencies.add(&other.latencies);
    }
}

/// Sends the stock of one device after the other until told to stop, or until none is left.
///
/// Errors: the network or the server.
pub async fn run(shared: Arc<Shared>, phase: f64) -> anyhow::Result<Done> {
    let mut done = Done::default();
    let mut first = true;
    while let Some(stock) = shared.next_device() {
        let mut link = Link::open(&shared, &stock, &mut done).await?;
        if std::mem::take(&mut first) {
            shared.connected.fetch_add(1, Ordering::Relaxed);
            let mut begin = shared.begin.clone();
            begin.wait_for(|begun| *begun).await?;
            if let Some(pace) = shared.pace {
                // Devices are not in step with each other.
                link.due = tokio::time::Instant::now() + pace.mul_f64(phase);
            }
        }
        if !link.send_all().await? {
            break;
        }
    }
    Ok(done)
}

struct Link<'a> {
    shared: &'a Shared,
    stock: &'a Stock,
    done: &'a mut Done,
    stream: TcpStream,
    topic: String,
    read: Vec<u8>,
    write: Vec<u8>,
    /// Next sequence to send.
    next: u64,
    /// What is sent and not acked, with the time of its sending.
    flying: Vec<Option<(u64, Instant)>>,
    in_flight: usize,
    due: tokio::time::Instant,
}

impl<'a> Link<'a> {
    async fn open(
        shared: &'a Shared,
        stock: &'a Stock,
        done: &'a mut Done,
    ) -> anyhow::Result<Self> {
        let _permit = shared.connecting.acquire().await?;
        let stream = TcpStream::connect(shared.server).await?;
        stream.set_nodelay(true)?;
        let mut link = Self {
            shared,
            stock,
            done,
            stream,
            topic: format!("furrow/v1/{}/up", stock.device),
            read: Vec::with_capacity(1024),
            write: Vec::with_capacity(4096),
            next: 1,
            flying: Vec::with_capacity(shared.window),
            in_flight: 0,
            due: tokio::time::Instant::now(),
        };
        let hello = mqtt::connect(stock.device.0, &stock.token, KEEP_ALIVE_S);
        link.stream.write_all(&hello).await?;
        if link.answer().await? != (0x20, 0) {
            bail!("device {} was not let in", stock.device);
        }
        let filter = format!("furrow/v1/{}/down", stock.device);
        link.stream.write_all(&mqtt::subscribe(&filter)).await?;
        if link.answer().await? != (0x90, 0) {
            bail!("device {} may not listen", stock.device);
        }
        Ok(link)
    }

    /// Kind and last byte of the next packet: the return code of CONNACK and SUBACK.
    async fn answer(&mut self) -> anyhow::Result<(u8, u8)> {
        loop {
            if let Some((kind, body, length)) = mqtt::split(&self.read)? {
                let answer = (kind, *body.last().context("an empty answer")?);
                self.read.drain(..length);
                return Ok(answer);
            }
            self.fill().await?;
        }
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        match self.stream.read_buf(&mut self.read).await? {
            0 => bail!(
                "the server closed the connection of device {}",
                self.stock.device
            ),
            _ => Ok(()),
        }
    }

    /// True when the device's stock is sent and acked, false when told to stop.
    async fn send_all(&mut self) -> anyhow::Result<bool> {
        let last = u64::try_from(self.stock.len())?;
        loop {
            let stopped = self.shared.stop.load(Ordering::Relaxed);
            if stopped || self.next > last {
                timeout(LAST_ACKS, self.last_acks())
                    .await
                    .with_context(|| {
                        format!("device {}: acks that never came", self.stock.device)
                    })??;
                self.stream.write_all(&mqtt::FAREWELL).await?;
                return Ok(!stopped);
            }
            self.put_window(last);
            if !self.write.is_empty() {
                self.stream.write_all(&self.write).await?;
                self.write.clear();
            }
            let room = self.in_flight < self.shared.window;
            tokio::select! {
                filled = self.stream.read_buf(&mut self.read) => {
                    if filled? == 0 {
                        bail!("the server closed the connection of device {}", self.stock.device);
                    }
                    self.take()?;
                }
                () = sleep_until(self.due), if room && self.shared.pace.is_some() => {}
            }
        }
    }

    /// Puts as many frames as the window and the pace allow.
    fn put_window(&mut self, last: u64) {
        let now = Instant::now();
        while self.in_flight < self.shared.window && self.next <= last {
            if let Some(pace) = self.shared.pace {
                if self.due > tokio::time::Instant::now() {
                    return;
                }
                self.due += pace;
            }
            let Some(frame) = self.stock.frame(self.next) else {
                return;
            };
            let id = u16::try_from(self.next % 65_535).unwrap_or(0) + 1;
            mqtt::put_publish(&mut self.write, &self.topic, id, frame);
            match self.flying.iter_mut().find(|slot| slot.is_none()) {
                Some(slot) => *slot = Some((self.next, now)),
                None => self.flying.push(Some((self.next, now))),
            }
            self.in_flight += 1;
            self.next += 1;
            self.done.sent += 1;
        }
    }

    async fn last_acks(&mut self) -> anyhow::Result<()> {
        while self.in_flight > 0 {
            self.fill().await?;
            self.take()?;
        }
        Ok(())
    }

    /// Takes every whole packet that has been read.
    fn take(&mut self) -> anyhow::Result<()> {
        let mut used = 0;
        let read = std::mem::take(&mut self.read);
        while let Some((kind, body, length)) = mqtt::split(read.get(used..).unwrap_or_default())? {
            used += length;
            if kind == 0x30 {
                let (_, payload) = mqtt::publish_parts(body).context("a publish")?;
                self.down(&Down::decode(payload)?);
            }
        }
        self.read = read;
        self.read.drain(..used);
        Ok(())
    }

    fn down(&mut self, down: &Down) {
        match down {
            Down::Ack { epoch, ranges } if *epoch == self.stock.epoch => {
                let now = Instant::now();
                for slot in &mut self.flying {
                    let Some((seq, sent)) = *slot else { continue };
                    if ranges
                        .iter()
                        .any(|(first, last)| (*first..=*last).contains(&seq))
                    {
                        *slot = None;
                        self.in_flight -= 1;
                        self.done.acked += 1;
                        self.shared.acked.fetch_add(1, Ordering::Relaxed);
                        self.done.latencies.note(now - sent);
                    }
                }
            }
            Down::Refused { .. } => self.done.refused += 1,
            Down::Ack { .. } | Down::Settings(_) => {}
        }
    }
}
