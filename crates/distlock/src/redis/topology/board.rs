//! All channels that somebody of a fleet's store listens to, and where each is heard now.
//!
//! A listener belongs to the board and not to a server: when its slot moves, the board hears it elsewhere, and the listener is
//! woken as after any reconnect.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::redis::node::Node;
use crate::redis::pubsub::Wish;
use crate::store::{Listener, Topic};

#[derive(Default)]
pub(crate) struct Board(Mutex<HashMap<Arc<str>, Entry>>);

struct Entry {
    topic: Arc<Topic>,
    wanted: u32,
    slot: u16,
    seat: Option<Seat>,
}

/// Where a channel is heard.
struct Seat {
    node: Arc<Node>,
    wishes: Vec<Wish>,
}

impl Board {
    fn entries(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// One more wants `channel`. Not acknowledged yet. Says whether nobody wanted any before.
    pub(crate) fn want(
        self: &Arc<Self>,
        channel: &str,
        slot: u16,
        serving: impl Fn(u16) -> Option<Arc<Node>>,
    ) -> (Listener, bool) {
        let mut entries = self.entries();
        let first = entries.is_empty();
        let channel = match entries.get_key_value(channel) {
            Some((known, _)) => known.clone(),
            None => Arc::from(channel),
        };
        let entry = entries.entry(channel.clone()).or_insert_with(|| Entry {
            topic: Arc::default(),
            wanted: 0,
            slot,
            seat: None,
        });
        entry.wanted += 1;
        let old = entry.sit(&channel, &serving);
        let topic = entry.topic.clone();
        drop(entries);
        drop(old);
        (Listener::new(topic, Place { board: self.clone(), channel }), first)
    }

    /// Whether the server that serves the channel has acknowledged it.
    pub(crate) fn is_heard(&self, channel: &str) -> Result<bool> {
        let entries = self.entries();
        let Some(seat) = entries.get(channel).and_then(|entry| entry.seat.as_ref()) else {
            return Ok(false);
        };
        for wish in &seat.wishes {
            if !wish.is_heard()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Why it is not, unless its server is busy with it.
    pub(crate) fn trouble(&self, channel: &str, limit: Duration) -> Option<Error> {
        let entries = self.entries();
        let Some(seat) = entries.get(channel).and_then(|entry| entry.seat.as_ref()) else {
            let text = "no server serves this channel now";
            return Some(Error::new(ErrorKind::Unavailable, text));
        };
        let waiting = seat.wishes.iter().filter(|wish| !matches!(wish.is_heard(), Ok(true)));
        waiting.filter_map(|wish| wish.trouble(limit)).next()
    }

    /// Hears every channel where its slot is served now.
    pub(crate) fn place(&self, serving: impl Fn(u16) -> Option<Arc<Node>>) {
        let mut entries = self.entries();
        let old: Vec<Seat> = entries
            .iter_mut()
            .filter_map(|(channel, entry)| entry.sit(channel, &serving))
            .collect();
        drop(entries);
        drop(old);
    }

    /// Forgets everything, and lets those who still listen find out by themselves.
    pub(crate) fn close(&self) {
        let entries = std::mem::take(&mut *self.entries());
        entries.values().for_each(|entry| entry.topic.wake());
    }
}

impl Entry {
    /// Sits down where the slot is served. Returns the seat it had elsewhere: taken back after the new one is taken, and not
    /// under the board's lock.
    fn sit(&mut self, channel: &str, serving: &impl Fn(u16) -> Option<Arc<Node>>) -> Option<Seat> {
        let node = serving(self.slot)?;
        if self.seat.as_ref().is_some_and(|seat| Arc::ptr_eq(&seat.node, &node)) {
            return None;
        }
        let wishes = node.want(channel, &self.topic);
        self.seat.replace(Seat { node, wishes })
    }
}

/// Somebody's place before the board; leaving it takes back the wish.
struct Place {
    board: Arc<Board>,
    channel: Arc<str>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut entries = self.board.entries();
        let Some(entry) = entries.get_mut(&self.channel) else { return };
        entry.wanted -= 1;
        let gone = match entry.wanted {
            0 => entries.remove(&self.channel),
            _ => None,
        };
        if entries.is_empty() {
            // A table does not shrink by itself, and this one may have been big.
            *entries = HashMap::new();
        }
        drop(entries);
        drop(gone);
    }
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").field("channels", &self.entries().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_to_an_empty_board_is_the_first() {
        let board = Arc::new(Board::default());
        let want = |channel| board.want(channel, 0, |_| None);
        let (a, first) = want("a");
        assert!(first);
        let (b, first) = want("b");
        assert!(!first && !want("a").1);
        drop((a, b));
        assert!(want("b").1 && board.is_empty());
    }
}
