//! The spool: signed frames on the agent's disk, from their `fdatasync` until the platform has committed them. Never changes a byte that is synced, never appends behind damage, never uses an (epoch, seq) twice.
//!
//! Whatever happens to its files, records that are whole are still delivered. What cannot be relied
//! upon is only where the last epoch ended; if there is any doubt, a new epoch begins.

pub mod cursor;
pub mod disk;
mod gaps;
#[cfg(test)]
pub(crate) mod model;
mod open;
pub mod ranges;
mod read;
pub mod segment;
#[cfg(test)]
mod tests;

use std::{collections::VecDeque, io};

use furrow_protocol::{
    batch::{FormerEpoch, Gap, GapReason},
    frame::{Device, Digest, MAX_FRAME_BYTES},
};

use self::{
    cursor::{Book, Cursor},
    disk::{Disk, Writer},
    segment::SEGMENT_BYTES,
};

pub use self::read::{Place, Stored};

/// A cursor is written at most so often unless a segment ends, ms: it costs 20 KB of flash.
const CURSOR_MS: u64 = 300_000;
/// Segments are freed at most so often, ms, however fast they drain.
const FREE_MS: u64 = 10_000;
const CURSOR: &str = "cursor";
const CURSOR_NEW: &str = "cursor.new";
const SEGMENT_LENGTH: u64 = SEGMENT_BYTES as u64;

/// How much room the spool may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all segments.
    pub quota_bytes: u64,
    /// Bytes to leave free on the disk.
    pub min_free_bytes: u64,
    /// Inodes to leave free on the disk.
    pub min_free_inodes: u64,
}

/// What was done to the disk since the start, for the flash budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writes {
    /// Records appended, each with one sync.
    pub appends: u64,
    /// Their bytes.
    pub append_bytes: u64,
    /// Cursors written.
    pub cursors: u64,
    /// Their bytes.
    pub cursor_bytes: u64,
    /// Segments made.
    pub segments: u64,
}

/// What waits in the spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Frames that are neither committed nor refused.
    pub frames: u64,
    /// About so many bytes of them.
    pub bytes: u64,
    /// Frames that were refused and are kept.
    pub refused: u64,
}

/// Consecutive sequences of one epoch in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    epoch: u64,
    first: u64,
    last: u64,
}

#[derive(Debug)]
struct Segment {
    number: u64,
    runs: Vec<Run>,
    /// Behind the last record that is synced.
    end: usize,
    records: u64,
    /// Holds what this build cannot read: never done, goes by the quota only.
    opaque: bool,
}

impl Segment {
    fn empty(number: u64) -> Self {
        Self {
            number,
            runs: Vec::new(),
            end: 0,
            records: 0,
            opaque: false,
        }
    }

    fn add(&mut self, epoch: u64, seq: u64, end: usize) {
        self.end = end;
        self.records += 1;
        match self.runs.last_mut() {
            Some(run) if run.epoch == epoch && run.last.checked_add(1) == Some(seq) => {
                run.last = seq;
            }
            // Written anew after a failed sync: the same bytes twice.
            Some(run) if run.epoch == epoch && run.first <= seq && seq <= run.last => {}
            _ => self.runs.push(Run {
                epoch,
                first: seq,
                last: seq,
            }),
        }
    }
}

fn segment_name(number: u64) -> String {
    format!("{number:016x}.seg")
}

/// Where the next frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Its epoch.
    pub epoch: u64,
    /// Its sequence.
    pub seq: u64,
    /// Digest of the frame before; None for the first of the epoch.
    pub prev: Option<Digest>,
    /// What the first batch of the epoch says of the epoch before.
    pub former: Option<FormerEpoch>,
}

