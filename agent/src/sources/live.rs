//! Receivers that tell where they are as it happens: serial ports, TCP, UDP, gpsd, pipes. Never gives up: what is gone is tried again, and its absence is told.

use std::{
    io::{self, Read as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    sync::mpsc,
    time::{sleep, timeout},
};
use tokio_serial::SerialPortBuilderExt as _;

use super::{Event, Timed, gpsd, nmea};
use crate::{
    clock::{FLOOR, SharedClock},
    config::SourceConfig,
};

/// So often is looked whether an epoch is to be closed.
const TICK: Duration = Duration::from_millis(250);
/// A receiver that tells nothing for so long is absent, ms.
const STALE_MS: u64 = 5_000;
/// A connection takes at most so long.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause before a receiver that is gone is tried again.
const PAUSE: Duration = Duration::from_secs(2);
const BUFFER: usize = 4096;
const WATCH: &[u8] = b"?WATCH={\"enable\":true,\"json\":true};\n";

/// Where events go. What is full holds the source up; a serial port's own buffer is behind it.
pub type Out = mpsc::Sender<Timed>;

/// Why a source must end: nobody listens any more.
struct Unheard;

/// Reads a live source for ever; ends when nobody listens.
pub async fn run(config: &SourceConfig, clock: SharedClock, out: Out) {
    let mut source = Source {
        reader: nmea::Reader::live(FLOOR),
        gpsd: None,
        heard_ms: clock.monotonic_ms(),
        absent: false,
        clock,
        out,
    };
    let _ = match config {
        SourceConfig::Gpsd { address } => source.tcp(address, true).await,
        SourceConfig::Tcp { address } => source.tcp(address, false).await,
        SourceConfig::Serial { path, baud } => source.serial(path, *baud).await,
        SourceConfig::Udp { listen } => source.udp(listen).await,
        SourceConfig::File { path } => source.pipe(Some(path.clone())).await,
        SourceConfig::Stdin => source.pipe(None).await,
        // Not a receiver: driven by `sources::timed`.
        SourceConfig::Simulator { .. } => Ok(()),
    };
}

struct Source {
    reader: nmea::Reader,
    gpsd: Option<gpsd::Reader>,
    heard_ms: u64,
    absent: bool,
    clock: SharedClock,
    out: Out,
}

impl Source {
    async fn tcp(&mut self, address: &str, gpsd: bool) -> Result<(), Unheard> {
        loop {
            match timeout(CONNECT, TcpStream::connect(address)).await {
                Ok(Ok(mut stream)) => {
                    tracing::info!(address, "source.connected");
                    self.gpsd = gpsd.then(gpsd::Reader::default);
                    // gpsd tells nothing before it is asked, after each connect.
                    if !gpsd || stream.write_all(WATCH).await.is_ok() {
                        self.listen(&mut stream).await?;
                    }
                }
                Ok(Err(error)) => tracing::debug!(address, error = %error, "source.connect"),
                Err(_) => tracing::debug!(address, "source.connect_timeout"),
            }
            self.pause().await?;
        }
    }

    async fn serial(&mut self, path: &Path, baud: u32) -> Result<(), Unheard> {
        loop {
            match tokio_serial::new(path.to_string_lossy(), baud).open_native_async() {
                Ok(mut port) => {
                    tracing::info!(path = %path.display(), "source.connected");
                    self.listen(&mut port).await?;
                }
                Err(error) => {
                    tracing::debug!(path = %path.display(), error = %error, "source.connect");
                }
            }
            self.pause().await?;
        }
    }

    async fn udp(&mut self, listen: &str) -> Result<(), Unheard> {
        let mut datagram = vec![0; 64 * 1024];
        loop {
            match UdpSocket::bind(listen).await {
                Ok(socket) => loop {
                    match timeout(TICK, socket.recv(&mut datagram)).await {
                        Ok(Ok(n)) => self.take(datagram.get(..n).unwrap_or_default()).await?,
                        Ok(Err(error)) => {
                            tracing::debug!(listen, error = %error, "source.receive");
                            break;
                        }
                        Err(_) => self.take(&[]).await?,
                    }
                },
                Err(error) => tracing::warn!(listen, error = %error, "source.bind"),
            }
            self.pause().await?;
        }
    }

    /// A file that grows, a named pipe, or standard input: read by a thread, which may block.
    async fn pipe(&mut self, path: Option<PathBuf>) -> Result<(), Unheard> {
        let (tell, mut chunks) = mpsc::channel(4);
        let reader = std::thread::Builder::new().name("source".to_owned());
        if let Err(error) = reader.spawn(move || read_pipe(path, &tell)) {
            tracing::error!(error = %error, "source.thread");
        }
        loop {
            match timeout(TICK, chunks.recv()).await {
                Ok(Some(bytes)) => self.take(&bytes).await?,
                Ok(None) => {
                    // Standard input has ended: nothing will come, and that is told.
                    self.take(&[]).await?;
                    sleep(TICK).await;
                }
                Err(_) => self.take(&[]).await?,
            }
        }
    }

    /// Listens until the stream ends.
    async fn listen(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Result<(), Unheard> {
        let mut buffer = vec![0; BUFFER];
        loop {
            match timeout(TICK, stream.read(&mut buffer)).await {
                Ok(Ok(0)) => return Ok(()),
                Ok(Ok(n)) => self.take(buffer.get(..n).unwrap_or_default()).await?,
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => {
                    tracing::info!(error = %error, "source.lost");
                    return Ok(());
                }
                Err(_) => self.take(&[]).await?,
            }
        }
    }

    async fn pause(&mut self) -> Result<(), Unheard> {
        let until_ms = self.clock.monotonic_ms() + millis(PAUSE);
        while self.clock.monotonic_ms() < until_ms {
            self.take(&[]).await?;
            sleep(TICK).await;
        }
        Ok(())
    }

    /// Takes bytes, or the passing of time, and tells what came of it.
    async fn take(&mut self, bytes: &[u8]) -> Result<(), Unheard> {
        let now_ms = self.clock.monotonic_ms();
        if let Some(reader) = &mut self.gpsd {
            reader.push(bytes, now_ms);
            reader.tick(now_ms);
        } else {
            self.reader.push(bytes, now_ms);
            self.reader.tick(now_ms);
        }
        while let Some(event) = self.next_event() {
            self.heard_ms = now_ms;
            self.absent = false;
            self.tell(now_ms, Some(event)).await?;
        }
        let stale = now_ms.saturating_sub(self.heard_ms) >= STALE_MS;
        let absent = (stale && !self.absent).then_some(Event::NoReceiver);
        self.absent |= stale;
        self.tell(now_ms, absent).await
    }

    fn next_event(&mut self) -> Option<Event> {
        match &mut self.gpsd {
            Some(reader) => reader.next_event(),
            None => self.reader.next_event(),
        }
    }

    async fn tell(&self, now_ms: u64, event: Option<Event>) -> Result<(), Unheard> {
        let told = self.out.send(Timed { now_ms, event }).await;
        told.map_err(|_| Unheard)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads what grows; opens it again where it was replaced by a shorter one or cannot be read.
fn read_pipe(path: Option<PathBuf>, tell: &mpsc::Sender<Vec<u8>>) {
    let Some(path) = path else {
        drain(&mut io::stdin().lock(), tell);
        return;
    };
    loop {
        match std::fs::File::open(&path) {
            Ok(mut file) => {
                let mut read = 0;
                let grows = |n: u64| {
                    read += n;
                    std::fs::metadata(&path).is_ok_and(|m| !m.is_file() || m.len() >= read)
                };
                if !follow(&mut file, tell, grows) {
                    return;
                }
            }
            Err(error) => tracing::debug!(path = %path.display(), error = %error, "source.open"),
        }
        if tell.is_closed() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// False where nobody listens.
fn follow(
    file: &mut std::fs::File,
    tell: &mpsc::Sender<Vec<u8>>,
    mut grows: impl FnMut(u64) -> bool,
) -> bool {
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => {
                if tell.is_closed() {
                    return false;
                }
                if !grows(0) {
                    return true;
                }
                std::thread::sleep(TICK);
            }
            Ok(n) => {
                let bytes = buffer.get(..n).unwrap_or_default().to_vec();
                if tell.blocking_send(bytes).is_err() {
                    return false;
                }
                grows(n as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

fn drain(input: &mut impl io::Read, tell: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = vec![0; BUFFER];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => return,
            Ok(n) => {
                let bytes = buffer.get(..n).unwrap_or_default().to_vec();
                if tell.blocking_send(bytes).is_err() {
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
