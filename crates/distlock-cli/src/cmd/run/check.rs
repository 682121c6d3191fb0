//! What is looked at before a lock is waited for: mistakes that the store would accept.

use std::time::Duration;

use distlock::{ErrorKind, Locks, Result};
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
    Members { asked, until: Instant::now() + MEMBER_PATIENCE }
}

async fn is_up(locks: &Locks, name: &str) -> bool {
    match locks.mutex(name).inspect().await {
        Ok(_) => true,
        // Any other error is an answer of the server.
        Err(error) => !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate),
    }
}

/// Members of a redlock that were asked whether they answer.
pub(super) struct Members {
    asked: JoinSet<(usize, bool)>,
    until: Instant,
}

impl Members {
    /// Names the members that do not answer. Called when the lock is held: it is held by a majority then.
    pub(super) async fn warn_of_absent(mut self, plan: &Run) {
        let mut addresses: Vec<Option<String>> =
            plan.store.addresses().into_iter().map(Some).collect();
        if self.asked.is_empty() {
            return;
        }
        while let Ok(Some(Ok((number, up)))) = timeout_at(self.until, self.asked.join_next()).await
        {
            if up {
                addresses[number] = None;
            }
        }
        let total = addresses.len();
        let absent: Vec<String> = addresses.into_iter().flatten().collect();
        if !absent.is_empty() {
            print::warn(&format!(
                "{} of {total} members of the redlock cannot be reached: {}; the lock needs {} of them",
                absent.len(),
                absent.join(", "),
                total / 2 + 1
            ));
        }
    }
}