/// The spool.
pub struct Spool {
    disk: Box<dyn Disk>,
    limits: Limits,
    segments: VecDeque<Segment>,
    /// The newest segment at its end; None where nothing may be appended to it.
    active: Option<Box<dyn Writer>>,
    books: Vec<Book>,
    epoch: u64,
    former: Option<FormerEpoch>,
    gaps: Vec<Gap>,
    lost: u64,
    damaged_bytes: u64,
    dirty: bool,
    cursor_ms: u64,
    /// Newest number ever used for a segment.
    newest: u64,
    writes: Writes,
    cache: read::Cache,
    last_ms: Option<i64>,
    /// A record of before this start that no durable cursor knows of: the disk may not hold what the
    /// page cache shows. Not given out until a cursor keeps its place from being used again.
    doubtful: Option<(u64, u64)>,
}

impl Spool {
    /// Opens what the disk holds. `fresh` is a random number for a new epoch, should one be needed;
    /// digests are of this device's frames.
    ///
    /// Errors: the folder cannot be listed or a name not be made durable. Unreadable files are no error.
    pub fn open(
        disk: Box<dyn Disk>,
        limits: Limits,
        device: Device,
        fresh: u64,
    ) -> io::Result<Self> {
        open::open(disk, limits, device, fresh)
    }

    /// Where the next frame goes.
    #[must_use]
    pub fn next(&self) -> Next {
        match self.book(self.epoch) {
            Some(book) if book.highest > 0 => Next {
                epoch: self.epoch,
                seq: book.highest.saturating_add(1),
                prev: Some(book.digest),
                former: None,
            },
            _ => Next {
                epoch: self.epoch,
                seq: 1,
                prev: None,
                former: self.former,
            },
        }
    }

    /// Stores a frame: one write, one sync. When this returns, the frame is the disk's.
    ///
    /// Errors: [`io::ErrorKind::InvalidInput`] for bytes that are not the frame that [`Self::next`]
    /// asks for: no start would find them again. Otherwise the disk's: the segment is abandoned then;
    /// the frame may or may not be found again at the next start, so the very same bytes must be given
    /// again, and no others for this sequence.
    pub fn append(&mut self, seq: u64, frame: &[u8], digest: Digest) -> io::Result<()> {
        self.expect_next(seq, frame)?;
        let record = segment::encode(seq, frame);
        let room = SEGMENT_BYTES.saturating_sub(self.segments.back().map_or(0, |s| s.end));
        if self.active.is_none() || room < record.len() {
            self.rotate()?;
        }
        let (Some(writer), Some(segment)) = (self.active.as_mut(), self.segments.back_mut()) else {
            return Err(io::Error::other("no segment to write to"));
        };
        if let Err(error) = writer.write(&record).and_then(|()| writer.sync()) {
            self.active = None;
            if is_full(&error) {
                // Where room cannot be reserved a new segment is made on a full disk as well.
                self.drop_oldest();
            }
            return Err(error);
        }
        segment.add(self.epoch, seq, segment.end + record.len());
        self.writes.appends += 1;
        self.writes.append_bytes += record.len() as u64;
        let book = self.book_mut(self.epoch);
        book.highest = seq;
        book.digest = digest;
        self.former = None;
        self.dirty = true;
        Ok(())
    }

