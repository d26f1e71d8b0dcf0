//! Waiting for a condition with a deadline; the only place of the harness that sleeps.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;

/// So often is a condition looked at.
const LOOK: Duration = Duration::from_millis(25);

/// Waits until `condition` gives something.
///
/// Errors: it did not within `patience`; `what` says what was waited for.
pub fn until<T>(
    what: &str,
    patience: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return Ok(value);
        }
        if begin.elapsed() > patience {
            bail!("waited {} s in vain: {what}", patience.as_secs());
        }
        thread::sleep(LOOK);
    }
}

/// Lets time pass where the passing itself is the point: rounds of a rig, a link that stays cut.
pub fn pass(time: Duration) {
    thread::sleep(time);
}
