//! Pauses between attempts.

use std::time::Duration;

/// How long a waiter that polls pauses between two attempts; for [`Spin`](crate::Spin) and [`Simple`](crate::Simple).
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
    first: Duration,
    longest: Duration,
    factor: u32,
}

/// Shorter pauses would keep a server busy with a single waiter.
const SHORTEST: Duration = Duration::from_micros(100);

impl Backoff {
    /// Begins with `first` and multiplies by `factor` after each attempt that failed, up to `longest`. A pause is
    /// lengthened at random by up to a millisecond per failure, so that waiters do not come in step.
    pub fn exponential(first: Duration, longest: Duration, factor: u32) -> Backoff {
        Backoff {
            first: first.max(SHORTEST),
            longest: longest.max(SHORTEST),
            factor: factor.max(1),
        }
    }

    /// Always the same.
    pub fn constant(pause: Duration) -> Backoff {
        Backoff { first: pause.max(SHORTEST), longest: pause.max(SHORTEST), factor: 1 }
    }

    /// The pause after so many attempts that failed, at least one.
    pub(crate) fn pause(&self, failures: u32, random: u64) -> Duration {
        if self.factor == 1 {
            return self.first;
        }
        let failures = failures.max(1);
        let grown = self.factor.checked_pow(failures - 1).and_then(|by| self.first.checked_mul(by));
        let jitter = Duration::from_micros(random % (u64::from(failures) * 1000));
        grown.unwrap_or(self.longest).saturating_add(jitter).min(self.longest)
    }
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
