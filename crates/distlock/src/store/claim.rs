//! The requests of the engine and the replies of a store: plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::PermitId;
use crate::holder::HolderInfo;
use crate::owner::Owner;

/// The subject of an operation: the owner, the lock, the hold count and the lease.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The full name, prefix included.
    pub name: Arc<str>,
    /// The owner that claims.
    pub owner: Owner,
    /// The time to live that the lock gets.
    pub lease: Duration,
    /// The hold count after the operation.
    pub depth: u32,
    /// The owner from which the lock passes to this one, without being free in between; `None` otherwise.
    pub heir_of: Option<Owner>,
    /// The kind of lock, and how it is claimed.
    pub kind: ClaimKind,
    /// The info of the holder, which the store keeps beside the lock for as long as it is held. In an operation that releases,
    /// `Some` only means that info may be kept. `None` if [`Builder::holder_info`](crate::Builder::holder_info) is not set: then the store
    /// must not do any work for it.
    pub info: Option<Arc<HolderInfo>>,
}

impl Claim {
    /// Returns the key under which a store keeps the info of this claim's hold: see [`Holder::info_key`].
    pub fn info_key(&self) -> String {
        match self.kind {
            ClaimKind::LeasedPermits { .. } => {
                let id = PermitId::of(self.owner, 1).next();
                id.map(|id| permit_key(&id.to_string()).to_owned()).unwrap_or_default()
            }
            ClaimKind::Write { .. } => format!("{}:write", self.owner),
            _ => self.owner.to_string(),
        }
    }
}

/// Returns the prefix that the ids of all permits of one acquisition have in common.
fn permit_key(id: &str) -> &str {
    id.get(..24).unwrap_or(id)
}

/// The kind of lock that a claim is about, and how it is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClaimKind {
    /// One owner at a time, any number of times.
    Exclusive,
    /// As `Exclusive`, and each acquisition gets a number higher than all before.
    Fenced,
    /// One owner at a time, in the order of arrival.
    Fair {
        /// How long a waiter that sends nothing keeps its place; `None` for a single try, which takes no place.
        patience: Option<Duration>,
    },
    /// Any number of owners together, while no owner writes.
    Read,
    /// A single owner, without readers.
    Write {
        /// Whether the owner waits: readers that come later wait for it.
        waits: bool,
    },
    /// One owner at a time, in the format `SET name owner NX PX lease`.
    Simple,
    /// Some of a number of permits, without a lease.
    Permits {
        /// How many.
        count: u32,
        /// The number of permits in all, if it is not set yet.
        initial: Option<u32>,
    },
    /// Some of a number of permits, each with an id and a lease.
    LeasedPermits {
        /// How many.
        count: u32,
        /// The number of permits in all, if it is not set yet.
        initial: Option<u32>,
    },
    /// A count that is zero. Nothing is held afterwards.
    LatchOpen,
}

impl ClaimKind {
    /// Returns the kind that a store must offer for this claim by a handle of `kind`: a `mutex` may be served as another kind.
    pub(crate) fn required(self, kind: Kind) -> Kind {
        match self {
            ClaimKind::Exclusive => kind,
            ClaimKind::Fenced => Kind::Fenced,
            ClaimKind::Fair { .. } => Kind::Fair,
            ClaimKind::Read | ClaimKind::Write { .. } => Kind::Rw,
            ClaimKind::Simple => Kind::Simple,
            ClaimKind::Permits { .. } => Kind::Semaphore,
            ClaimKind::LeasedPermits { .. } => Kind::LeasedSemaphore,
            ClaimKind::LatchOpen => Kind::Latch,
        }
    }
}

