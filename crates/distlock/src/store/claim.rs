//! What the engine asks and what a store answers: plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::admin::PermitId;
use crate::holder::HolderInfo;
use crate::owner::Owner;

/// One step's subject: who wants what, how deep and for how long.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The full name, prefix included.
    pub name: Arc<str>,
    /// Who claims.
    pub owner: Owner,
    /// The time to live that the lock gets.
    pub lease: Duration,
    /// The hold count after the step.
    pub depth: u32,
    /// Set when the lock passes from this owner without being free in between.
    pub heir_of: Option<Owner>,
    /// What is claimed.
    pub what: What,
    /// What the holder says of itself, for the store to keep beside the lock for as long as that is held. In a step that lets go
    /// it only says that something may be kept. `None` if nobody asked for it: then it must cost nothing.
    pub info: Option<Arc<HolderInfo>>,
}

impl Claim {
    /// Under which word the info of this claim's hold is kept: see [`Holder::info_key`].
    pub fn info_key(&self) -> String {
        match self.what {
            What::LeasedPermits { .. } => {
                let id = PermitId::of(self.owner, 1).next();
                id.map(|id| permit_key(&id.to_string()).to_owned()).unwrap_or_default()
            }
            What::Write { .. } => format!("{}:write", self.owner),
            _ => self.owner.to_string(),
        }
    }
}

/// What the ids of all permits of one acquisition begin with.
fn permit_key(id: &str) -> &str {
    id.get(..24).unwrap_or(id)
}

/// What a claim claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// One owner at a time, any number of times.
    Exclusive,
    /// The same, and each acquisition gets a number higher than all before.
    Fenced,
    /// One owner at a time, in the order in which they asked.
    Fair {
        /// How long a waiter that is not heard of keeps its place; `None` for a single try, which takes no place.
        patience: Option<Duration>,
    },
    /// Any number of owners together, while nobody writes.
    Read,
    /// One owner alone.
    Write {
        /// The owner waits: readers who come after it wait behind it.
        waits: bool,
    },
    /// One owner at a time, in the format `SET name owner NX PX lease`.
    Simple,
    /// Some of a number of permits, for good.
    Permits {
        /// How many.
        count: u32,
        /// How many there are in all, if nobody has set that before.
        initial: Option<u32>,
    },
    /// Some of a number of permits, each with an id and a lease.
    LeasedPermits {
        /// How many.
        count: u32,
        /// How many there are in all, if nobody has set that before.
        initial: Option<u32>,
    },
    /// That a count has come down to zero. Nothing is held afterwards.
    LatchOpen,
}

/// The word for each kind of lock: accessor, command-line `--kind`, metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `mutex`: one owner at a time.
    Mutex,
    /// `fair`: one owner at a time, in the order of asking.
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
    /// `latch`: a count that comes down to zero.
    Latch,
}

impl Kind {
    /// Every kind, in the order of the tour.
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

    /// The word itself.
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

/// The answer to an `acquire`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// The owner holds it now, at the claim's depth.
    Acquired {
        /// The fencing token, for kinds that issue one.
        token: Option<u64>,
    },
    /// Somebody else holds it, for at most `ttl` unless renewed.
    Busy {
        /// The time to live seen.
        ttl: Duration,
    },
}

/// The answer to a `release`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Released {
    /// Free now.
    Freed {
        /// How many listeners heard of it; a hint about waiters elsewhere, as good as the store can tell.
        heard_by: u32,
    },
    /// Still held by the same owner, one level less deep.
    StillHeld,
    /// The owner did not hold it.
    NotHeld,
}

/// The answer to an `acquire_all`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Together {
    /// All are held now; with the fencing token of each, for kinds that issue one.
    Acquired(Vec<Option<u64>>),
    /// None was taken.
    Busy {
        /// Which claim was in the way.
        at: usize,
        /// The time to live seen there.
        ttl: Duration,
    },
    /// The store cannot take these in one step.
    Apart,
}

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name.
    pub name: Arc<str>,
    /// Who holds it; empty if it is free.
    pub holders: Vec<Holder>,
    /// How long it lives on unless renewed; `None` if it is free, or lives for ever.
    pub ttl: Option<Duration>,
    /// Who waits in the queue of a fair lock, first in line first. Not in a listing of a server.
    pub queue: Vec<String>,
    /// The permits left of a semaphore, or the count of a latch; `None` if neither stands there.
    pub count: Option<i64>,
    /// How many wait for it, as far as the store can tell: of a fair lock those in its queue, of others those who listen, which
    /// is one for each process. Who polls is not counted. `None` if the store cannot tell: so it is in a listing of a server for an
    /// exclusive lock that nobody listens to, since it may be fair, and the waiters of those listen each for itself.
    pub waiters: Option<u32>,
}

impl Snapshot {
    /// A lock that nobody holds.
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

    /// A lock that is held.
    pub fn held(name: impl Into<Arc<str>>, holders: Vec<Holder>, ttl: Duration) -> Snapshot {
        Snapshot { holders, ttl: Some(ttl), ..Snapshot::free(name) }
    }

    /// The same with its queue.
    #[must_use]
    pub fn with_queue(self, queue: Vec<String>) -> Snapshot {
        Snapshot { queue, ..self }
    }

    /// The same with its count.
    #[must_use]
    pub fn with_count(self, count: Option<i64>) -> Snapshot {
        Snapshot { count, ..self }
    }

    /// The same with how many wait for it.
    #[must_use]
    pub fn with_waiters(self, waiters: Option<u32>) -> Snapshot {
        Snapshot { waiters, ..self }
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The hold count of this owner; of its reads and writes together where it may have both.
    pub fn depth_of(&self, owner: &Owner) -> u32 {
        let text = owner.to_string();
        self.holders.iter().filter(|h| h.owner == text).map(|h| h.depth).sum()
    }
}

/// One holder in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner as the store spells it: `uuid:n`, or whatever a foreign client wrote.
    pub owner: String,
    /// The hold count, or the number of permits.
    pub depth: u32,
    /// How it holds it.
    pub mode: Mode,
    /// What it says of itself, if it does: see [`Builder::holder_info`](crate::Builder::holder_info).
    pub info: Option<HolderInfo>,
}

/// How a holder holds.
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
    /// A holder with its count, alone.
    pub fn new(owner: impl Into<String>, depth: u32) -> Holder {
        Holder::with_mode(owner, depth, Mode::Exclusive)
    }

    /// A holder with its count that holds in this way.
    pub fn with_mode(owner: impl Into<String>, depth: u32, mode: Mode) -> Holder {
        Holder { owner: owner.into(), depth, mode, info: None }
    }

    /// The same with what it says of itself.
    #[must_use]
    pub fn with_info(self, info: Option<HolderInfo>) -> Holder {
        Holder { info, ..self }
    }

    /// Under which word a store keeps its info: its owner, with `:write` for a writer, who may read besides; of leased permits,
    /// what the ids of one acquisition have in common.
    pub fn info_key(&self) -> String {
        match self.mode {
            Mode::Write => format!("{}:write", self.owner),
            Mode::Permits if !self.owner.contains(':') => permit_key(&self.owner).to_owned(),
            _ => self.owner.clone(),
        }
    }
}
