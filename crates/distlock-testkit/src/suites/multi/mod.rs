//! The promises of the `multi` lock: Redisson's own scenarios for its multi-lock, and what this library adds.
//!
//! Each is kept with all members in one store and with one member in each of several.

pub mod basics;
pub mod crowds;
pub mod kinds;
pub mod leases;
pub mod loss;
pub mod reentry;

use std::future::Future;
use std::time::Duration;

use distlock::{Locks, MultiLock, Mutex};

use super::times::{HOUR, ms, secs};
use super::{Ground, Site};
use crate::Stopwatch;

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { multi;
    Field basics:
        all_are_held_and_all_are_released
        whoever_holds_all_keeps_everybody_out
        one_that_is_busy_refuses_all_and_the_others_stay_free
        of_ten_that_ask_at_once_one_wins
        the_second_waits_until_the_first_lets_go
        a_wait_is_as_long_as_the_last_member_is_held
        a_wait_timeout_says_who_was_in_the_way
        whatever_is_named_twice_counts_once
        the_order_is_the_callers_for_stores_and_sorted_for_names
        dropping_and_trying_again_succeeds
        bad_input_is_refused_before_anything_is_locked
        blocking_callers_lock_in_the_same_way;
    Field reentry:
        an_owner_that_holds_one_takes_the_rest
        an_owner_that_holds_all_goes_deeper_in_all
        the_guards_owner_enters_its_members_again
        a_scope_re_enters_through_nested_functions
        one_owner_in_two_tasks_never_frees_the_others_hold;
    Field leases:
        a_lease_ends_for_all
        the_watchdog_keeps_all
        a_lease_switches_the_watchdog_off
        extending_lengthens_all
        a_leaked_guard_leaves_all_of_them_locked;
    Field loss:
        force_on_one_member_loses_the_guard
        force_from_elsewhere_stops_the_work
        a_release_is_no_loss
        closing_ends_waits_and_releases_all;
    Field crowds:
        ten_tasks_of_one_process_never_meet
        ten_processes_never_meet_in_whatever_order_they_name_them
        two_that_name_them_the_other_way_round_both_get_on
        overlapping_pairs_all_get_on
        those_who_want_one_and_those_who_want_all_all_get_on;
    Field kinds:
        members_may_be_of_any_kind
        members_that_can_be_shared_are_shared
        members_named_twice_are_no_trap;
};

/// Where the members are.
#[derive(Clone, Debug)]
pub struct Field {
    grounds: Vec<Ground>,
    names: Vec<String>,
}

/// Has the stores at `sites` keep a promise, and leave nothing behind: one store has three members, several have one each.
/// Says so where a store is not installed.
pub async fn stand<F: Future<Output = ()>>(sites: &[Site], promise: impl FnOnce(Field) -> F) {
    let Some(field) = Field::at(sites) else { return };
    promise(field.clone()).await;
    for ground in &field.grounds {
        ground.assert_clean().await;
    }
}

impl Field {
    /// The stores at `sites`; `None` if one is not installed.
    pub fn at(sites: &[Site]) -> Option<Field> {
        let grounds: Option<Vec<Ground>> = sites.iter().map(|site| Ground::at(*site)).collect();
        let grounds = grounds?;
        let names = match &grounds[..] {
            [one] => ["a", "b", "c"].iter().map(|name| one.name(name)).collect(),
            several => several.iter().map(|ground| ground.name("k")).collect(),
        };
        Some(Field { grounds, names })
    }

    /// One more process: a `Locks` of its own on every store.
    pub async fn process(&self) -> Process {
        self.process_with_watchdog(secs(30)).await
    }

    /// The same with a watchdog timeout.
    pub async fn process_with_watchdog(&self, timeout: Duration) -> Process {
        let mut locks = Vec::new();
        for ground in &self.grounds {
            locks.push(ground.open_with_watchdog(timeout).await);
        }
        Process { locks, names: self.names.clone() }
    }

    /// How many members there are.
    pub fn size(&self) -> usize {
        self.names.len()
    }

    /// By how much something may be late.
    pub fn slack(&self) -> Duration {
        self.grounds.iter().map(Ground::slack).max().unwrap_or_default()
    }

    /// Counts time for a limit that tells one cause of a delay from another.
    pub fn stopwatch(&self) -> Stopwatch {
        self.grounds[0].stopwatch()
    }

    /// A size for a crowd that these stores get through in a second or two.
    pub fn crowd(&self, full: usize) -> usize {
        self.grounds.iter().map(|ground| ground.crowd(full)).min().unwrap_or(full)
    }

    /// Whether all members are in one store.
    pub fn is_one_store(&self) -> bool {
        self.grounds.len() == 1
    }
}

/// A process that locks the members of a [`Field`].
#[derive(Clone, Debug)]
pub struct Process {
    locks: Vec<Locks>,
    names: Vec<String>,
}

impl Process {
    /// The store of a member.
    pub fn store(&self, at: usize) -> &Locks {
        self.locks.get(at).unwrap_or(&self.locks[0])
    }

    /// One of the members, alone.
    pub fn member(&self, at: usize) -> Mutex {
        self.store(at).mutex(&self.names[at])
    }

    /// The full name of a member.
    pub fn name(&self, at: usize) -> &str {
        &self.names[at]
    }

    /// All members as one.
    pub fn all(&self) -> MultiLock {
        self.some(0..self.names.len())
    }

    /// Some of the members as one, in this order.
    pub fn some(&self, members: impl IntoIterator<Item = usize>) -> MultiLock {
        MultiLock::new(members.into_iter().map(|at| self.member(at).into()))
    }

    /// Which members are held, by anybody.
    ///
    /// # Panics
    /// When a store does not answer.
    pub async fn held(&self) -> Vec<bool> {
        let mut held = Vec::new();
        for at in 0..self.names.len() {
            held.push(self.member(at).is_locked().await.expect("the store answers"));
        }
        held
    }
}
