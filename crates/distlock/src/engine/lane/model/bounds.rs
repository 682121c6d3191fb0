//! Which worlds are searched.

use std::time::Duration;

use super::world::{Budget, LEASE, World, want};

/// Two processes with a caller each.
pub(super) fn pair(budget: Budget) -> World {
    World::new(
        &[(0, want(None, false, None), 1, false), (1, want(Some(LEASE), false, None), 1, false)],
        budget,
    )
}

/// Two processes with two callers each, so that holds pass on within one and between both.
pub(super) fn four(budget: Budget) -> World {
    let wait = |process, lease: Option<Duration>| (process, want(lease, false, None), 1, false);
    World::new(&[wait(0, None), wait(0, None), wait(1, Some(LEASE)), wait(1, None)], budget)
}

/// Three callers: two of one process.
pub(super) fn three(budget: Budget) -> World {
    let wait = |process, lease: Option<Duration>| (process, want(lease, false, None), 1, false);
    World::new(&[wait(0, None), wait(0, Some(LEASE)), wait(1, None)], budget)
}

/// A caller that comes twice, beside one of another process.
pub(super) fn twice(budget: Budget) -> World {
    World::new(
        &[(0, want(None, false, None), 2, false), (1, want(None, false, None), 1, false)],
        budget,
    )
}

/// A single try beside a waiter of the same process, and another process.
pub(super) fn with_a_try(budget: Budget) -> World {
    World::new(
        &[
            (0, want(None, false, None), 1, false),
            (0, want(None, true, None), 1, false),
            (1, want(None, false, None), 1, false),
        ],
        budget,
    )
}

/// A named owner that goes one level deeper, beside another process.
pub(super) fn deeper(budget: Budget) -> World {
    let me = super::world::mint();
    World::new(
        &[(0, want(None, false, Some(me)), 1, true), (1, want(None, false, None), 1, false)],
        budget,
    )
}

/// Three processes with a caller each.
pub(super) fn trio(budget: Budget) -> World {
    let wait = |process, lease: Option<Duration>| (process, want(lease, false, None), 1, false);
    World::new(&[wait(0, None), wait(1, Some(LEASE)), wait(2, None)], budget)
}
