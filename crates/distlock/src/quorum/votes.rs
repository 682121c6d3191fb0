//! Counting what nodes say.

use crate::error::Result;

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
    pub(super) fn of<T>(answers: &[Option<Result<T>>], read: impl Fn(&T) -> Vote) -> Votes {
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
}
