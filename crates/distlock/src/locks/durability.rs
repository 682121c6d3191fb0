//! Whether an acquire waits for replicas.

/// Whether an acquire succeeds as soon as the server has applied it, or only when some of its replicas have it too.
///
/// A replica that takes over knows what it had received. With [`Primary`](Durability::Primary) it may lack the newest locks,
/// and a second owner can acquire one of them; the first owner notices when its client has found the new primary, and no later
/// than its deadline. With [`Acks`](Durability::Acks) an acquire that goes to the server returns only after so many replicas have
/// acknowledged it. A hand-over between waiters of one process needs no acknowledgement: it happens only if the watchdog renews
/// the lock, the previous owner's hold was acknowledged, and if a failover loses the hand-over, the guard of the new owner is lost
/// before that hold ends.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{Durability, ErrorKind, Locks};
///
/// // On a server with a replica: `redis://…`, `redis+cluster://…`. `memory:` has none.
/// let builder = Locks::builder().url("memory:").durability(Durability::Acks(1));
/// assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Unsupported);
/// # });
/// ```
///
/// # What `Acks` costs
/// A round trip from the server to its replicas on each acquisition, and a connection of its own for each server and runtime.
/// Acquisitions that come at the same time share it; one that comes while others wait for replicas is sent when these have their
/// reply. Releases, renewals, extensions and queries do not wait for replicas. Waiters of one process pass a lock on in memory
/// only if the watchdog keeps it.
///
/// # Too few
/// If too few replicas acknowledge in time (half of the reply time-out: half a second unless the watchdog's timeout
/// is short), the acquisition is rolled back, and the call ends with [`NotDurable`](crate::ErrorKind::NotDurable) at once,
/// however long it could wait: the caller decides what to do without replicas. Callers of one process that
/// wait for the same lock then share that result.
///
/// # What it cannot promise
/// *Acknowledged* is not *agreed on*. With `Acks(1)` and three replicas the one that takes over may be another than the one
/// that has the lock; Sentinel and Cluster prefer the one that has received most, but do not know which acquires were acknowledged.
/// Require all replicas of which one could take over, or let the resource check a [fencing token](crate::Fenced). And renewals are not
/// acknowledged: if one is lost in a failover, the lock ends as if it had not been renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// An acquire succeeds when the server has applied it. This costs nothing.
    #[default]
    Primary,
    /// An acquire succeeds when so many replicas have acknowledged it as well, by the command `WAIT`. At least one: `Acks(0)` is
    /// refused with `Config`, because it would wait for no replica.
    Acks(u32),
}
