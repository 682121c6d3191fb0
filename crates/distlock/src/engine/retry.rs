//! Pauses between attempts that fail.

use std::time::Duration;

use crate::env::{Env, Moment};
use crate::locks::config::{RETRY_FIRST, RETRY_LONGEST};

/// Doubles from [`RETRY_FIRST`] to [`RETRY_LONGEST`], each pause shortened by up to a half at random so that
/// processes that lost the same server do not come back in step.
#[derive(Debug, Default)]
pub(super) struct Retry {
    failures: u32,
}

impl Retry {
    /// When to try again.
    pub(super) fn next(&mut self, env: &dyn Env) -> Moment {
        let full = RETRY_FIRST.saturating_mul(1 << self.failures.min(10)).min(RETRY_LONGEST);
        self.failures += 1;
        let half = full / 2;
        let jitter = Duration::from_nanos(env.random() % (half.as_nanos() as u64).max(1));
        env.now().after(half + jitter)
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}
