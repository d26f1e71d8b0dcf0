//! Frames of a machine at work, signed and chained as an agent does it; made beforehand so that signing costs nothing while time is taken.

use furrow_protocol::{
    SigningKey,
    batch::{Batch, FormerEpoch},
    fix::{Fix, Quality, Work, WorkSource},
    frame::{Device, Digest, Frame, genesis},
};

/// Fixes of a frame.
pub const FIXES: usize = 10;
/// Length of a frame, ms.
pub const FRAME_MS: i64 = 10_000;

/// A machine that goes to and fro on its field, and the chain of its frames.
pub struct Chain {
    device: Device,
    key: SigningKey,
    epoch: u64,
    boot: u32,
    seq: u64,
    prev: Digest,
    begin_ms: i64,
    at_ms: i64,
    origin: (i32, i32),
    noise: u32,
}

impl Chain {
    /// A new epoch whose first fix is at `begin_ms`.
    #[must_use]
    pub fn begin(device: Device, key: SigningKey, epoch: u64, begin_ms: i64) -> Self {
        let place = i32::try_from(device.0 % 40_000).unwrap_or(0);
        Self {
            device,
            prev: genesis(device, epoch, &key.verifying_key()),
            key,
            epoch,
            boot: device.0 ^ 0x5bd1_e995,
            seq: 0,
            begin_ms,
            at_ms: begin_ms,
            origin: (
                480_000_000 + place % 200 * 9_000,
                118_000_000 + place / 200 * 13_000,
            ),
            noise: device.0 | 1,
        }
    }

    /// Its device.
    #[must_use]
    pub fn device(&self) -> Device {
        self.device
    }

    /// Its epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The next frame: ten seconds of work.
    #[must_use]
    pub fn step(&mut self) -> Frame {
        let fixes: Vec<Fix> = (0..FIXES).map(|_| self.fix()).collect();
        self.next_of(fixes, None)
    }

    /// The next frame, of these fixes.
    ///
    /// # Panics
    /// If the fixes are none: the rig's own fault.
    #[must_use]
    pub fn next_of(&mut self, fixes: Vec<Fix>, former: Option<FormerEpoch>) -> Frame {
        let at_ms = fixes.first().map_or(self.at_ms, |f| f.at_ms);
        let batch = Batch {
            at_ms,
            boot: self.boot,
            monotonic_ms: u64::try_from(at_ms - self.begin_ms).unwrap_or(0) + 5_000,
            fixes,
            gaps: vec![],
            former,
            ext: vec![],
        };
        let batch = batch
            .encode()
            .expect("the rig's fixes are in order and in range");
        self.seq += 1;
        let frame = Frame::sign(
            &self.key,
            self.device,
            self.epoch,
            self.seq,
            self.prev,
            batch,
        );
        self.prev = frame.digest(self.device);
        frame
    }

    fn fix(&mut self) -> Fix {
        let second = i32::try_from((self.at_ms - self.begin_ms) / 1000 % 100_000).unwrap_or(0);
        // Passes of 150 s at 2 m/s, 6 m apart: 1e-7 degree is 11.1 mm.
        let (pass, along) = (second / 150, second % 150);
        let along = if pass % 2 == 0 { along } else { 150 - along };
        let fix = Fix {
            at_ms: self.at_ms,
            lat_e7: self.origin.0 + along * 180 + self.jitter(),
            lon_e7: self.origin.1 + pass * 806 + self.jitter(),
            speed_cm_s: u16::try_from(200 + self.jitter()).ok(),
            course_ddeg: Some(if pass % 2 == 0 { 0 } else { 1800 }),
            quality: Quality::RtkFixed,
            satellites: Some(17),
            hdop_x10: Some(7),
            work: Work::On,
            work_source: WorkSource::Pto,
            width_cm: Some(600),
            sections: None,
        };
        self.at_ms += 1000;
        fix
    }

    /// -4 ..= 4, the same in every run.
    fn jitter(&mut self) -> i32 {
        self.noise = self
            .noise
            .wrapping_mul(1_664_525)
            .wrapping_add(1_013_904_223);
        i32::try_from(self.noise >> 16).unwrap_or(0) % 9 - 4
    }
}
