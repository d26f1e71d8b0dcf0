//! What the kernel tells about processes: children, CPU time, memory. Reads /proc alone.

use std::{
    collections::HashMap,
    fs,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// Ticks per second of the times in /proc/*/stat: USER_HZ, 100 on every architecture that Debian has.
const TICKS: f64 = 100.0;

/// All processes with their parents.
fn parents() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return children;
    };
    for pid in entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
    {
        if let Some(parent) = stat(pid).and_then(|f| f.get(1)?.parse().ok()) {
            children.entry(parent).or_default().push(pid);
        }
    }
    children
}

/// The fields of /proc/PID/stat after the name: state is 0, parent is 1.
fn stat(pid: u32) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}

/// A process and all its descendants, itself first.
#[must_use]
pub fn tree(pid: u32) -> Vec<u32> {
    let children = parents();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(children.get(&parent).into_iter().flatten());
        next += 1;
    }
    found
}

/// CPU seconds of a process so far, its ended and waited-for children included.
#[must_use]
pub fn cpu_seconds(pid: u32) -> f64 {
    let Some(fields) = stat(pid) else { return 0.0 };
    fields
        .get(11..15)
        .into_iter()
        .flatten()
        .filter_map(|t| t.parse::<f64>().ok())
        .sum::<f64>()
        / TICKS
}

/// CPU seconds of a process and its descendants.
#[must_use]
pub fn tree_cpu_seconds(pid: u32) -> f64 {
    tree(pid).into_iter().map(cpu_seconds).sum()
}

/// Resident memory of a process, KiB.
#[must_use]
pub fn resident_kib(pid: u32) -> u64 {
    field_kib(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Memory of a process and its descendants, KiB; what they share is counted once.
#[must_use]
pub fn tree_share_kib(pid: u32) -> u64 {
    tree(pid)
        .into_iter()
        .map(|p| field_kib(&format!("/proc/{p}/smaps_rollup"), "Pss:"))
        .sum()
}

fn field_kib(file: &str, field: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix(field))
        .and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// Looks at a process's resident memory every second.
pub struct MemoryWatch {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<u64>>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Begins.
    #[must_use]
    pub fn begin(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (told, to) = (Arc::clone(&stop), Arc::clone(&seen));
        let thread = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                let now = resident_kib(pid);
                to.lock().unwrap_or_else(PoisonError::into_inner).push(now);
                thread::sleep(Duration::from_secs(1));
            }
        });
        Self {
            stop,
            seen,
            thread: Some(thread),
        }
    }

    /// Ends; what was seen each second, KiB.
    #[must_use]
    pub fn end(mut self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
