//! What the spool costs a device: bytes written to flash in a day, and a start over 200 MB. Never a test: it prints its figures and checks only that nothing was lost.

#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a bench prints its figures"
)]

use std::{
    fs, io,
    path::Path,
    time::{Duration, Instant},
};

use furrow_agent::{
    config::default_limits,
    spool::{
        Next, Spool,
        disk::{Disk, Folder, Free, Writer},
    },
};
use furrow_protocol::frame::{Device, Digest, Frame};

/// About the bytes of a frame with all columns.
const FRAME_BYTES: usize = 196;
/// A day: 10 h of work with a batch each 10 s, 14 h parked with one each minute.
const WORK: u64 = 10 * 360;
const PARKED: u64 = 14 * 60;
const MEGABYTE: f64 = 1e6;

fn main() {
    flash_of_a_day();
    restart_over_200_mb();
}

/// The next frame's bytes, without the price of its signature.
fn frame(next: &Next) -> Vec<u8> {
    // Not compressible and not zeros, as signatures are not.
    let noise =
        |at: u64| (next.seq.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (at % 8 * 8)).to_le_bytes()[0];
    let mut frame = Frame {
        epoch: next.epoch,
        seq: next.seq,
        prev: Digest([1; 16]),
        batch: Vec::new(),
        signature: [noise(0); 64],
    };
    let empty = frame.to_bytes().len();
    frame.batch = (0..).take(FRAME_BYTES - empty).map(noise).collect();
    frame.to_bytes()
}

fn spool(disk: Box<dyn Disk>) -> Spool {
    Spool::open(disk, default_limits(), Device(7), 11).expect("a spool")
}

/// Every append and cursor of a day, acknowledged as it goes, on the disk under `target`.
fn flash_of_a_day() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut spool = spool(Box::new(Folder::open(folder.path()).expect("a folder")));
    let before = written();
    let (begin, mut now_ms) = (Instant::now(), 0);
    for step in 0..WORK + PARKED {
        now_ms += if step < WORK { 10_000 } else { 60_000 };
        let next = spool.next();
        spool
            .append(next.seq, &frame(&next), Digest([1; 16]))
            .expect("an append");
        spool.settle(next.epoch, next.seq);
        spool.tick(now_ms).expect("a tick");
    }
    let bytes = written() - before;
    println!(
        "flash, 10 h of work and 14 h parked: {} appends, {:.1} MB written as the kernel counts ({:.0} bytes an append, cursors included), {:.1} ms an append; bar 50 MB",
        WORK + PARKED,
        bytes / MEGABYTE,
        bytes / f64::from(u32::try_from(WORK + PARKED).expect("a day")),
        begin.elapsed().as_secs_f64() * 1000.0
            / f64::from(u32::try_from(WORK + PARKED).expect("a day")),
    );
}

/// Bytes that this process has sent to the disk, whole pages as the kernel counts them.
fn written() -> f64 {
    let io = fs::read_to_string("/proc/self/io").expect("the kernel's counters");
    io.lines()
        .find_map(|line| line.strip_prefix("write_bytes: "))
        .and_then(|bytes| bytes.parse().ok())
        .expect("write_bytes")
}

fn restart_over_200_mb() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let mut full = spool(Box::new(Unsynced::open(folder.path())));
    while full.taken_bytes() < 200_000_000 {
        let next = full.next();
        full.append(next.seq, &frame(&next), Digest([1; 16]))
            .expect("an append");
    }
    let frames = full.backlog().frames;
    full.flush().expect("a cursor");
    drop(full);
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let begin = Instant::now();
            let again = spool(Box::new(Folder::open(folder.path()).expect("a folder")));
            assert_eq!(again.backlog().frames, frames, "the spool lost some");
            begin.elapsed()
        })
        .collect();
    times.sort();
    println!(
        "restart over 200 MB, {frames} frames that wait: median {:.0} ms of 5, from the page cache; bar 2,000 ms",
        times.get(2).expect("five").as_secs_f64() * 1000.0
    );
}

/// A folder whose syncs do nothing: a million of them would take the bench's time, and what is read
/// afterwards is the same.
struct Unsynced(Folder);

struct UnsyncedFile(Box<dyn Writer>);

impl Unsynced {
    fn open(path: &Path) -> Self {
        Self(Folder::open(path).expect("a folder"))
    }
}

impl Writer for UnsyncedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for Unsynced {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.list()
    }

    fn read(&self, name: &str, offset: u64, most: usize) -> io::Result<Vec<u8>> {
        self.0.read(name, offset, most)
    }

    fn create(&self, name: &str, length: u64) -> io::Result<Box<dyn Writer>> {
        Ok(Box::new(UnsyncedFile(self.0.create(name, length)?)))
    }

    fn open(&self, name: &str, offset: u64) -> io::Result<Box<dyn Writer>> {
        Ok(Box::new(UnsyncedFile(self.0.open(name, offset)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        Ok(())
    }

    fn free(&self) -> io::Result<Free> {
        self.0.free()
    }
}
