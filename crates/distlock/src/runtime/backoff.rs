//! How waiters notice a release, and the pauses of those that poll.

use std::num::NonZeroU32;
use std::time::Duration;

/// How waiters notice that a lock was released.
///
/// ```
/// use distlock::{Locks, WaitBy};
///
/// # distlock::block_on(async {
/// let locks = Locks::builder().url("memory:").wait_by(WaitBy::Spin).connect().await?;
/// # locks.mutex("k").lock().await?.unlock().await }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitBy {
    /// They subscribe to a message of the release: it arrives within about a round trip, and waiting costs next to nothing.
    #[default]
    Notify,
    /// They poll, with the pauses of [`Spin`](crate::Spin). For servers or users without Pub/Sub.
    Spin,
}

/// The pauses of a waiter that polls, between two attempts; for [`Spin`](crate::Spin) and [`Simple`](crate::Simple).
///
/// ```
/// use std::time::Duration;
/// use distlock::Backoff;
///
/// let patient = Backoff::exponential(Duration::from_millis(1), Duration::from_millis(128), 2);
/// let steady = Backoff::constant(Duration::from_millis(64));
/// # let _ = (patient, steady);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// In microseconds: every waiter has one of these.
    first: u32,
    longest: u32,
    factor: NonZeroU32,
}

/// Shorter pauses would keep a server busy with a single waiter.
const SHORTEST: Duration = Duration::from_micros(100);

impl Backoff {
    /// Returns pauses that begin with `first` and grow by `factor` after each failed attempt, up to `longest`. A pause is
    /// lengthened at random by up to a millisecond per failure, so that waiters do not poll at the same time.
    pub fn exponential(first: Duration, longest: Duration, factor: u32) -> Backoff {
        let factor = NonZeroU32::new(factor).unwrap_or(NonZeroU32::MIN);
        Backoff { first: micros(first), longest: micros(longest), factor }
    }

    /// Returns pauses that are all the same.
    pub fn constant(pause: Duration) -> Backoff {
        Backoff::exponential(pause, pause, 1)
    }

    /// The pause after so many attempts that failed, at least one.
    pub(crate) fn pause(&self, failures: u32, random: u64) -> Duration {
        if self.factor == NonZeroU32::MIN {
            return Duration::from_micros(self.first.into());
        }
        let failures = failures.max(1);
        let grown = self.factor.checked_pow(failures - 1);
        let grown = grown.and_then(|by| self.first.checked_mul(by.get())).unwrap_or(self.longest);
        let jitter = random % (u64::from(failures) * 1000);
        Duration::from_micros((u64::from(grown) + jitter).min(self.longest.into()))
    }
}

/// Not shorter than [`SHORTEST`], and not longer than an hour or so, which is as long as it can be kept.
fn micros(pause: Duration) -> u32 {
    u32::try_from(pause.max(SHORTEST).as_micros()).unwrap_or(u32::MAX)
}

/// Redisson's: 1 ms, doubled up to 128 ms.
impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::exponential(Duration::from_millis(1), Duration::from_millis(128), 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// Redisson: LockOptionsTest.
    #[test]
    fn pauses_grow_to_the_longest() {
        let backoff = Backoff::exponential(ms(10), ms(100), 3);
        let pauses: Vec<Duration> = (1..=5).map(|fails| backoff.pause(fails, 0)).collect();
        assert_eq!(pauses, [ms(10), ms(30), ms(90), ms(100), ms(100)]);
        for fails in 1..40 {
            let (low, high) = (backoff.pause(fails, 0), backoff.pause(fails, u64::MAX));
            assert!(low <= high && high <= ms(100), "{fails}: {low:?} {high:?}");
        }
    }

    #[test]
    fn a_constant_pause_stays() {
        assert_eq!(Backoff::constant(ms(30)).pause(7, u64::MAX), ms(30));
        assert!(Backoff::constant(Duration::ZERO).pause(1, 0) > Duration::ZERO);
    }
}
