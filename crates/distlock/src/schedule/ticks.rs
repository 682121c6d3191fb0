//! When a schedule's ticks are.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::node::LOOK;
use crate::error::{Error, ErrorKind, Result};

/// Gives the first tick after a time.
pub(super) type Next = Box<dyn FnMut(SystemTime) -> Option<SystemTime> + Send>;

/// How many ticks that are over are checked one by one. A clock that jumped by years, with ticks each millisecond, would have
/// others wait.
const BACKLOG: u32 = 100_000;

/// The ticks that have not been taken yet, in order.
pub(super) struct Ticks {
    next: Next,
    /// The next one was asked for after this time.
    after: SystemTime,
    ahead: Option<SystemTime>,
    /// One that was taken, and has to be run again.
    again: Option<SystemTime>,
}

impl Ticks {
    pub(super) fn new(next: Next, from: SystemTime) -> Ticks {
        let mut ticks = Ticks { next, after: from, ahead: None, again: None };
        ticks.advance(from);
        ticks
    }

    pub(super) fn every(period: Duration, offset: Duration, from: SystemTime) -> Result<Ticks> {
        let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        if millis == 0 {
            let text = format!("a period of {period:?} is too short: at least 1 ms");
            return Err(Error::new(ErrorKind::InvalidDuration, text));
        }
        let period = Duration::from_millis(millis);
        let origin = UNIX_EPOCH.checked_add(offset).ok_or_else(|| {
            let text = format!("an offset of {offset:?} is beyond the range of the system clock");
            Error::new(ErrorKind::InvalidDuration, text)
        })?;
        let next = move |after: SystemTime| {
            let passed = after.duration_since(origin).unwrap_or_default();
            let periods = passed.as_millis() / period.as_millis() + 1;
            let periods = u32::try_from(periods).ok();
            match periods {
                Some(periods) => origin.checked_add(period.checked_mul(periods)?),
                // More periods than a multiplication takes: from the last one that is over.
                None => {
                    let into = passed.as_millis() % period.as_millis();
                    let left = Duration::from_millis(u64::try_from(into).ok()?);
                    let submilli =
                        Duration::from_nanos(u64::from(passed.subsec_nanos() % 1_000_000));
                    after.checked_add(period)?.checked_sub(left + submilli)
                }
            }
        };
        Ok(Ticks::new(Box::new(next), from))
    }

    /// The next one.
    pub(super) fn peek(&self) -> Option<SystemTime> {
        self.ahead
    }

    /// The latest that is due, if one is; those before it are left out.
    pub(super) fn latest(&mut self, now: SystemTime) -> Option<SystemTime> {
        let mut due = self.again.take();
        for looked_at in 0.. {
            let Some(tick) = self.ahead.filter(|tick| *tick <= now) else { break };
            due = Some(tick);
            self.advance(if looked_at < BACKLOG { tick } else { now });
        }
        due
    }

    /// This one is due until a later one is.
    pub(super) fn again(&mut self, tick: SystemTime) {
        self.again = Some(tick);
    }

    /// If the clock was set back far, what it passed over is to come: of that the gate knows what was run.
    pub(super) fn set_back(&mut self, now: SystemTime) {
        if self.after.duration_since(now).is_ok_and(|back| back > LOOK) {
            self.after = now;
            let sooner = (self.next)(now).filter(|tick| *tick > now);
            self.ahead = sooner.into_iter().chain(self.ahead).min();
        }
    }

    fn advance(&mut self, after: SystemTime) {
        self.after = after.max(self.after);
        // One that does not rise would be run for ever.
        self.ahead = (self.next)(self.after).filter(|tick| *tick > self.after);
    }
}

impl fmt::Debug for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticks").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn ticks_are_counted_from_1970_wherever_one_starts() {
        for period in [1, 7, 1000, 86_400_000] {
            for from in [0, 1, 6, 7, 1_800_000_000_123] {
                let from = at(from) + Duration::from_micros(1);
                let offset = Duration::from_millis(3);
                let mut ticks =
                    Ticks::every(Duration::from_millis(period), offset, from).expect("valid");
                for _ in 0..3 {
                    let tick = ticks.peek().expect("they do not end");
                    let since = tick.duration_since(UNIX_EPOCH + offset).expect("after it");
                    assert_eq!(since.as_nanos() % u128::from(period * 1_000_000), 0);
                    assert!(tick > from && tick <= from + Duration::from_millis(4 * period + 3));
                    assert_eq!(ticks.latest(tick), Some(tick));
                }
            }
        }
    }

    #[test]
    fn of_those_that_are_over_only_the_latest_is_given() {
        let second = Duration::from_secs(1);
        let mut ticks = Ticks::every(second, Duration::ZERO, at(500)).expect("valid");
        assert_eq!(ticks.latest(at(999)), None);
        assert_eq!(ticks.latest(at(5200)), Some(at(5000)));
        assert_eq!(ticks.latest(at(5200)), None);
        assert_eq!(ticks.peek(), Some(at(6000)));
        // Years later, in a moment.
        let far = at(1_800_000_000_000);
        assert!(ticks.latest(far).is_some());
        assert!(ticks.peek().expect("they do not end") > far);
    }

    #[test]
    fn one_that_does_not_rise_is_the_last() {
        let mut ticks = Ticks::new(Box::new(|_| Some(at(1000))), at(0));
        assert_eq!(ticks.latest(at(2000)), Some(at(1000)));
        assert_eq!(ticks.peek(), None);
        assert!(Ticks::every(Duration::from_micros(999), Duration::ZERO, at(0)).is_err());
    }

    #[test]
    fn one_that_is_run_again_gives_way_to_a_later_one() {
        let second = Duration::from_secs(1);
        let mut ticks = Ticks::every(second, Duration::ZERO, at(500)).expect("valid");
        assert_eq!(ticks.latest(at(1000)), Some(at(1000)));
        ticks.again(at(1000));
        assert_eq!(ticks.latest(at(1999)), Some(at(1000)));
        assert_eq!(ticks.latest(at(1999)), None);
        ticks.again(at(1000));
        assert_eq!(ticks.latest(at(2000)), Some(at(2000)));
        assert_eq!(ticks.latest(at(2000)), None);
    }

    #[test]
    fn a_clock_that_is_set_back_far_passes_its_ticks_again() {
        let mut ticks = Ticks::every(LOOK, Duration::ZERO, UNIX_EPOCH + 100 * LOOK).expect("valid");
        ticks.set_back(UNIX_EPOCH + 99 * LOOK);
        assert_eq!(ticks.peek(), Some(UNIX_EPOCH + 101 * LOOK), "not far");
        let mended = UNIX_EPOCH + 50 * LOOK;
        ticks.set_back(mended);
        assert_eq!(ticks.latest(mended + LOOK), Some(mended + LOOK));
        // One that can say nothing about the past keeps what it has said.
        let mut once = Some(at(200_000));
        let mut ticks = Ticks::new(Box::new(move |_| once.take()), at(100_000));
        ticks.set_back(at(0));
        assert_eq!(ticks.peek(), Some(at(200_000)));
    }

    #[test]
    fn an_offset_that_no_clock_can_say_is_refused() {
        let refused = Ticks::every(LOOK, Duration::MAX, at(0)).expect_err("too long");
        assert_eq!(refused.kind(), ErrorKind::InvalidDuration);
    }
}
