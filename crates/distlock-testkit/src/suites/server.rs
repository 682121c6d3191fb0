//! What promises on a server of their own have in common.

use distlock::Locks;

use super::times::secs;
use crate::Match;

/// A step of the lock, semaphore or latch of that name. What its script is called on the wire is not known here; but every
/// step says whose it is.
pub(crate) fn step(name: &str) -> Match {
    Match::command("EVALSHA").and(Match::token(name))
}

/// One more process, with a watchdog of so many seconds.
pub(crate) async fn open(url: &str, watchdog: u64) -> Locks {
    let locks = Locks::builder().url(url).watchdog(secs(watchdog)).connect().await;
    locks.expect("the server answers")
}
