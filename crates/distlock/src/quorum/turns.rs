//! Whose turn it is.

use std::collections::VecDeque;
use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::owner::Owner;
use crate::store::Claim;

/// One owner's hold of one lock.
pub(super) type Key = (Arc<str>, Owner);

/// What a claim is about.
pub(super) fn key(claim: &Claim) -> Key {
    (claim.name.clone(), claim.owner)
}

/// Has the steps about one hold at one node taken in the order in which they were begun.
///
/// A majority decides before the last node has answered, so a release may be begun while the acquisition is still under way at a
/// slow node; over another connection it could overtake it there, and the hold would stay behind. And a node that
/// counted as a vote must not be freed by what an earlier attempt left undone.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Key, VecDeque<oneshot::Sender<Turn>>>>);

impl Turns {
    /// Takes a place in the line, here and now.
    pub(super) fn join(self: &Arc<Turns>, key: Key) -> Place {
        match self.lines().entry(key) {
            Entry::Occupied(mut line) => {
                let (call, called) = oneshot::channel();
                line.get_mut().push_back(call);
                Place::InLine(called)
            }
            Entry::Vacant(free) => {
                let key = free.key().clone();
                free.insert(VecDeque::new());
                Place::First(Turn { turns: self.clone(), key })
            }
        }
    }

    /// How many stand in this line behind the first.
    pub(super) fn waiting(&self, key: &Key) -> usize {
        self.lines().get(key).map_or(0, VecDeque::len)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.lines().is_empty()
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Key, VecDeque<oneshot::Sender<Turn>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the line. Leaving it lets the next one move up.
#[derive(Debug)]
pub(super) enum Place {
    First(Turn),
    InLine(oneshot::Receiver<Turn>),
}

impl Place {
    /// Waits for its turn.
    pub(super) async fn turn(self) -> Option<Turn> {
        match self {
            Place::First(turn) => Some(turn),
            Place::InLine(called) => called.await.ok(),
        }
    }
}

/// Being first in the line, until this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    turns: Arc<Turns>,
    key: Key,
}

impl Turn {
    /// Whether somebody stands behind it in the line.
    pub(super) fn is_waited_for(&self) -> bool {
        self.turns.lines().get(&self.key).is_some_and(|line| !line.is_empty())
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut lines = self.turns.lines();
        match lines.get_mut(&self.key).and_then(VecDeque::pop_front) {
            Some(next) => {
                drop(lines);
                let turn = Turn { turns: self.turns.clone(), key: self.key.clone() };
                drop(next.send(turn)); // one that has left gives it back by dropping it
            }
            None => drop(lines.remove(&self.key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn somebody() -> Key {
        (Arc::from("k"), Owner::mint(Uuid::new_v4()))
    }

    #[tokio::test]
    async fn turns_come_in_the_order_of_joining_and_whoever_leaves_is_passed_over() {
        let turns = Arc::<Turns>::default();
        let key = somebody();
        let first = turns.join(key.clone()).turn().await;
        let [second, third, fourth, fifth] = std::array::from_fn(|_| turns.join(key.clone()));
        let mut second = tokio::spawn(second.turn());
        let mut fourth = tokio::spawn(fourth.turn());
        drop(third);
        assert!(futures_are_pending(&mut second, &mut fourth).await);
        drop(first);
        let second = second.await.unwrap();
        assert!(second.is_some() && !fourth.is_finished());
        drop(second);
        let fourth = fourth.await.unwrap();
        assert!(fourth.is_some());
        drop(fifth); // called or not
        drop(fourth);
        assert!(turns.lines().is_empty(), "a line that nobody stands in is kept");
    }

    async fn futures_are_pending<T>(
        a: &mut tokio::task::JoinHandle<T>,
        b: &mut tokio::task::JoinHandle<T>,
    ) -> bool {
        tokio::task::yield_now().await;
        !a.is_finished() && !b.is_finished()
    }

    #[tokio::test]
    async fn a_turn_given_to_one_who_has_just_left_goes_to_the_next() {
        let turns = Arc::<Turns>::default();
        let key = somebody();
        let first = turns.join(key.clone()).turn().await;
        let (second, third) = (turns.join(key.clone()), turns.join(key.clone()));
        drop(first); // the second is called
        drop(second); // and leaves without having looked
        assert!(third.turn().await.is_some());
        // Another hold of the same lock has a line of its own.
        assert!(matches!(turns.join(somebody()), Place::First(_)));
    }
}
