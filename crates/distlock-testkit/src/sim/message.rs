//! What travels between a process and the server.

use std::sync::Arc;

use distlock::store::{Admin, Attempt, AttemptAll, Claim, ClaimKind, Released, Renewed, Snapshot};
use distlock::{Owner, Result};

/// A request as it travels.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Acquire(Claim),
    AcquireAll(Vec<Claim>),
    Release(Claim),
    Renew(Vec<Claim>),
    GiveUp(Claim),
    /// With the number of the subscription.
    Listen(u64, Arc<str>, Option<Owner>),
    Unlisten(u64),
    Inspect(String),
    Force(ClaimKind, String),
    List(String),
    Admin(String, Admin),
}

/// What it is answered with.
#[derive(Debug)]
pub(super) enum Answer {
    Attempt(Result<Attempt>),
    AttemptAll(Result<AttemptAll>),
    Released(Result<Released>),
    Renewed(Vec<Result<Renewed>>),
    Done(Result<()>),
    Listening,
    Seen(Result<Snapshot>),
    Listed(Vec<Snapshot>),
    Number(Result<i64>),
}
