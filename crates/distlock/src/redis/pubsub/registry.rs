//! Who wants to hear what, and what the server knows of it. No I/O.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::store::Topic;

/// How far a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The server does not know that we want it.
    Off,
    /// Asked for; no answer yet.
    Joining,
    /// Acknowledged: no message goes unheard.
    On,
    /// The server does not let us.
    Refused,
}

/// Small, because there may be a hundred thousand of them.
#[derive(Debug)]
struct Entry {
    topic: Arc<Topic>,
    wanted: u32,
    state: State,
    /// In `changed`.
    queued: bool,
}

/// What to tell the server. Leaving comes first: a channel may be left and joined again in one go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) leave: Vec<Arc<str>>,
    pub(crate) join: Vec<Arc<str>>,
}

/// Wanted and actual subscriptions.
///
/// An entry exists while somebody wants the channel or the server may believe that we do. It goes from `Off` to `Joining`
/// when SUBSCRIBE is sent and to `On` when that is acknowledged; it is removed when UNSUBSCRIBE is sent, for what is sent
/// later on the same connection takes effect later. A `Joining` entry is never removed: its answer is still to come.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    entries: HashMap<Arc<str>, Entry>,
    /// Entries whose wanted and actual state may differ.
    changed: Vec<Arc<str>>,
    /// Entries to ask for again in a while: the server does not serve them now.
    later: Vec<Arc<str>>,
    refusal: Option<Error>,
    /// Why there is no connection.
    pub(crate) failure: Option<Error>,
    /// Whether a task looks after this.
    pub(crate) served: bool,
}

impl Registry {
    /// One more wants `channel`, to be called out on this topic.
    pub(crate) fn want_on(&mut self, channel: &str, topic: &Arc<Topic>) -> Arc<str> {
        let (name, _) = self.want(channel);
        if let Some(entry) = self.entries.get_mut(&name) {
            entry.topic = topic.clone();
        }
        name
    }

    /// One more wants `channel`.
    pub(crate) fn want(&mut self, channel: &str) -> (Arc<str>, Arc<Topic>) {
        if let Some((name, _)) = self.entries.get_key_value(channel) {
            let name = name.clone();
            let entry = self.entries.get_mut(channel).expect("BUG: the entry was there just now");
            entry.wanted += 1;
            if entry.state == State::Refused {
                // Permissions may have been mended.
                entry.state = State::Off;
            }
            let topic = entry.topic.clone();
            self.queue(&name);
            return (name, topic);
        }
        let (name, topic) = (Arc::<str>::from(channel), Arc::<Topic>::default());
        let entry = Entry { topic: topic.clone(), wanted: 1, state: State::Off, queued: false };
        self.entries.insert(name.clone(), entry);
        self.queue(&name);
        (name, topic)
    }

    /// One fewer wants `channel`. Returns whether there is something to do.
    pub(crate) fn unwant(&mut self, channel: &Arc<str>) -> bool {
        let Some(entry) = self.entries.get_mut(channel) else { return false };
        entry.wanted = entry.wanted.saturating_sub(1);
        entry.wanted == 0 && self.queue(channel)
    }

    fn queue(&mut self, channel: &Arc<str>) -> bool {
        let Some(entry) = self.entries.get_mut(channel) else { return false };
        let settled = match entry.state {
            State::On => entry.wanted > 0,
            State::Joining => true,
            State::Off | State::Refused => false,
        };
        if settled || entry.queued {
            return false;
        }
        entry.queued = true;
        self.changed.push(channel.clone());
        true
    }

    pub(crate) fn state(&self, channel: &str) -> State {
        self.entries.get(channel).map_or(State::Off, |entry| entry.state)
    }

    pub(crate) fn topic(&self, channel: &str) -> Option<Arc<Topic>> {
        self.entries.get(channel).map(|entry| entry.topic.clone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }

    /// Why there is no connection.
    pub(crate) fn trouble(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// Why a channel is refused.
    pub(crate) fn refusal(&self) -> Option<&Error> {
        self.refusal.as_ref()
    }

    /// What to tell the server now; taken as told.
    pub(crate) fn plan(&mut self) -> Plan {
        let mut plan = Plan::default();
        for name in std::mem::take(&mut self.changed) {
            let Some(entry) = self.entries.get_mut(&name) else { continue };
            entry.queued = false;
            match (entry.state, entry.wanted > 0) {
                (State::Off, true) => {
                    entry.state = State::Joining;
                    plan.join.push(name);
                }
                (State::On, false) => {
                    self.entries.remove(&name);
                    plan.leave.push(name);
                }
                (State::Off | State::Refused, false) => drop(self.entries.remove(&name)),
                (State::Joining, _) | (State::On | State::Refused, true) => {}
            }
        }
        if self.entries.is_empty() {
            // A table does not shrink by itself, and this one may have been big.
            self.entries = HashMap::new();
        }
        plan
    }

    /// The server acknowledged these. Returns whom to wake.
    pub(crate) fn joined(&mut self, channels: &[Arc<str>]) -> Vec<Arc<Topic>> {
        self.settle(channels, State::On)
    }

    /// The server does not let us hear these. Returns whom to wake.
    pub(crate) fn refused(&mut self, channels: &[Arc<str>], why: Error) -> Vec<Arc<Topic>> {
        self.refusal = Some(why);
        self.settle(channels, State::Refused)
    }

    fn settle(&mut self, channels: &[Arc<str>], state: State) -> Vec<Arc<Topic>> {
        let mut topics = Vec::with_capacity(channels.len());
        for name in channels {
            let Some(entry) = self.entries.get_mut(name) else { continue };
            entry.state = state;
            if entry.wanted == 0 {
                self.queue(name);
            } else {
                topics.push(entry.topic.clone());
            }
        }
        topics
    }

    /// The server took the subscription back by itself: it does not serve the channel's slot any more. Returns whom to
    /// wake; nobody if the server only does what it was told.
    pub(crate) fn taken_back(&mut self, channel: &str) -> Option<Arc<Topic>> {
        let (name, entry) = self.entries.get_key_value(channel)?;
        if entry.state != State::On {
            return None;
        }
        let (name, topic) = (name.clone(), entry.topic.clone());
        self.put_off(&name);
        Some(topic)
    }

    /// The server does not serve this channel now.
    pub(crate) fn put_off(&mut self, channel: &Arc<str>) {
        let Some(entry) = self.entries.get_mut(channel) else { return };
        entry.state = State::Off;
        if entry.wanted == 0 {
            self.queue(channel);
        } else {
            self.later.push(channel.clone());
        }
    }

    pub(crate) fn has_put_off(&self) -> bool {
        !self.later.is_empty()
    }

    /// It is time to ask again for what was put off.
    pub(crate) fn resume(&mut self) {
        for name in std::mem::take(&mut self.later) {
            self.queue(&name);
        }
    }

    /// The connection is gone, and with it all subscriptions.
    pub(crate) fn disconnected(&mut self) {
        self.later.clear();
        self.entries.retain(|_, entry| entry.wanted > 0);
        self.changed.clear();
        self.changed.extend(self.entries.iter_mut().map(|(name, entry)| {
            entry.state = State::Off;
            entry.queued = true;
            name.clone()
        }));
    }

    /// Forgets everything. Returns whom to wake.
    pub(crate) fn close(&mut self) -> Vec<Arc<Topic>> {
        self.changed = Vec::new();
        std::mem::take(&mut self.entries).into_values().map(|entry| entry.topic).collect()
    }
}

#[cfg(test)]
mod tests;