/// The kinds of locks. The name of each is the method of [`Locks`](crate::Locks), the `--kind` of the command line and the label of
/// metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `mutex`: one owner at a time.
    Mutex,
    /// `fair`: one owner at a time, in the order of arrival.
    Fair,
    /// `rw`: many readers or one writer.
    Rw,
    /// `fenced`: one owner at a time, numbered.
    Fenced,
    /// `spin`: a mutex whose waiters poll.
    Spin,
    /// `simple`: `SET NX PX`.
    Simple,
    /// `multi`: several locks, all or none.
    Multi,
    /// `redlock`: a majority of independent servers.
    Redlock,
    /// `semaphore`: a number of permits.
    Semaphore,
    /// `leased_semaphore`: permits with leases.
    LeasedSemaphore,
    /// `latch`: a count that callers wait for until it is zero.
    Latch,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 11] = [
        Kind::Mutex,
        Kind::Fair,
        Kind::Rw,
        Kind::Fenced,
        Kind::Spin,
        Kind::Simple,
        Kind::Multi,
        Kind::Redlock,
        Kind::Semaphore,
        Kind::LeasedSemaphore,
        Kind::Latch,
    ];

    /// Returns the name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
            Kind::Fair => "fair",
            Kind::Rw => "rw",
            Kind::Fenced => "fenced",
            Kind::Spin => "spin",
            Kind::Simple => "simple",
            Kind::Multi => "multi",
            Kind::Redlock => "redlock",
            Kind::Semaphore => "semaphore",
            Kind::LeasedSemaphore => "leased_semaphore",
            Kind::Latch => "latch",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of [`Store::acquire`](super::Store::acquire).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The owner holds it now, at the claim's depth.
    Acquired {
        /// The fencing token, for kinds that issue one.
        token: Option<u64>,
        /// The lease that the store granted: how long it keeps the hold at least, from the moment at which it applied the operation. May be
        /// longer or shorter than the claim's: a store may count in whole seconds, have a limit of its own, or have granted more to the
        /// same owner before. The engine counts it from the time at which it sent the operation, and never believes in the hold for longer.
        lease: Duration,
    },
    /// Another owner holds it, for at most `ttl` unless it is renewed.
    Busy {
        /// The time to live seen.
        ttl: Duration,
    },
}

/// The result of [`Store::renew`](super::Store::renew) for one claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Renewed {
    /// The owner still holds it.
    Held {
        /// How long the store keeps the hold at least, from the moment at which it applied the operation: as the `lease` of
        /// [`Attempt::Acquired`].
        for_: Duration,
    },
    /// The owner does not hold it any more. Final: a store returns it only if it is sure.
    Gone,
}

impl Renewed {
    /// Returns whether the owner still holds it.
    pub fn is_held(&self) -> bool {
        matches!(self, Renewed::Held { .. })
    }
}

/// What a store granted for one of several claims: see [`AttemptAll::Acquired`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The fencing token, for kinds that issue one.
    pub token: Option<u64>,
    /// The lease that the store granted: as the `lease` of [`Attempt::Acquired`].
    pub lease: Duration,
}

impl Grant {
    /// Returns a grant of this lease, without a fencing token.
    pub fn new(lease: Duration) -> Grant {
        Grant { token: None, lease }
    }

    /// Sets the fencing token.
    #[must_use]
    pub fn with_token(self, token: Option<u64>) -> Grant {
        Grant { token, ..self }
    }
}

/// The result of [`Store::release`](super::Store::release).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// The lock is free now.
    Freed {
        /// How many listeners received the message: a hint about waiters of other processes, as far as the store can tell.
        heard_by: u32,
    },
    /// Still held by the same owner, with a lower hold count.
    StillHeld,
    /// The owner did not hold it.
    NotHeld,
}

/// The result of [`Store::acquire_all`](super::Store::acquire_all).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptAll {
    /// All are held now; with what was granted for each claim, in order.
    Acquired(Vec<Grant>),
    /// None was acquired.
    Busy {
        /// The index of the claim that is busy.
        at: usize,
        /// The time to live of its lock.
        ttl: Duration,
    },
    /// The store cannot acquire these in one atomic operation, and acquired none.
    NotAtomic,
}

