//! What the engine asks and what a store answers: plain data.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

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
}

/// What a claim claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// One owner at a time, any number of times.
    Exclusive,
}

/// The word for each kind of lock: accessor, command-line `--kind`, metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// [`Mutex`](crate::Mutex): one owner at a time.
    Mutex,
}

impl Kind {
    /// The word itself.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Mutex => "mutex",
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

/// What stands under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The name.
    pub name: Arc<str>,
    /// Who holds it; empty if it is free.
    pub holders: Vec<Holder>,
    /// How long it lives on unless renewed; `None` if it is free.
    pub ttl: Option<Duration>,
}

impl Snapshot {
    /// A lock that nobody holds.
    pub fn free(name: impl Into<Arc<str>>) -> Snapshot {
        Snapshot { name: name.into(), holders: Vec::new(), ttl: None }
    }

    /// A lock that is held.
    pub fn held(name: impl Into<Arc<str>>, holders: Vec<Holder>, ttl: Duration) -> Snapshot {
        Snapshot { name: name.into(), holders, ttl: Some(ttl) }
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        !self.holders.is_empty()
    }

    /// The hold count of this owner.
    pub fn depth_of(&self, owner: &Owner) -> u32 {
        let text = owner.to_string();
        self.holders.iter().find(|h| h.owner == text).map_or(0, |h| h.depth)
    }
}

/// One holder in a [`Snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner as the store spells it: `uuid:n`, or whatever a foreign client wrote.
    pub owner: String,
    /// The hold count.
    pub depth: u32,
}

impl Holder {
    /// A holder with its count.
    pub fn new(owner: impl Into<String>, depth: u32) -> Holder {
        Holder { owner: owner.into(), depth }
    }
}
