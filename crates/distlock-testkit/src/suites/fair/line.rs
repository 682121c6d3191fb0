//! Waiters that stand in line, one behind the other.

use std::future::IntoFuture;
use std::time::Duration;

use distlock::{Guard, Locks, Owner, Result};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::suites::eventually;

/// Longer than any of these promises takes.
const LONG: Duration = Duration::from_secs(40);

/// Somebody who waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) owner: Owner,
    task: JoinHandle<Result<Guard>>,
}

impl Waiter {
    /// Asks for the lock, and has a place in its queue when this returns.
    pub(super) async fn join(locks: &Locks, name: &str) -> Waiter {
        Waiter::join_with(locks, name, Duration::from_secs(3600)).await
    }

    /// The same with a lease.
    pub(super) async fn join_with(locks: &Locks, name: &str, lease: Duration) -> Waiter {
        let before = waiting(locks, name).await;
        let task = tokio::spawn(locks.fair(name).lock().lease(lease).into_future());
        let last = || async { waiting(locks, name).await.pop().filter(|id| !before.contains(id)) };
        let in_line = || async { last().await.is_some() };
        eventually("it has the last place in the queue", in_line).await;
        // Nobody named it, so that it is known by the id of its stay everywhere.
        let owner = last().await.expect("it waits").parse().expect("one of this library");
        Waiter { owner, task }
    }

    /// Gets in.
    pub(super) async fn enters(self) -> Guard {
        let entered = timeout(LONG, self.task).await.expect("it gets in");
        let guard = entered.expect("no panic").expect("it gets free");
        assert_eq!(*guard.owner(), self.owner);
        guard
    }

    pub(super) fn is_in(&self) -> bool {
        self.task.is_finished()
    }

    /// Stops waiting, as somebody does who drops the future.
    pub(super) fn leaves(self) -> Owner {
        self.task.abort();
        self.owner
    }
}

/// Who waits, first in line first.
pub(super) async fn waiting(locks: &Locks, name: &str) -> Vec<String> {
    locks.fair(name).inspect().await.expect("the store answers").queue
}

/// Waits until just these wait.
pub(super) async fn only_these_wait(locks: &Locks, name: &str, owners: &[Owner]) {
    let owners: Vec<String> = owners.iter().map(Owner::to_string).collect();
    eventually("these wait, in this order", || async { waiting(locks, name).await == owners })
        .await;
}
