//! Every default once, each with its reason.

use std::time::Duration;

/// How long a lock without a lease lives after its last renewal. Redisson's `lockWatchdogTimeout`: long enough for a
/// stop-the-world pause, short enough for operators to wait out a crashed holder.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// The watchdog renews after this fraction of its timeout: two renewals may fail before the third is too late.
pub(crate) const RENEWALS_PER_TIMEOUT: u32 = 3;

/// How long a waiter of a fair lock that sends nothing keeps its place. Redisson's `fairLockWaitTimeout`: waiters of both
/// share a queue, so their places should last alike.
pub(crate) const FAIR_PATIENCE: Duration = Duration::from_secs(300);

/// A shorter watchdog timeout could not be renewed in time over an ordinary network.
pub(crate) const WATCHDOG_FLOOR: Duration = Duration::from_millis(100);

/// How many locks one renewal command covers: Redisson's `lockWatchdogBatchSize`. One script of this size holds
/// the server for well under a millisecond.
pub(crate) const RENEWAL_BATCH: usize = 100;

/// The longest lease and wait. Beyond it a server's expiry arithmetic overflows and leaves an immortal lock.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The longest name in bytes. Names are keys: real ones are far shorter, and a runaway one should fail early.
pub(crate) const NAME_BYTES: usize = 4096;

/// How many leased permits one acquisition takes at most. Each has an id on the wire, and a script that works on more of
/// them would hold the server up.
pub(crate) const MOST_LEASED: u32 = 10_000;

/// What a holder subtracts from its lease before it believes in it: clocks may differ in rate by one per cent, and a
/// timer may be late by two milliseconds.
pub(crate) fn safety_margin(lease: Duration) -> Duration {
    (lease / 100 + Duration::from_millis(2)).min(lease / 2)
}

/// How long one command may take, reconnects and re-sends included, beyond the caller's wait: Redisson's `timeout`.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the drop of the last `Locks` waits for releases that are under way: several round trips to a far server, and a new
/// connection for them; short enough that a program whose server is away ends without a noticeable pause.
pub(crate) const FLUSH: Duration = Duration::from_millis(300);

/// How long one reply may take before the connection counts as dead. A third of [`COMMAND_TIMEOUT`], so a lost reply
/// can be requested again within it; every operation is idempotent, so sending it twice does no harm.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(1);

/// The reply timeout with a short watchdog timeout: a renewal whose reply is lost must be sent again while there is still time.
#[cfg(feature = "redis")]
pub(crate) fn reply_timeout(watchdog: Duration) -> Duration {
    (watchdog / RENEWALS_PER_TIMEOUT).clamp(Duration::from_millis(50), REPLY_TIMEOUT)
}

/// How long replicas may take to acknowledge an acquisition. Half of the reply timeout: a frozen replica then leads to a reply (too few
/// acknowledgements) and never to a missing one, and an acquire that arrives while others wait for it has its own reply after twice
/// that. A healthy replica takes a round trip.
#[cfg(feature = "redis")]
pub(crate) fn ack_timeout(reply_timeout: Duration) -> Duration {
    reply_timeout / 2
}

/// How many times in a row a lock may pass from one local holder to the next before it is really released. Enough to
/// make the round trips disappear, few enough that other processes wait for milliseconds.
pub(crate) const BURST_COUNT: u32 = 64;

/// How long a burst may last; the count alone would let critical sections of a second starve other processes.
pub(crate) const BURST_TIME: Duration = Duration::from_millis(10);

/// After a burst, the process that had it lets every other listening process acquire first. It waits no longer than this beyond the
/// length of a burst for one that does not.
pub(crate) const TURN_SLACK: Duration = Duration::from_millis(2);

/// Local hand-offs are sent to the store at most this often: with critical sections shorter than a round trip, sending each of them would
/// make the connection the bottleneck that local hand-off avoids.
pub(crate) const PASS_PACE: Duration = Duration::from_millis(1);

/// A waiter behind a local holder waits for it this long before it subscribes at the server: most holders release before a
/// subscription would be acknowledged.
pub(crate) const LOCAL_PATIENCE: Duration = Duration::from_millis(10);

/// After this time, the library's own thread polls work of a caller that another task depends on: the caller may never be polled again.
/// Longer than most replies take, so that callers that are polled keep their work.
pub(crate) const ADOPT_AFTER: Duration = Duration::from_millis(50);

/// How long a hold may wait for its caller to be polled. A future that its program has forgotten must not keep other owners out; a caller
/// that is polled later starts again.
pub(crate) const UNCOLLECTED: Duration = Duration::from_secs(1);

/// How many callers of one `Locks` send commands to a server at once. More would only wait for each other's replies, each with its command
/// in memory.
pub(crate) const ASKERS: usize = 1024;

/// The first and the longest pause between attempts while a store cannot be reached.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(10);
/// See [`RETRY_FIRST`].
pub(crate) const RETRY_LONGEST: Duration = Duration::from_millis(500);

/// Every wait re-checks at least this often even if no message comes: a third of the watchdog timeout, but not more often
/// than once a second, so that waiting costs nothing that counts.
pub(crate) fn recheck(watchdog: Duration) -> Duration {
    (watchdog / RENEWALS_PER_TIMEOUT).max(Duration::from_secs(1))
}

/// The watchdog thread reads the clock this often even if nothing is due: after a suspend, timers are late by its length, and a lost lock
/// must be noticed soon.
pub(crate) const WATCHDOG_TICK: Duration = Duration::from_secs(1);
