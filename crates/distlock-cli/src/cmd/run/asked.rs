//! A request to end that is repeated kills; but not every signal that comes twice is a repeated request.

use std::time::Duration;

use distlock::env::Moment;
use rustix::process::Signal;

/// What comes again so soon is the same request: GNU `timeout` signals the process and then its group, and so do others.
const ECHO: Duration = Duration::from_millis(500);

/// What comes again after this time is a new request: many programs take a signal for something else than their end.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests to end that were passed on to the command.
#[derive(Default)]
pub(super) struct Asked {
    last: Option<(Signal, Moment)>,
}

/// What a request to end means after those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// To be passed on.
    New,
    /// The one before has just been passed on.
    Echo,
    /// It has been asked, and does not end.
    Repeated,
}

impl Asked {
    /// The command was sent this signal.
    pub(super) fn passed_on(&mut self, signal: Signal, now: Moment) {
        self.last = Some((signal, now));
    }

    /// A request came. Another signal is another request: some programs end gently on the one and quickly on the other.
    pub(super) fn hear(&mut self, signal: Signal, now: Moment) -> Request {
        match self.last {
            Some((before, at)) if before == signal && now < at.after(PATIENCE) => {
                if now < at.after(ECHO) { Request::Echo } else { Request::Repeated }
            }
            _ => {
                self.passed_on(signal, now);
                Request::New
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Request::{Echo, New, Repeated};
    use super::*;

    fn heard<const N: usize>(signals: [(u64, Signal); N]) -> [Request; N] {
        let mut asked = Asked::default();
        signals.map(|(millis, signal)| {
            asked.hear(signal, Moment::from_origin(Duration::from_millis(millis)))
        })
    }

    #[test]
    fn only_the_same_request_again_and_soon_is_meant_to_kill() {
        let (term, int) = (Signal::TERM, Signal::INT);
        assert_eq!(heard([(10, term), (1_000, term)]), [New, Repeated]);
        assert_eq!(heard([(10, int), (4_900, int)]), [New, Repeated]);
        // As GNU `timeout` sends it.
        assert_eq!(heard([(10, term), (11, term)]), [New, Echo]);
        // Counted from the one that was passed on, so that keys pressed again and again count, too.
        assert_eq!(heard([(0, int), (300, int), (600, int)]), [New, Echo, Repeated]);
        // A query that is cancelled now and then.
        assert_eq!(heard([(0, int), (6_000, int), (12_000, int)]), [New, New, New]);
        assert_eq!(heard([(0, term), (1_000, int), (2_000, term)]), [New, New, New]);
    }

    #[test]
    fn what_was_sent_for_the_sake_of_the_lock_counts() {
        let mut asked = Asked::default();
        let at = |millis| Moment::from_origin(Duration::from_millis(millis));
        asked.passed_on(Signal::TERM, at(0));
        assert_eq!(asked.hear(Signal::TERM, at(1_000)), Repeated);
    }
}
