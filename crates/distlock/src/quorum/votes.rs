//! Counting what nodes say.

use std::time::Duration;

use super::node::{RenewReplies, Took};
use crate::error::Result;
use crate::store::{Attempt, Released, Renewed};

/// What nodes have said so far.
pub(super) type Answers<T> = [Option<Result<T>>];

/// What a node's answer comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vote {
    Yes,
    No,
}

/// How many nodes there are, and what they said. Those that failed said nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Votes {
    pub(super) nodes: usize,
    pub(super) yes: usize,
    pub(super) no: usize,
}

/// How many of `nodes` are a majority.
pub(super) fn majority(nodes: usize) -> usize {
    nodes / 2 + 1
}

impl Votes {
    pub(super) fn of<T>(answers: &Answers<T>, read: impl Fn(&T) -> Vote) -> Votes {
        let read = |answer: &Option<Result<T>>| answer.as_ref()?.as_ref().ok().map(&read);
        Votes::count(answers.iter().map(read))
    }

    /// What each node said, if anything.
    pub(super) fn count(said: impl Iterator<Item = Option<Vote>>) -> Votes {
        let mut votes = Votes::default();
        for vote in said {
            votes.nodes += 1;
            match vote {
                Some(Vote::Yes) => votes.yes += 1,
                Some(Vote::No) => votes.no += 1,
                None => {}
            }
        }
        votes
    }

    pub(super) fn majority(&self) -> usize {
        majority(self.nodes)
    }

    /// Whether so many have answered that they could have decided.
    pub(super) fn is_tie(&self) -> bool {
        self.yes + self.no >= self.majority()
    }

    /// Yes if a majority said so, no if so many said no that a majority never will, else nothing.
    pub(super) fn decided(&self) -> Option<bool> {
        if self.yes >= self.majority() {
            Some(true)
        } else if self.no > self.nodes - self.majority() {
            Some(false)
        } else {
            None
        }
    }
}

pub(super) fn count(answers: &[Option<Took>]) -> Votes {
    let vote = |took: &Option<Took>| took.as_ref()?.answer.as_ref().ok().map(took_it);
    Votes::count(answers.iter().map(vote))
}

/// One claim's answers among those of all claims.
pub(super) fn column(answers: &[Option<RenewReplies>], at: usize) -> Vec<Option<Result<Renewed>>> {
    let one = |renewed: &Option<RenewReplies>| {
        renewed.as_ref().and_then(|all| all.answers.get(at).cloned())
    };
    answers.iter().map(one).collect()
}

/// When so many nodes may be free that, with those that are now, they are a majority.
pub(super) fn free_in(answers: &Answers<Attempt>, votes: Votes) -> Duration {
    let mut busy: Vec<Duration> = answers
        .iter()
        .filter_map(|answer| match answer {
            Some(Ok(Attempt::Busy { ttl })) => Some(*ttl),
            _ => None,
        })
        .collect();
    busy.sort();
    let missing = votes.majority().saturating_sub(votes.yes);
    missing.checked_sub(1).and_then(|at| busy.get(at).copied()).unwrap_or_default()
}

/// Whether a node has taken it, with too few replicas: no vote, but something to take back.
pub(super) fn is_not_durable<T>(answer: &Option<Result<T>>) -> bool {
    matches!(answer, Some(Err(e)) if e.is_not_durable())
}

fn took_it(attempt: &Attempt) -> Vote {
    match attempt {
        Attempt::Acquired { .. } => Vote::Yes,
        Attempt::Busy { .. } => Vote::No,
    }
}

pub(super) fn let_go(released: &Released) -> Vote {
    match released {
        Released::Freed { .. } | Released::StillHeld => Vote::Yes,
        Released::NotHeld => Vote::No,
    }
}

pub(super) fn kept(renewed: &Renewed) -> Vote {
    if renewed.is_held() { Vote::Yes } else { Vote::No }
}

/// Returns the least that a majority granted: for so long at least a majority of all nodes keeps the hold, whatever the others granted.
/// Zero if fewer nodes granted anything.
pub(super) fn least_of_majority(mut granted: Vec<Duration>, majority: usize) -> Duration {
    granted.sort_unstable_by(|a, b| b.cmp(a));
    majority.checked_sub(1).and_then(|at| granted.get(at).copied()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_decides_and_a_minority_does_not() {
        let decided = |nodes, yes, no| Votes { nodes, yes, no }.decided();
        assert_eq!(decided(5, 3, 0), Some(true));
        assert_eq!(decided(5, 2, 2), None);
        assert_eq!(decided(5, 2, 3), Some(false));
        assert_eq!(decided(4, 2, 2), Some(false)); // a tie is nobody's
        assert_eq!(decided(4, 3, 1), Some(true));
        assert_eq!(decided(1, 1, 0), Some(true));
        assert_eq!(decided(3, 0, 1), None);
    }

    #[test]
    fn a_hold_lasts_as_long_as_a_majority_granted_it() {
        let least = |granted: &[u64], majority| {
            let granted = granted.iter().copied().map(Duration::from_secs).collect();
            least_of_majority(granted, majority).as_secs()
        };
        assert_eq!(least(&[10, 10, 10], 2), 10);
        assert_eq!(least(&[10, 5, 10], 2), 10);
        assert_eq!(least(&[3, 10, 5], 2), 5);
        assert_eq!(least(&[10, 3], 2), 3); // the third node has granted nothing
        assert_eq!(least(&[10], 2), 0);
    }
}
