//! What travels between a process and the server.

use std::sync::Arc;

use distlock::store::{Admin, Attempt, Claim, Released, Snapshot, Together, What};
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
    Force(What, String),
    List(String),
    Admin(String, Admin),
}

/// What it is answered with.
#[derive(Debug)]
pub(super) enum Answer {
    Attempt(Result<Attempt>),
    Together(Result<Together>),
    Released(Result<Released>),
    Renewed(Vec<Result<bool>>),
    Done(Result<()>),
    Listening,
    Seen(Result<Snapshot>),
    Listed(Vec<Snapshot>),
    Number(Result<i64>),
}
