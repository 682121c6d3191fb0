//! When an acquisition counts.

/// When an acquisition counts: as soon as the server has it, or only when some of its replicas have it too.
///
/// A replica that takes over knows what it had received. With [`Primary`](Durability::Primary) that may be a moment less than
/// the server had promised, and a second owner gets in; the first one is told no later than its deadline. With
/// [`Acks`](Durability::Acks) nobody is told that it holds a lock before so many replicas have said that they have it.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{Durability, ErrorKind, Locks};
///
/// // On a server with a replica: `redis://…`, `redis+cluster://…`. Memory has none, and says so.
/// let builder = Locks::builder().url("memory:").durability(Durability::Acks(1));
/// assert_eq!(builder.connect().await.unwrap_err().kind(), ErrorKind::Unsupported);
/// # });
/// ```
///
/// # What `Acks` costs
/// A round trip from the server to its replicas on each acquisition, and a connection of its own for each server and runtime.
/// Acquisitions that come at the same time share it; one that comes while others wait for replicas is sent when they have their
/// answer. Releases, renewals, extensions and questions do not wait for replicas. Waiters of one process pass a lock on in memory
/// only if the watchdog keeps it.
///
/// # Too few
/// If too few replicas say in time that they have it (half of the reply time-out: half a second unless the watchdog's timeout
/// is short), the acquisition is rolled back, and the call ends with [`NotDurable`](crate::ErrorKind::NotDurable) at once,
/// however long it might wait: what to do without replicas is for the caller to decide. Callers of one process that
/// wait for the same lock then share that answer.
///
/// # What it cannot promise
/// *Acknowledged* is not *agreed on*. With `Acks(1)` and three replicas the one that takes over may be another than the one
/// that has the lock; Sentinel and Cluster prefer the one that has received most, but do not know what was promised. Ask for all replicas of
/// which one could take over, or let the resource check a [fencing token](crate::Fenced). And renewals are not
/// acknowledged: if one is lost in a failover, the lock ends as if it had not been renewed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durability {
    /// When the server that serves the lock has it. Costs nothing.
    #[default]
    Primary,
    /// When so many of its replicas have acknowledged it as well, which is what `WAIT` asks for. At least one: `Acks(0)` is
    /// refused with `Config`, because it would promise nothing that its name says.
    Acks(u32),
}