/// The state of a lock in its store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name.
    pub name: Arc<str>,
    /// The holders; empty if it is free.
    pub holders: Vec<Holder>,
    /// Its time to live unless it is renewed; `None` if it is free, or has no time to live.
    pub ttl: Option<Duration>,
    /// The owners in the queue of a fair lock, the first one first. Empty in a listing of a server.
    pub queue: Vec<String>,
    /// The free permits of a semaphore, or the count of a latch; `None` for other locks.
    pub count: Option<i64>,
    /// How many waiters it has, as far as the store can tell: for a fair lock those in its queue, for others the subscribers, one
    /// for each process. Waiters that poll are not counted. `None` if the store cannot tell, for instance in a listing of a server for an
    /// exclusive lock without subscribers: it may be fair, and each waiter of a fair lock subscribes to a channel of its own.
    pub waiters: Option<u32>,
}

impl Snapshot {
    /// Returns the snapshot of a free lock.
    pub fn free(name: impl Into<Arc<str>>) -> Snapshot {
        Snapshot {
            name: name.into(),
            holders: Vec::new(),
            ttl: None,
            queue: Vec::new(),
            count: None,
            waiters: None,
        }
    }

    /// Returns the snapshot of a held lock.
    pub fn held(name: impl Into<Arc<str>>, holders: Vec<Holder>, ttl: Duration) -> Snapshot {
        Snapshot { holders, ttl: Some(ttl), ..Snapshot::free(name) }
    }

    /// Sets the queue.
    #[must_use]
    pub fn with_queue(self, queue: Vec<String>) -> Snapshot {
        Snapshot { queue, ..self }
    }

    /// Sets the count.
    #[must_use]
    pub fn with_count(self, count: Option<i64>) -> Snapshot {
        Snapshot { count, ..self }
    }

    /// Sets the number of waiters.
    #[must_use]
    pub fn with_waiters(self, waiters: Option<u32>) -> Snapshot {
        Snapshot { waiters, ..self }
    }

    /// Returns whether it has a holder.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// Returns the hold count of this owner; for a read-write lock its reads and writes together.
    pub fn depth_of(&self, owner: &Owner) -> u32 {
        let text = owner.to_string();
        self.holders.iter().filter(|h| h.owner == text).map(|h| h.depth).sum()
    }
}

/// One holder in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner as it is in the store: `uuid:n`, or the text that another client wrote.
    pub owner: String,
    /// The hold count, or the number of permits.
    pub depth: u32,
    /// How the lock is held.
    pub mode: Mode,
    /// The holder's info, if it stored one: see [`Builder::holder_info`](crate::Builder::holder_info).
    pub info: Option<HolderInfo>,
}

/// How a holder holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Alone.
    Exclusive,
    /// Together with other readers.
    Read,
    /// Alone, as the writer of a read-write lock.
    Write,
    /// Some permits of a semaphore.
    Permits,
}

impl Holder {
    /// Returns a holder with this hold count, in [`Mode::Exclusive`].
    pub fn new(owner: impl Into<String>, depth: u32) -> Holder {
        Holder::with_mode(owner, depth, Mode::Exclusive)
    }

    /// Returns a holder with this hold count, in this mode.
    pub fn with_mode(owner: impl Into<String>, depth: u32, mode: Mode) -> Holder {
        Holder { owner: owner.into(), depth, mode, info: None }
    }

    /// Sets the info.
    #[must_use]
    pub fn with_info(self, info: Option<HolderInfo>) -> Holder {
        Holder { info, ..self }
    }

    /// Returns the key under which a store keeps its info: its owner, with `:write` for a writer, which may read as well; for leased
    /// permits the part that the ids of one acquisition have in common.
    pub fn info_key(&self) -> String {
        match self.mode {
            Mode::Write => format!("{}:write", self.owner),
            Mode::Permits if !self.owner.contains(':') => permit_key(&self.owner).to_owned(),
            _ => self.owner.clone(),
        }
    }
}
