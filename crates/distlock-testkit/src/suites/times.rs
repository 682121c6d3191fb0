//! Words for times.

use std::time::Duration;

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// A lease that does not end while a test runs.
pub(crate) const HOUR: Duration = secs(3600);

/// A watchdog's timeout for a hold that must be kept: a machine that stands still for some seconds does not cost it.
pub(crate) const STEADY: Duration = secs(6);

/// A watchdog's timeout so long that no waiter looks by itself while a test runs: whoever gets in was woken.
pub(crate) const NO_LOOKING: Duration = secs(3600);
