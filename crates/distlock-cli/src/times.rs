//! Many durations in few words.

use std::time::Duration;

use serde_json::{Value, json};

/// Durations that were measured, shortest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What this share of them does not exceed; `None` if there are none.
    pub(crate) fn share(&self, share: f64) -> Option<Duration> {
        // The nearest rank: always one that was measured.
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.max(1) - 1).or(self.0.last()).copied()
    }

    /// Milliseconds, to the microsecond: `p50`, `p90`, `p99`, `max`; null if there are none.
    pub(crate) fn json(&self) -> Value {
        let millis = |share| self.share(share).map(|d| d.as_micros() as f64 / 1e3);
        json!({ "p50": millis(0.5), "p90": millis(0.9), "p99": millis(0.99), "max": millis(1.0) })
    }
}

impl From<Vec<Duration>> for Times {
    fn from(mut times: Vec<Duration>) -> Times {
        times.sort_unstable();
        Times(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_times_that_were_measured() {
        assert_eq!(Times::default().share(0.5), None);
        let times = Times::from([3, 1, 2, 100, 4].map(Duration::from_millis).to_vec());
        let millis = |share| times.share(share).map(|d| d.as_millis());
        assert_eq!([0.0, 0.5, 0.9, 0.99, 1.0].map(millis), [1, 3, 100, 100, 100].map(Some));
        let many: Vec<Duration> = (1..=1000).rev().map(Duration::from_millis).collect();
        let many = Times::from(many);
        assert_eq!((many.share(0.5), many.len()), (Some(Duration::from_millis(500)), 1000));
        assert_eq!(many.share(0.99), Some(Duration::from_millis(990)));
    }
}
