//! The promises of the `redlock`: what every lock of one owner at a time promises, and what a majority adds.

pub mod basics;
pub mod crowds;
pub mod nodes;

use std::future::Future;
use std::time::Duration;

use distlock::{Locks, RedLock};

use super::times::{HOUR, ms, secs};
use super::{Ground, Site};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { redlock;
    Store basics:
        a_lock_can_be_taken_and_released_twice
        the_same_owner_enters_again_and_others_do_not
        everybody_sees_that_it_is_locked
        the_holder_is_told_from_others
        holds_are_counted
        a_stranger_cannot_unlock
        force_frees_the_lock_and_tells_a_holder_here
        a_waiter_gets_in_when_the_lease_ends
        what_nobody_renews_is_free_after_the_watchdogs_timeout
        the_watchdog_keeps_a_lock_without_a_lease
        extending_lengthens_what_is_held
        a_wait_that_runs_out_gives_nothing
        a_waiter_gets_in_soon_after_the_release
        a_waiter_that_is_disturbed_keeps_waiting;
    Store crowds:
        fifteen_tasks_of_one_process_never_meet
        a_hundred_processes_never_meet
        sixteen_processes_in_a_loop_never_meet
        a_request_dropped_at_any_poll_leaves_nothing;
    Nodes nodes:
        a_hold_stands_at_every_node
        a_held_lock_refuses_everybody_else
        a_waiter_gets_in_when_the_holder_lets_go
        the_same_owner_enters_again
        a_lease_ends
        the_watchdog_keeps_it
        force_frees_every_node
        closing_a_node_closes_the_majority
        a_minority_in_other_hands_does_not_matter
        a_crowd_never_meets;
};

/// A majority of one, so that the promises of other kinds can be asked of it.
trait Alone {
    fn redlock(&self, name: impl AsRef<str>) -> RedLock;
}

impl Alone for Locks {
    fn redlock(&self, name: impl AsRef<str>) -> RedLock {
        RedLock::new(name, std::slice::from_ref(self))
    }
}

/// Stores of which a majority decides.
#[derive(Clone, Debug)]
pub struct Nodes {
    grounds: Vec<Ground>,
    name: String,
}

/// Has a majority of the stores at `sites` keep a promise, and leave nothing behind. Says so where one is not installed.
pub async fn stand<F: Future<Output = ()>>(sites: &[Site], promise: impl FnOnce(Nodes) -> F) {
    let grounds: Option<Vec<Ground>> = sites.iter().map(|site| Ground::at(*site)).collect();
    let Some(grounds) = grounds else { return };
    let name = grounds[0].name("k");
    promise(Nodes { grounds: grounds.clone(), name: name.clone() }).await;
    for ground in &grounds {
        let locks = ground.open().await;
        let free = || async { !locks.mutex(&name).is_locked().await.expect("the store answers") };
        super::eventually("the lock is free at every node", free).await;
        ground.assert_clean().await;
    }
}

impl Nodes {
    /// One more process: a `Locks` of its own at every node.
    pub async fn process(&self) -> Process {
        self.process_with_watchdog(secs(30)).await
    }

    /// The same with a watchdog timeout.
    pub async fn process_with_watchdog(&self, timeout: Duration) -> Process {
        let mut nodes = Vec::new();
        for ground in &self.grounds {
            nodes.push(ground.open_with_watchdog(timeout).await);
        }
        Process { lock: RedLock::new(&self.name, &nodes), nodes, name: self.name.clone() }
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.grounds.len()
    }

    /// By how much something may be late.
    pub fn slack(&self) -> Duration {
        self.grounds.iter().map(Ground::slack).max().unwrap_or_default()
    }
}

/// A process that locks.
#[derive(Clone, Debug)]
pub struct Process {
    /// The lock.
    pub lock: RedLock,
    nodes: Vec<Locks>,
    name: String,
}

impl Process {
    /// What stands at a node alone.
    pub fn at(&self, node: usize) -> distlock::Mutex {
        self.nodes[node].mutex(&self.name)
    }

    /// Which nodes have a hold of this owner.
    ///
    /// # Panics
    /// When a store does not answer.
    pub async fn known(&self, owner: &distlock::Owner) -> usize {
        let mut known = 0;
        for node in 0..self.nodes.len() {
            let held = self.at(node).is_held_by(owner).await.expect("the store answers");
            known += usize::from(held);
        }
        known
    }
}
