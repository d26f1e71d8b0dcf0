//! Opening a spool: what the segments hold, what the cursor says, and whether the two can be relied upon. Never appends, never removes a record.

use std::io;

use furrow_protocol::{
    batch::{Batch, FormerEpoch, GapReason},
    frame::{Device, Digest, Frame},
};

use super::{
    CURSOR, Limits, Run, Segment, Spool, Writes,
    cursor::{Book, Cursor},
    disk::Disk,
    read::Cache,
    segment::{Found, SEGMENT_BYTES, Scan},
    segment_name,
};

/// A segment with less room than this may have been followed by another one.
const NEARLY_FULL: usize = 4096;
/// A cursor is smaller than this.
const MAX_CURSOR_BYTES: usize = 1 << 20;

/// What a scan of one segment gives.
struct Scanned {
    segment: Segment,
    damaged_bytes: u64,
    /// Whether it ends as our own writing leaves it: whole length, zeros behind the last record.
    clean: bool,
    last: Option<Last>,
}

/// The last whole record.
struct Last {
    epoch: u64,
    seq: u64,
    digest: Option<Digest>,
    /// Time of its last fix, ms since 1970 UTC.
    at_ms: Option<i64>,
}

pub(super) fn open(
    disk: Box<dyn Disk>,
    limits: Limits,
    device: Device,
    fresh: u64,
) -> io::Result<Spool> {
    let numbers = segments_of(disk.as_ref())?;
    let cursor = disk
        .read(CURSOR, 0, MAX_CURSOR_BYTES)
        .ok()
        .and_then(|bytes| Cursor::decode(&bytes));
    let mut scanned: Vec<Scanned> = numbers
        .iter()
        .map(|number| scan(disk.as_ref(), *number, device))
        .collect();
    let durable = make_durable(disk.as_ref(), &scanned)?;
    let sound = durable && is_sound(&scanned, cursor.as_ref());
    let former = if sound {
        None
    } else {
        former_epoch(&scanned, cursor.as_ref())
    };
    let newest = numbers
        .last()
        .copied()
        .unwrap_or(0)
        .max(cursor.as_ref().map_or(0, |c| c.segment));
    let damaged_bytes = scanned.iter().map(|s| s.damaged_bytes).sum();
    let last = scanned.iter_mut().rev().find_map(|s| s.last.take());
    let segments = scanned.into_iter().map(|s| s.segment).collect();
    let known = cursor.is_some();
    let cursor = cursor.unwrap_or_default();
    let mut spool = Spool {
        disk,
        limits,
        segments,
        active: None,
        epoch: cursor.epoch,
        books: cursor.books,
        former: None,
        gaps: cursor.gaps,
        lost: cursor.lost,
        damaged_bytes,
        dirty: true,
        cursor_ms: 0,
        newest,
        writes: Writes::default(),
        cache: Cache::default(),
        last_ms: last.as_ref().and_then(|last| last.at_ms),
        doubtful: None,
    };
    spool.doubtful = last.as_ref().and_then(|last| spool.unknown(last));
    count_holes(&mut spool, known && cursor.complete);
    match last.filter(|_| sound) {
        Some(last) => spool.go_on(&last),
        None => {
            spool.epoch = unused(&spool.books, fresh);
            spool.former = former;
        }
    }
    spool.say(former);
    spool.dispel();
    Ok(spool)
}

impl Spool {
    /// The newest record, if the cursor that was found does not know of it. A sync that failed once
    /// leaves a page that counts as clean and is not on the disk: a later sync proves nothing of it.
    fn unknown(&self, last: &Last) -> Option<(u64, u64)> {
        let known = self.book(last.epoch).map_or(0, |book| book.highest);
        (known < last.seq).then_some((last.epoch, last.seq))
    }

    fn say(&self, former: Option<FormerEpoch>) {
        if self.damaged_bytes > 0 || former.is_some() {
            tracing::warn!(
                damaged_bytes = self.damaged_bytes,
                epoch = self.epoch,
                former = former.map(|f| f.epoch),
                lost = self.lost,
                "spool.not_sound"
            );
        }
    }

    /// A cursor that knows of what is doubtful keeps its place from being used again, come what may.
    fn dispel(&mut self) {
        if self.doubtful.is_some()
            && let Err(error) = self.write_cursor(0)
        {
            tracing::warn!(error = %error, "spool.cursor");
        }
    }

    /// Goes on behind the last record, in the newest segment where that has room.
    fn go_on(&mut self, last: &Last) {
        let book = self.book_mut(last.epoch);
        book.highest = last.seq;
        book.digest = last.digest.unwrap_or(Digest([0; 16]));
        let Some(segment) = self.segments.back() else {
            return;
        };
        if !segment.opaque && segment.end < SEGMENT_BYTES {
            let name = segment_name(segment.number);
            self.active = self.disk.open(&name, segment.end as u64).ok();
        }
    }
}

