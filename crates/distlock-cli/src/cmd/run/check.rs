//! What is looked at before a lock is waited for: mistakes that the store would accept.

use std::time::Duration;

use distlock::{Error, ErrorKind, Locks, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::args::Kind;
use crate::exit::Failure;
use crate::find;
use crate::lock::Lock;
use crate::plan::Run;
use crate::print;
use crate::view;

/// How long a member of a redlock may take to answer before a warning names it.
const MEMBER_PATIENCE: Duration = Duration::from_secs(1);
/// How long a majority may take to answer before a `run` without a time to wait gives up: as long as a single store has to connect.
const MAJORITY_PATIENCE: Duration = Duration::from_secs(3);

/// Refuses a semaphore whose number of permits is not set, and warns of a number that is another one and of a latch without a count.
pub(super) async fn check(lock: &Lock, plan: &Run) -> Result<(), Failure> {
    let (kind, wanted) = (plan.lock.kind, plan.lock.permits);
    if !kind.has_permits() && kind != Kind::Latch {
        return Ok(());
    }
    let name = &plan.lock.names[0];
    let seen = match lock.inspect().await {
        Ok(seen) => seen,
        // Waiting for the lock meets it again, and may outlast it.
        Err(error) if error.is_retryable() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    // On a server the number alone does not tell the kind; permits that are taken do.
    if seen.count.is_some()
        && !seen.is_held()
        && let Ok(Some(found)) = find::find(&lock.stores()[0], name).await
    {
        find::check(&found, kind, name)?;
    }
    let name = print::name(name);
    match (kind, view::permits(&seen), wanted) {
        (Kind::Latch, None, _) => print::warn(&format!(
            "the latch {name} has no count: it was never set, or is counted down to zero; the command starts at once (`distlock latch init` sets a count)"
        )),
        (Kind::Latch, ..) => {}
        (_, None, None) => {
            return Err(Failure::Usage(format!(
                "the number of permits of {name} is not set: add -n N (--permits N)"
            )));
        }
        (_, Some(permits), Some(wanted)) if permits != i64::from(wanted) => {
            print::warn(&format!(
                "{name} has {permits} permits already, and keeps them: -n {wanted} changes nothing (`distlock permits --kind {} --set {wanted} {name}` does)",
                kind.word()
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Asks every member of a redlock, in the background.
pub(super) fn ask_members(lock: &Lock, plan: &Run) -> Members {
    let mut asked = JoinSet::new();
    if plan.lock.kind == Kind::Redlock && lock.stores().len() > 1 {
        for (number, locks) in lock.stores().iter().enumerate() {
            let (locks, name) = (locks.clone(), plan.lock.names[0].clone());
            asked.spawn(async move { (number, is_up(&locks, &name).await) });
        }
    }
    let addresses = plan.store.addresses();
    Members { asked, up: vec![false; addresses.len()], addresses, since: Instant::now() }
}

async fn is_up(locks: &Locks, name: &str) -> bool {
    match locks.mutex(name).inspect().await {
        Ok(_) => true,
        // Any other error is an answer of the server.
        Err(error) => !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate),
    }
}

/// Members of a redlock that were asked whether they answer. None were asked if it is no redlock of several stores.
pub(super) struct Members {
    asked: JoinSet<(usize, bool)>,
    up: Vec<bool>,
    addresses: Vec<String>,
    since: Instant,
}

impl Members {
    /// Fails if no majority answers: for a `run` that would not wait for a single store either.
    pub(super) async fn require_majority(&mut self) -> Result<()> {
        if self.asked.is_empty() {
            return Ok(());
        }
        while self.count_up() < self.majority() && self.hear_next(MAJORITY_PATIENCE).await {}
        if self.count_up() >= self.majority() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::NoQuorum, self.absent()))
    }

    /// Names the members that do not answer. Called when the lock is held: it is held by a majority then.
    pub(super) async fn warn_of_absent(mut self) {
        while self.hear_next(MEMBER_PATIENCE).await {}
        // None are absent if none were asked.
        if self.addresses.len() > 1 && self.count_up() < self.addresses.len() {
            print::warn(&self.absent());
        }
    }

    /// Notes the next answer; false when all have answered, or that time is over since they were asked.
    async fn hear_next(&mut self, patience: Duration) -> bool {
        match timeout_at(self.since + patience, self.asked.join_next()).await {
            Ok(Some(Ok((number, up)))) => {
                self.up[number] = up;
                true
            }
            Ok(Some(Err(_))) => true,
            Ok(None) | Err(_) => false,
        }
    }

    fn count_up(&self) -> usize {
        self.up.iter().filter(|up| **up).count()
    }

    fn majority(&self) -> usize {
        self.addresses.len() / 2 + 1
    }

    fn absent(&self) -> String {
        let absent = self.addresses.iter().zip(&self.up).filter(|(_, up)| !**up);
        let absent: Vec<&str> = absent.map(|(address, _)| address.as_str()).collect();
        format!(
            "{} of {} members of the redlock cannot be reached: {}; the lock needs {} of them",
            absent.len(),
            self.addresses.len(),
            absent.join(", "),
            self.majority()
        )
    }
}
