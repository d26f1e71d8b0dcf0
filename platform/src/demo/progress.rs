//! A line for each machine while it works: redrawn on a terminal, plain lines elsewhere. Never decides anything.

use std::{
    collections::HashMap,
    io::{IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// So often does a machine get a plain line.
const PLAIN: Duration = Duration::from_secs(5);

/// What is known of a machine's job so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen {
    /// Fixes stored.
    pub fixes: u64,
    /// Covered so far, m2, as the live view counts.
    pub area_m2: f64,
    /// Time of the last fix, ms since 1970 UTC.
    pub last_at_ms: i64,
    /// Whether its wire is whole.
    pub linked: bool,
    /// Whether its agent has ended.
    pub done: bool,
}

impl Seen {
    fn text(&self) -> String {
        let state = match (self.done, self.linked) {
            (true, _) => "done",
            (false, true) => "live",
            (false, false) => "LINK CUT",
        };
        let time = chrono::DateTime::from_timestamp_millis(self.last_at_ms)
            .filter(|_| self.last_at_ms > 0)
            .map_or_else(
                || "--:--:--".to_owned(),
                |t| t.format("%H:%M:%S").to_string(),
            );
        format!(
            "{time} UTC  {:>6} fixes stored  {:>6.2} ha covered  {state}",
            self.fixes,
            self.area_m2 / 10_000.0
        )
    }
}

/// The lines of all machines.
pub struct Progress {
    bars: Option<MultiProgress>,
    lines: HashMap<u32, Line>,
}

struct Line {
    name: String,
    bar: Option<ProgressBar>,
    told: Instant,
    done: bool,
}

impl Progress {
    /// Lines on standard output.
    #[must_use]
    pub fn new() -> Self {
        Self {
            bars: std::io::stdout()
                .is_terminal()
                .then(|| MultiProgress::with_draw_target(indicatif::ProgressDrawTarget::stdout())),
            lines: HashMap::new(),
        }
    }

    /// A machine begins.
    pub fn begin(&mut self, device: u32, name: &str) {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            // A template that cannot be read leaves indicatif's own.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix:16} {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(name.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        let line = Line {
            name: name.to_owned(),
            bar,
            told: Instant::now(),
            done: false,
        };
        self.lines.insert(device, line);
    }

    /// Shows what is known of a machine.
    pub fn show(&mut self, device: u32, seen: &Seen) {
        let Some(line) = self.lines.get_mut(&device).filter(|line| !line.done) else {
            return;
        };
        line.done = seen.done;
        match &line.bar {
            Some(bar) if seen.done => bar.finish_with_message(seen.text()),
            Some(bar) => bar.set_message(seen.text()),
            None if seen.done || line.told.elapsed() >= PLAIN => {
                line.told = Instant::now();
                say(&format!("  {:16} {}", line.name, seen.text()));
            }
            None => {}
        }
    }

    /// A line of text that is not a machine's.
    pub fn note(&self, text: &str) {
        match &self.bars {
            // A terminal that is gone hears nothing.
            Some(bars) => drop(bars.println(text)),
            None => say(text),
        }
    }
}

/// Prints a line; nobody listens any more where it fails.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