    fn expect_next(&self, seq: u64, frame: &[u8]) -> io::Result<()> {
        let next = self.next();
        let wrong = if frame.len() > MAX_FRAME_BYTES {
            "frame too long"
        } else if seq != next.seq || segment::place_of(frame) != Some((next.epoch, next.seq)) {
            "not the next frame"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }

    /// A new segment; the cursor that knows of it is written before anything is in it.
    fn rotate(&mut self) -> io::Result<()> {
        self.active = None;
        let replaces = self.remove_empty_newest();
        if !replaces && self.crowded() && self.free_done().is_none() {
            // One goes for the one that comes: a quota that was set too low by mistake stops the
            // growth, it does not throw away what is there.
            self.drop_oldest();
        }
        let number = self.newest + 1;
        let name = segment_name(number);
        let temporary = format!("{name}.new");
        let mut writer = loop {
            match self.disk.create(&temporary, SEGMENT_LENGTH) {
                Ok(writer) => break writer,
                Err(error) if is_full(&error) && self.drop_oldest() => {}
                Err(error) => return Err(error),
            }
        };
        writer.sync()?;
        self.disk.rename(&temporary, &name)?;
        self.disk.sync_names()?;
        self.newest = number;
        self.segments.push_back(Segment::empty(number));
        self.active = Some(writer);
        self.writes.segments += 1;
        // Without it a later start finds less to rely upon and begins a new epoch: safe.
        if let Err(error) = self.write_cursor(self.cursor_ms) {
            tracing::warn!(error = %error, "spool.cursor");
        }
        Ok(())
    }

    /// A segment that was abandoned before anything was synced in it: a disk that fails again and
    /// again must not push out with empty segments what it holds. True if there was one: its room is
    /// the next one's.
    fn remove_empty_newest(&mut self) -> bool {
        let empty = |s: &Segment| s.records == 0 && !s.opaque && s.number == self.newest;
        let Some(segment) = self.segments.pop_back_if(|s| empty(s)) else {
            return false;
        };
        self.disk.remove(&segment_name(segment.number)).is_ok()
    }

    fn crowded(&self) -> bool {
        let taken = SEGMENT_LENGTH.saturating_mul(self.segments.len() as u64);
        if taken.saturating_add(SEGMENT_LENGTH) > self.limits.quota_bytes {
            return true;
        }
        self.disk.free().is_ok_and(|free| {
            free.bytes < self.limits.min_free_bytes.saturating_add(SEGMENT_LENGTH)
                || free.inodes < self.limits.min_free_inodes
        })
    }

    /// Gives up the oldest segment but never the newest. False if there is none to give.
    fn drop_oldest(&mut self) -> bool {
        if self.segments.len() < 2 {
            return false;
        }
        let Some(segment) = self.segments.pop_front() else {
            return false;
        };
        self.tell_again(&segment);
        for run in &segment.runs {
            self.lose(*run, GapReason::QuotaDropped);
        }
        tracing::warn!(segment = segment.number, "spool.dropped");
        // The gap is on the disk before the segment leaves it; on a full disk it cannot be, and a
        // start in between then finds the hole itself.
        let _ = self.write_cursor(self.cursor_ms);
        if let Err(error) = self.disk.remove(&segment_name(segment.number)) {
            tracing::warn!(error = %error, "spool.remove");
        }
        true
    }

    /// The platform has committed this frame.
    pub fn settle(&mut self, epoch: u64, seq: u64) {
        self.book_mut(epoch).settled.insert(seq, seq);
        self.dirty = true;
    }

    /// The platform refused this frame: it is kept until its room is needed, and not sent again.
    pub fn refuse(&mut self, epoch: u64, seq: u64) {
        self.book_mut(epoch).refused.insert(seq, seq);
        self.dirty = true;
    }

    /// Writes the cursor when that pays and frees what it covers. `now_ms` is monotonic.
    ///
    /// Errors: the disk's; nothing is freed then.
    pub fn tick(&mut self, now_ms: u64) -> io::Result<()> {
        let since = now_ms.saturating_sub(self.cursor_ms);
        let pays = since >= FREE_MS && (self.doubtful.is_some() || self.has_done());
        if self.dirty && (pays || since >= CURSOR_MS) {
            self.write_cursor(now_ms)?;
            self.free_done();
        }
        Ok(())
    }

    /// Writes the cursor now, if it would say anything new.
    ///
    /// Errors: the disk's.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.dirty {
            self.write_cursor(self.cursor_ms)?;
        }
        Ok(())
    }

    fn write_cursor(&mut self, now_ms: u64) -> io::Result<()> {
        self.forget_books();
        // A book from the first moment on: with it a hole at the epoch's beginning is seen.
        let epoch = self.epoch;
        self.book_mut(epoch);
        // The last is the one that is never left out.
        self.books.sort_by_key(|book| book.epoch == epoch);
        let cursor = Cursor {
            epoch: self.epoch,
            segment: self.newest,
            lost: self.lost,
            former: self.former,
            gaps: self.gaps.clone(),
            books: self.books.clone(),
            complete: true,
        };
        let bytes = cursor.encode();
        let mut writer = self.disk.create(CURSOR_NEW, 0)?;
        writer.write(&bytes)?;
        writer.sync()?;
        drop(writer);
        self.disk.rename(CURSOR_NEW, CURSOR)?;
        self.disk.sync_names()?;
        self.writes.cursors += 1;
        self.writes.cursor_bytes += bytes.len() as u64;
        self.cursor_ms = now_ms;
        self.dirty = false;
        self.doubtful = None;
        Ok(())
    }

    /// Epochs of which nothing is left here.
    fn forget_books(&mut self) {
        let (epoch, segments) = (self.epoch, &self.segments);
        self.books.retain(|book| {
            book.epoch == epoch
                || segments
                    .iter()
                    .any(|s| s.runs.iter().any(|run| run.epoch == book.epoch))
        });
    }

    fn is_done(&self, segment: &Segment) -> bool {
        !segment.opaque
            && segment.runs.iter().all(|run| {
                self.book(run.epoch)
                    .is_some_and(|book| book.settled.covers(run.first, run.last))
            })
    }

    fn has_done(&self) -> bool {
        let newest = self.newest;
        self.segments
            .iter()
            .any(|s| s.number != newest && self.is_done(s))
    }

    /// Removes segments of which all is settled, once a cursor that says so is durable. None if there
    /// is none to remove.
    fn free_done(&mut self) -> Option<()> {
        if !self.has_done() || (self.dirty && self.write_cursor(self.cursor_ms).is_err()) {
            return None;
        }
        let newest = self.newest;
        let (gone, kept): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut self.segments)
            .into_iter()
            .partition(|s| s.number != newest && self.is_done(s));
        self.segments = kept;
        for segment in gone {
            if let Err(error) = self.disk.remove(&segment_name(segment.number)) {
                tracing::warn!(error = %error, "spool.remove");
            }
        }
        Some(())
    }

    fn book(&self, epoch: u64) -> Option<&Book> {
        self.books.iter().rev().find(|book| book.epoch == epoch)
    }

    fn book_mut(&mut self, epoch: u64) -> &mut Book {
        let at = match self.books.iter().rposition(|book| book.epoch == epoch) {
            Some(at) => at,
            None => {
                self.books.push(Book::new(epoch));
                self.books.len() - 1
            }
        };
        &mut self.books[at]
    }

    /// What waits.
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        let mut backlog = Backlog::default();
        for segment in &self.segments {
            let (mut waiting, mut refused) = (0_u64, 0_u64);
            for run in &segment.runs {
                let Some(book) = self.book(run.epoch) else {
                    continue;
                };
                for (first, last) in book.settled.missing(run.first, run.last) {
                    let free = book.refused.count_missing(first, last);
                    waiting += free;
                    refused += (last - first).saturating_add(1) - free;
                }
            }
            backlog.frames += waiting;
            backlog.refused += refused;
            let each = (segment.end as u64)
                .checked_div(segment.records)
                .unwrap_or(0);
            backlog.bytes += waiting * each;
        }
        backlog
    }

    /// Time of the last fix that was stored before this start, ms since 1970 UTC.
    #[must_use]
    pub const fn last_fix_ms(&self) -> Option<i64> {
        self.last_ms
    }

    /// Frames lost since the spool was made.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Bytes that were no records, as found since this start.
    #[must_use]
    pub const fn damaged_bytes(&self) -> u64 {
        self.damaged_bytes
    }

    /// What was done to the disk since this start.
    #[must_use]
    pub const fn writes(&self) -> Writes {
        self.writes
    }

    /// Bytes free on the disk; 0 if it does not say.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.disk.free().map_or(0, |free| free.bytes)
    }

    /// Bytes that the segments take.
    #[must_use]
    pub fn taken_bytes(&self) -> u64 {
        SEGMENT_LENGTH.saturating_mul(self.segments.len() as u64)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}
