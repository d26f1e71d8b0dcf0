//! Latencies in buckets that grow by 5 %: constant memory, percentiles within 5 %. Never keeps a single value.

use std::time::Duration;

/// Growth from one bucket to the next.
const GROWTH: f64 = 1.05;
/// Upper end of the first bucket, s.
const FIRST: f64 = 20e-6;
/// 20 us x 1.05^320 is two minutes.
const BUCKETS: usize = 320;

/// A distribution.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Vec<u64>,
    most: Duration,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            most: Duration::ZERO,
        }
    }
}

impl Latencies {
    /// Notes one.
    pub fn note(&mut self, latency: Duration) {
        let steps = (latency.as_secs_f64() / FIRST).max(1.0).ln() / GROWTH.ln();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 0, and bounded on the next line"
        )]
        let bucket = (steps.ceil() as usize).min(BUCKETS - 1);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.most = self.most.max(latency);
    }

    /// Adds those of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.most = self.most.max(other.most);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The longest.
    #[must_use]
    pub fn most(&self) -> Duration {
        self.most
    }

    /// What `share` of them (0 ..= 1) do not exceed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    pub fn percentile(&self, share: f64) -> Duration {
        let wanted = self.count() as f64 * share;
        let mut sum = 0.0;
        for (bucket, count) in (0_i32..).zip(&self.counts) {
            sum += *count as f64;
            if sum >= wanted && sum > 0.0 {
                return Duration::from_secs_f64(FIRST * GROWTH.powi(bucket)).min(self.most);
            }
        }
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_lie_within_a_bucket_of_the_truth() {
        let mut latencies = Latencies::default();
        for ms in 1..=1000 {
            latencies.note(Duration::from_millis(ms));
        }
        let close = |found: Duration, truth: f64| {
            let found = found.as_secs_f64() * 1000.0;
            (found / truth - 1.0).abs() < 0.051
        };
        assert!(close(latencies.percentile(0.5), 500.0));
        assert!(close(latencies.percentile(0.99), 990.0));
        assert_eq!(latencies.percentile(1.0), Duration::from_secs(1));
        assert_eq!(latencies.count(), 1000);
    }
}