fn segments_of(disk: &dyn Disk) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for (name, _) in disk.list()? {
        if let Some(number) = number_of(&name) {
            numbers.push(number);
        } else if name.ends_with(".new") {
            // Never became a file of the spool.
            let _ = disk.remove(&name);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    let number = u64::from_str_radix(digits, 16).ok()?;
    (segment_name(number) == name && number < u64::MAX).then_some(number)
}

fn scan(disk: &dyn Disk, number: u64, device: Device) -> Scanned {
    let mut scanned = Scanned {
        segment: Segment::empty(number),
        damaged_bytes: 0,
        clean: true,
        last: None,
    };
    let bytes = match disk.read(&segment_name(number), 0, SEGMENT_BYTES + 1) {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::error!(segment = number, error = %error, "spool.unreadable");
            scanned.clean = false;
            scanned.segment.opaque = true;
            return scanned;
        }
    };
    let mut last = None;
    for found in Scan::from(&bytes, 0) {
        match found {
            Found::Record(record) => {
                scanned.clean = true;
                scanned.segment.add(record.epoch, record.seq, record.end);
                last = Some(record);
            }
            Found::Foreign { end } => {
                scanned.clean = false;
                scanned.segment.opaque = true;
                scanned.segment.end = end;
            }
            Found::Damage { end, bytes } => {
                scanned.clean = false;
                scanned.segment.end = end;
                scanned.damaged_bytes += bytes as u64;
            }
        }
    }
    scanned.clean &= bytes.len() == SEGMENT_BYTES;
    scanned.last = last.map(|record| {
        let frame = Frame::from_bytes(record.payload).ok();
        let batch = frame.as_ref().and_then(|f| Batch::decode(&f.batch).ok());
        Last {
            epoch: record.epoch,
            seq: record.seq,
            digest: frame.map(|frame| frame.digest(device)),
            at_ms: batch.map(|batch| batch.last_at_ms()),
        }
    });
    scanned
}

/// A process that was killed between its write and its sync left a record that only the page cache
/// holds. It will be sent, so it must be the disk's before its successor is numbered after it.
fn make_durable(disk: &dyn Disk, scanned: &[Scanned]) -> io::Result<bool> {
    let mut durable = true;
    for Scanned { segment, .. } in scanned.iter().rev().take(2) {
        let opened = disk.open(&segment_name(segment.number), segment.end as u64);
        durable &= opened.and_then(|mut writer| writer.sync()).is_ok();
    }
    disk.sync_names()?;
    Ok(durable)
}

/// Those from the one with the newest record on: what was written last.
fn tail(scanned: &[Scanned]) -> &[Scanned] {
    let from = scanned.iter().rposition(|s| s.last.is_some()).unwrap_or(0);
    scanned.get(from..).unwrap_or_default()
}

/// Whether the next sequence of the cursor's epoch is certain.
fn is_sound(scanned: &[Scanned], cursor: Option<&Cursor>) -> bool {
    let (Some(cursor), Some(newest)) = (cursor, scanned.last()) else {
        return false;
    };
    let tail = tail(scanned);
    let Some(last) = tail.first().and_then(|s| s.last.as_ref()) else {
        return false;
    };
    let highest = cursor
        .books
        .iter()
        .find(|book| book.epoch == cursor.epoch)
        .map_or(0, |book| book.highest);
    let highest_found = scanned
        .iter()
        .flat_map(|s| &s.segment.runs)
        .filter(|run| run.epoch == cursor.epoch)
        .map(|run| run.last)
        .max();
    newest.segment.number >= cursor.segment
        && tail.iter().all(|s| s.clean)
        && last.epoch == cursor.epoch
        && last.digest.is_some()
        && highest <= last.seq
        && highest_found == Some(last.seq)
}

/// What the first batch of a new epoch says of the one before.
fn former_epoch(scanned: &[Scanned], cursor: Option<&Cursor>) -> Option<FormerEpoch> {
    let tail = tail(scanned);
    let highest = |epoch: u64| {
        let book = cursor?.books.iter().find(|book| book.epoch == epoch)?;
        Some(book.highest)
    };
    let Some(last) = tail.first().and_then(|s| s.last.as_ref()) else {
        // No record at all. An epoch of which none was ever stored names the one before itself.
        let cursor = cursor?;
        return if highest(cursor.epoch).is_none_or(|seq| seq == 0) {
            cursor.former
        } else {
            Some(FormerEpoch {
                epoch: cursor.epoch,
                last: None,
            })
        };
    };
    let newest = scanned.last().map_or(0, |s| s.segment.number);
    let followed = match cursor {
        Some(cursor) => cursor.segment > newest,
        None => scanned
            .last()
            .is_none_or(|s| s.segment.end + NEARLY_FULL > SEGMENT_BYTES),
    };
    let certain = tail.iter().all(|s| s.clean)
        && !followed
        && highest(last.epoch).is_none_or(|seq| seq <= last.seq);
    Some(FormerEpoch {
        epoch: last.epoch,
        last: last
            .digest
            .filter(|_| certain)
            .map(|digest| (last.seq, digest)),
    })
}

/// Sequences that were stored, are not here and need not be gone: lost to damage.
fn count_holes(spool: &mut Spool, cursor_complete: bool) {
    let runs: Vec<Run> = spool
        .segments
        .iter()
        .flat_map(|s| s.runs.iter().copied())
        .collect();
    let told: Vec<u64> = spool.books.iter().map(|book| book.epoch).collect();
    for run in &runs {
        let book = spool.book_mut(run.epoch);
        book.highest = book.highest.max(run.last);
    }
    // A segment that cannot be read today may be readable tomorrow: what is in it is not given up.
    if spool.segments.iter().any(|s| s.opaque) {
        return;
    }
    let books: Vec<Book> = spool.books.clone();
    for book in books {
        let here: super::ranges::Ranges = runs
            .iter()
            .filter(|run| run.epoch == book.epoch)
            .map(|run| (run.first, run.last))
            .collect();
        let first = if cursor_complete && told.contains(&book.epoch) {
            Some(1)
        } else {
            here.as_slice().first().map(|(first, _)| *first)
        };
        for (first, last) in first.map_or_else(Vec::new, |f| here.missing(f, book.highest)) {
            let hole = Run {
                epoch: book.epoch,
                first,
                last,
            };
            spool.lose(hole, GapReason::Damaged);
        }
    }
}

fn unused(books: &[Book], fresh: u64) -> u64 {
    let mut epoch = fresh;
    while books.iter().any(|book| book.epoch == epoch) {
        epoch = epoch.wrapping_add(1);
    }
    epoch
}
