//! How long the command may run.

use std::time::Duration;

use distlock::env::Moment;

use crate::args::OnLost;

/// The longest time a command has between SIGTERM and SIGKILL: what shutting down in good order usually takes.
pub(super) const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// At most this much before the end of the lease comes SIGKILL: it takes a moment to take effect on a busy machine.
const LONGEST_MARGIN: Duration = Duration::from_millis(100);

/// Until when the lock is held, on the clock that leases are on: timers and most clocks stand still while the machine is
/// suspended, and others get in meanwhile.
pub(super) struct Lease {
    ends: Moment,
    grace: Duration,
    margin: Duration,
    /// What comes first comes this long before the end.
    notice: Duration,
}

/// How long before the end of a lease SIGTERM comes: a third of it, so that the command has two thirds for its work.
pub(super) fn grace(lease: Duration) -> Duration {
    (lease / 3).min(LONGEST_GRACE)
}

impl Lease {
    /// Of a lock that is surely held for as long as `remaining`.
    pub(super) fn new(now: Moment, remaining: Duration, policy: OnLost) -> Lease {
        let grace = grace(remaining);
        let margin = (grace / 10).min(LONGEST_MARGIN);
        let notice = match policy {
            OnLost::Stop => grace,
            OnLost::Kill => margin,
            OnLost::Warn => Duration::ZERO,
        };
        Lease { ends: now.after(remaining), grace, margin, notice }
    }

    /// The lock is still held, and surely for as long as `remaining`; `None` if it is lost. That may come after the command was
    /// told to end: what could not be renewed may be renewed after all, and then be taken away.
    pub(super) fn follow(&mut self, now: Moment, remaining: Option<Duration>) {
        match remaining {
            Some(remaining) => self.ends = now.after(remaining),
            None => self.cut(now),
        }
    }

    /// From now on there is the grace and no more: the lock may have been taken away with most of the lease left. What
    /// has ended stays ended.
    pub(super) fn cut(&mut self, now: Moment) {
        self.ends = self.ends.min(now.after(self.grace));
    }

    /// How long until what comes first.
    pub(super) fn until_notice(&self, now: Moment) -> Duration {
        self.ends.since(now.after(self.notice))
    }

    /// How long until nothing may run any more.
    pub(super) fn until_end(&self, now: Moment) -> Duration {
        self.ends.since(now.after(self.margin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_origin(Duration::from_secs(seconds))
    }

    #[test]
    fn a_lock_that_was_taken_away_leaves_the_grace() {
        let mut lease = Lease::new(at(100), Duration::from_secs(30), OnLost::Stop);
        lease.follow(at(110), Some(Duration::from_secs(30)));
        lease.follow(at(111), None);
        let left = lease.until_end(at(111));
        assert!(left > Duration::from_secs(4) && left < LONGEST_GRACE, "{left:?}");
        // Nor does it begin anew.
        lease.follow(at(114), None);
        assert!(lease.until_end(at(114)) < Duration::from_secs(2));
    }

    /// The store was away, so that the command was told to end; it came back, and then the lock was taken away.
    #[test]
    fn a_lock_that_was_renewed_too_late_and_then_taken_away_leaves_the_grace() {
        let mut lease = Lease::new(at(100), Duration::from_secs(30), OnLost::Stop);
        assert_eq!(lease.until_notice(at(125)), Duration::ZERO);
        lease.cut(at(125));
        lease.follow(at(127), Some(Duration::from_secs(30)));
        assert!(lease.until_end(at(127)) > Duration::from_secs(29), "it is held");
        lease.follow(at(129), None);
        assert!(lease.until_end(at(129)) < LONGEST_GRACE);
    }

    #[test]
    fn a_lease_that_ended_while_the_machine_slept_leaves_nothing() {
        let mut lease = Lease::new(at(100), Duration::from_secs(30), OnLost::Stop);
        lease.follow(at(110), Some(Duration::from_secs(30)));
        lease.cut(at(3_700));
        assert_eq!(lease.until_end(at(3_700)), Duration::ZERO);
    }

    #[test]
    fn the_policy_says_what_comes_first() {
        for (policy, notice) in [(OnLost::Stop, 3_000), (OnLost::Kill, 100), (OnLost::Warn, 0)] {
            let lease = Lease::new(at(0), Duration::from_secs(9), policy);
            let first = Duration::from_millis(9_000 - notice);
            // The clock's origin is a nanosecond late.
            assert!(lease.until_notice(at(0)).abs_diff(first) < Duration::from_micros(1));
        }
    }
}
