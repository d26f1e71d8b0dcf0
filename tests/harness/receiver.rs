//! A receiver on TCP that tells where it is in NMEA 0183, in real time, by a clock of its own. Never knows who listens.

use std::{
    fmt::Write as _,
    io::{self, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};

/// How a receiver behaves.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Its clock less this host's.
    pub ahead: TimeDelta,
    /// Between two fixes.
    pub interval: Duration,
    /// Where it begins, degrees.
    pub lat: f64,
    /// Where it begins, degrees.
    pub lon: f64,
    /// How fast it goes north, m/s.
    pub speed_mps: f64,
}

impl Default for Manner {
    fn default() -> Self {
        Self {
            ahead: TimeDelta::zero(),
            interval: Duration::from_secs(1),
            lat: 31.9,
            lon: 117.2,
            speed_mps: 2.0,
        }
    }
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    told: AtomicU64,
}

/// A running receiver.
pub struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
}

impl Receiver {
    /// Listens on a free port of loopback.
    ///
    /// Errors: no port.
    pub fn start(manner: Manner) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            let begin = Instant::now();
            for stream in listener.incoming().flatten() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                let state = Arc::clone(&shared);
                thread::spawn(move || tell(&state, stream, manner, begin));
            }
        });
        Ok(Self { address, state })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Fixes told to all listeners.
    #[must_use]
    pub fn told(&self) -> u64 {
        self.state.told.load(Ordering::SeqCst)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        // Wakes the accept loop, which then sees that it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

fn tell(state: &State, mut stream: TcpStream, manner: Manner, begin: Instant) {
    let interval_ms = i64::try_from(manner.interval.as_millis())
        .unwrap_or(1000)
        .max(1);
    loop {
        // On the beat of its own clock: a fix is due at whole intervals.
        let now = (Utc::now() + manner.ahead).timestamp_millis();
        let next = (now / interval_ms + 1) * interval_ms;
        thread::sleep(Duration::from_millis(
            u64::try_from(next - now).unwrap_or(0),
        ));
        if state.ended.load(Ordering::SeqCst) {
            return;
        }
        let Some(at) = DateTime::from_timestamp_millis(next) else {
            return;
        };
        let lat = manner.lat + begin.elapsed().as_secs_f64() * manner.speed_mps / 111_000.0;
        if stream
            .write_all(sentences(at, lat, manner).as_bytes())
            .is_err()
        {
            return;
        }
        state.told.fetch_add(1, Ordering::SeqCst);
    }
}

/// RMC and GGA of one epoch.
fn sentences(at: DateTime<Utc>, lat: f64, manner: Manner) -> String {
    let time = at.format("%H%M%S%.3f").to_string();
    let time = time.get(..9).unwrap_or(&time);
    let date = at.format("%d%m%y");
    let north = format!("{},N", angle(lat, 2));
    let east = format!("{},E", angle(manner.lon, 3));
    let knots = manner.speed_mps / 0.514_444;
    [
        format!("GPRMC,{time},A,{north},{east},{knots:.2},0.0,{date},,,R"),
        format!("GPGGA,{time},{north},{east},4,17,0.7,40.0,M,0.0,M,1.0,0000"),
    ]
    .iter()
    .fold(String::new(), |mut out, body| {
        let sum = body.bytes().fold(0, |sum, byte| sum ^ byte);
        // Writing into a string cannot fail.
        let _ = write!(out, "${body}*{sum:02X}\r\n");
        out
    })
}

/// Degrees and decimal minutes, as NMEA writes them.
fn angle(degrees: f64, digits: usize) -> String {
    let whole = degrees.trunc();
    format!("{whole:0digits$.0}{:09.6}", (degrees - whole) * 60.0)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn sentences_have_the_form_of_a_receiver() {
        let at = DateTime::from_timestamp_millis(1_796_119_200_100).unwrap();
        let said = sentences(at, 31.9, Manner::default());
        let mut lines = said.lines();
        let rmc = lines.next().unwrap();
        assert!(
            rmc.starts_with("$GPRMC,100000.10,A,3154.000000,N,11712.000000,E,3.89,0.0,011226,,,R*")
        );
        assert!(
            lines
                .next()
                .unwrap()
                .starts_with("$GPGGA,100000.10,3154.000000,N,")
        );
    }
}
