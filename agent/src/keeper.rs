//! The thread that owns the spool: whatever a slow card makes it wait for, sockets and receivers go on. Never drops a batch that it has taken.

use std::{io, thread};

use furrow_protocol::batch::Batch;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    clock::SharedClock,
    recorder::Recorder,
    spool::{Backlog, Place, Stored, Writes},
};

/// Questions that may wait; whoever asks more waits for the disk, receivers by their own queue.
const QUESTIONS: usize = 16;
/// What is on the stack is small; the default would be two megabytes of address space.
const STACK_BYTES: usize = 512 * 1024;

/// What can be asked of the keeper.
enum Ask {
    Store(Box<Batch>),
    Read {
        from: Place,
        most: usize,
        reply: oneshot::Sender<Page>,
    },
    Settle(Vec<(u64, u64)>),
    Refuse(u64, u64),
    Tick,
    Close(oneshot::Sender<()>),
}

/// Frames that wait, and the place behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The frames, oldest first.
    pub frames: Vec<Stored>,
    /// Where to go on.
    pub next: Place,
}

/// How the spool is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// The epoch that is written.
    pub epoch: u64,
    /// Highest sequence in it, 0 for none.
    pub last_seq: u64,
    /// What waits.
    pub backlog: Backlog,
    /// Frames lost since the spool was made.
    pub lost: u64,
    /// Bytes that were no records, found since the start.
    pub damaged_bytes: u64,
    /// Free bytes of its disk.
    pub free_bytes: u64,
    /// Bytes that it takes.
    pub taken_bytes: u64,
    /// Frames stored since the start.
    pub stored: u64,
    /// Batches that the disk has not taken.
    pub waiting: u64,
    /// What was done to the disk since the start.
    pub writes: Writes,
    /// Monotonic time at which nothing waited for the disk, ms.
    pub good_ms: u64,
    /// Batches taken, stored or not.
    pub taken: u64,
}

/// The way to the keeper; clones lead to the same one.
#[derive(Clone)]
pub struct Keeper {
    asks: mpsc::Sender<Ask>,
    kept: watch::Receiver<Kept>,
}

/// The keeper's thread is gone, and with it the process should go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the spool's thread has ended")]
pub struct Gone;

impl Keeper {
    /// Starts the thread.
    ///
    /// Errors: no thread.
    pub fn start(recorder: Recorder, clock: SharedClock) -> io::Result<Self> {
        let (asks, questions) = mpsc::channel(QUESTIONS);
        let (told, kept) = watch::channel(Kept::default());
        let room = Room {
            recorder,
            clock,
            told,
            taken: 0,
        };
        thread::Builder::new()
            .name("spool".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || room.run(questions))?;
        Ok(Self { asks, kept })
    }

    /// Gives a batch to store.
    ///
    /// Errors: [`Gone`].
    pub async fn store(&self, batch: Batch) -> Result<(), Gone> {
        self.ask(Ask::Store(Box::new(batch))).await
    }

    /// The frames that wait from `from` on.
    ///
    /// Errors: [`Gone`].
    pub async fn read(&self, from: Place, most: usize) -> Result<Page, Gone> {
        let (reply, answer) = oneshot::channel();
        self.ask(Ask::Read { from, most, reply }).await?;
        answer.await.map_err(|_| Gone)
    }

    /// These frames are committed.
    ///
    /// Errors: [`Gone`].
    pub async fn settle(&self, frames: Vec<(u64, u64)>) -> Result<(), Gone> {
        self.ask(Ask::Settle(frames)).await
    }

    /// This frame was refused.
    ///
    /// Errors: [`Gone`].
    pub async fn refuse(&self, epoch: u64, seq: u64) -> Result<(), Gone> {
        self.ask(Ask::Refuse(epoch, seq)).await
    }

    /// A second has passed: retry what failed, write the cursor if that pays. Left out while the
    /// keeper waits for the disk.
    ///
    /// Errors: [`Gone`].
    pub fn tick(&self) -> Result<(), Gone> {
        match self.asks.try_send(Ask::Tick) {
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Gone),
            Ok(()) | Err(mpsc::error::TrySendError::Full(_)) => Ok(()),
        }
    }

    /// Stores all that waits, writes the cursor and ends the thread.
    pub async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.ask(Ask::Close(reply)).await.is_ok() {
            let _ = answer.await;
        }
    }

    /// How the spool is; changes with each question that changes it.
    #[must_use]
    pub fn kept(&self) -> watch::Receiver<Kept> {
        self.kept.clone()
    }

    async fn ask(&self, ask: Ask) -> Result<(), Gone> {
        self.asks.send(ask).await.map_err(|_| Gone)
    }
}

struct Room {
    recorder: Recorder,
    clock: SharedClock,
    told: watch::Sender<Kept>,
    taken: u64,
}

impl Room {
    fn run(mut self, mut questions: mpsc::Receiver<Ask>) {
        self.tell();
        while let Some(ask) = questions.blocking_recv() {
            match ask {
                Ask::Store(batch) => {
                    self.taken += 1;
                    complain(self.recorder.record(*batch));
                    self.tell();
                }
                Ask::Read { from, most, reply } => {
                    let (frames, next, result) = self.recorder.spool.read(from, most);
                    complain(result);
                    let _ = reply.send(Page { frames, next });
                }
                Ask::Settle(frames) => {
                    for (epoch, seq) in frames {
                        self.recorder.spool.settle(epoch, seq);
                    }
                    self.tell();
                }
                Ask::Refuse(epoch, seq) => {
                    self.recorder.spool.refuse(epoch, seq);
                    self.tell();
                }
                Ask::Tick => {
                    complain(self.recorder.retry());
                    complain(self.recorder.spool.tick(self.clock.monotonic_ms()));
                    self.tell();
                }
                Ask::Close(reply) => {
                    complain(self.recorder.retry());
                    complain(self.recorder.spool.flush());
                    self.tell();
                    let _ = reply.send(());
                    return;
                }
            }
        }
    }

    fn tell(&self) {
        let (recorder, spool) = (&self.recorder, &self.recorder.spool);
        let next = spool.next();
        let waiting = recorder.waiting() as u64;
        let before = self.told.borrow().good_ms;
        self.told.send_replace(Kept {
            epoch: next.epoch,
            last_seq: next.seq.saturating_sub(1),
            backlog: spool.backlog(),
            lost: spool.lost(),
            damaged_bytes: spool.damaged_bytes(),
            free_bytes: spool.free_bytes(),
            taken_bytes: spool.taken_bytes(),
            stored: recorder.stored(),
            waiting,
            writes: spool.writes(),
            good_ms: if waiting == 0 {
                self.clock.monotonic_ms()
            } else {
                before
            },
            taken: self.taken,
        });
    }
}

fn complain(result: io::Result<()>) {
    if let Err(error) = result {
        tracing::error!(error = %error, "spool.disk");
    }
}
