//! Frames signed beforehand, packed per device. Never signs while time is taken.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use e2e::{
    devices::Forged,
    frames::{Chain, FRAME_MS},
};
use furrow_protocol::frame::Device;

/// All frames of a device, one behind the other.
pub struct Stock {
    /// Whose.
    pub device: Device,
    /// Its token.
    pub token: String,
    /// Their epoch.
    pub epoch: u64,
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<u32>,
}

impl Stock {
    /// How many frames.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The frame of a sequence, counted from 1.
    #[must_use]
    pub fn frame(&self, seq: u64) -> Option<&[u8]> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        let end = usize::try_from(*self.ends.get(index)?).ok()?;
        let begin = match index.checked_sub(1) {
            None => 0,
            Some(before) => usize::try_from(*self.ends.get(before)?).ok()?,
        };
        self.bytes.get(begin..end)
    }

    /// Mean size of a frame, bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// Signs `frames` frames for each device, the last of them just now; `done` is told of every device.
pub fn stock(
    devices: Vec<Forged>,
    frames: usize,
    now_ms: i64,
    done: impl Fn(usize) + Sync,
) -> Vec<Stock> {
    let length = i64::try_from(frames).unwrap_or(0) * FRAME_MS;
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let ready = AtomicUsize::new(0);
    let (ready, done) = (&ready, &done);
    let mut parts: Vec<Vec<Forged>> = (0..threads).map(|_| Vec::new()).collect();
    for (index, device) in devices.into_iter().enumerate() {
        if let Some(part) = parts.get_mut(index % threads) {
            part.push(device);
        }
    }
    thread::scope(|scope| {
        let workers: Vec<_> = parts
            .into_iter()
            .map(|part| {
                scope.spawn(move || {
                    let mut made = Vec::with_capacity(part.len());
                    for forged in part {
                        made.push(of_device(forged, frames, now_ms - length));
                        done(ready.fetch_add(1, Ordering::Relaxed) + 1);
                    }
                    made
                })
            })
            .collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().ok())
            .flatten()
            .collect()
    })
}

fn of_device(forged: Forged, frames: usize, begin_ms: i64) -> Stock {
    let epoch = u64::from(forged.device.0) << 32 | 0x10ad;
    let mut chain = Chain::begin(forged.device, forged.key, epoch, begin_ms);
    let mut bytes = Vec::with_capacity(frames * 200);
    let mut ends = Vec::with_capacity(frames);
    for _ in 0..frames {
        bytes.extend_from_slice(&chain.step().to_bytes());
        ends.push(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    }
    bytes.shrink_to_fit();
    Stock {
        device: forged.device,
        token: forged.token,
        epoch,
        bytes,
        ends,
    }
}
