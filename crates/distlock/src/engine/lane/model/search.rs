//! The search: breadth first, so that a counterexample is as short as can be.

use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::world::{Action, World};

/// What the search found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) states: usize,
    pub(super) deepest: usize,
    pub(super) violation: Option<Violation>,
}

/// What is wrong, and how it comes about.
#[derive(Debug)]
pub(super) struct Violation {
    pub(super) what: String,
    pub(super) trace: Vec<Action>,
}

/// Every state that can be reached, up to a number of them.
pub(super) fn search(first: World, most: usize) -> Found {
    let mut seen = HashSet::from([first.digest()]);
    // Where each state came from.
    let mut from: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut next = VecDeque::from([(0, 0, first)]);
    let mut deepest = 0;
    while let Some((at, depth, world)) = next.pop_front() {
        deepest = deepest.max(depth);
        for action in world.actions() {
            let taken = catch_unwind(AssertUnwindSafe(|| {
                let mut after = world.clone();
                after.take(action)?;
                after.check()?;
                let digest = after.digest();
                if seen.insert(digest) {
                    if after.is_quiet() {
                        after.clone().settle()?;
                    }
                    return Ok(Some(after));
                }
                Ok(None)
            }));
            let taken = taken.unwrap_or_else(|_| Err("a check of the lane failed".to_owned()));
            match taken {
                Ok(None) => {}
                Ok(Some(after)) => {
                    from.push((at, Some(action)));
                    next.push_back((from.len() - 1, depth + 1, after));
                }
                Err(what) => {
                    let mut trace = vec![action];
                    let mut back = at;
                    while let (before, Some(action)) = from[back] {
                        trace.push(action);
                        back = before;
                    }
                    trace.reverse();
                    let violation = Some(Violation { what, trace });
                    return Found { states: seen.len(), deepest, violation };
                }
            }
        }
        if seen.len() >= most {
            let what = format!("the search was cut off after {most} states");
            let violation = Some(Violation { what, trace: Vec::new() });
            return Found { states: seen.len(), deepest, violation };
        }
    }
    Found { states: seen.len(), deepest, violation: None }
}
