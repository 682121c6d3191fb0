//! Those who listen, in this process and in others.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use uuid::Uuid;

use crate::env::Moment;
use crate::error::{ErrorKind, Result};
use crate::owner::Owner;
use crate::store::{Listener, Topic};

use super::bell::Call;
use super::hub::{Hub, Local};
use super::name::{Place, STRIPES};
use super::record::{Ear, Record};
use super::step::Turn;

impl Hub {
    /// Listens to a name, or for one waiter. What is called out after this is heard.
    pub(super) fn try_listen(
        self: &Arc<Hub>,
        name: &Arc<str>,
        waiter: Option<Owner>,
        clock: &dyn Fn() -> Moment,
    ) -> Result<Option<Listener>> {
        let process = self.id()?;
        self.bell()?;
        let key = (Place::of(name).hash, waiter);
        let joined = Cell::new(false);
        let mut work = Some(|turn: &mut Turn<'_>| {
            let known = turn.topics.get(&key).map(|local| local.heard);
            // A new ear counts on from where no earlier one got: late calls for that do not count for this one.
            let start = known.unwrap_or_else(|| turn.now.as_nanos());
            let (heard, is_new) = ear_of(&mut turn.record, process, waiter, start);
            let local = turn.topics.entry(key).or_insert_with(|| {
                self.listening.fetch_add(1, Ordering::AcqRel);
                Local { topic: Arc::default(), listeners: 0, name: name.clone(), heard }
            });
            local.listeners += 1;
            joined.set(true);
            Ok((local.topic.clone(), is_new && known.is_some()))
        });
        let step = self.try_step(name, clock, &mut work).inspect_err(|_| {
            if joined.get() {
                self.leave(name, waiter);
            }
        });
        let Some(((topic, was_deaf), _)) = step? else { return Ok(None) };
        if was_deaf {
            topic.wake();
        }
        self.watch.start(self);
        let subscription = Subscription { hub: self.clone(), name: name.clone(), waiter };
        Ok(Some(Listener::new(topic, subscription)))
    }

    fn leave(&self, name: &str, waiter: Option<Owner>) {
        let place = Place::of(name);
        let key = (place.hash, waiter);
        let mut shard = self.shard(place.stripe);
        let Some(local) = shard.topics.get_mut(&key) else { return };
        local.listeners -= 1;
        if local.listeners > 0 {
            return;
        }
        shard.topics.remove(&key);
        drop(shard);
        self.listening.fetch_sub(1, Ordering::AcqRel);
        let Some(process) = self.known_id() else { return };
        let mut work = Some(|turn: &mut Turn<'_>| {
            if !turn.topics.contains_key(&key) {
                turn.record.ears.retain(|ear| ear.process != process || ear.waiter != waiter);
            }
            Ok(())
        });
        if !matches!(self.try_step(name, &no_time, &mut work), Ok(Some(_))) {
            // Another is inside. An ear that stayed would count as somebody who waits, and nobody may ever call it.
            if self.leave_untidy(place.stripe)
                && let Some(bell) = self.hung_bell()
            {
                bell.nudge(); // it may be asleep for good
            }
        }
    }

    /// Whether all was tidy before.
    fn leave_untidy(&self, stripe: usize) -> bool {
        self.left.fetch_or(1 << stripe, Ordering::AcqRel) == 0
    }

    /// Whether there may be ears behind which nobody listens.
    pub(super) fn is_untidy(&self) -> bool {
        self.left.load(Ordering::Acquire) != 0
    }

    /// Takes down ears behind which nobody listens.
    pub(super) fn tidy_up(&self) {
        let left = self.left.swap(0, Ordering::AcqRel);
        let Some(process) = self.known_id().filter(|_| left != 0) else { return };
        for stripe in (0..STRIPES).filter(|stripe| left >> stripe & 1 == 1) {
            let quiet = |name: &str, turn: &mut Turn<'_>| {
                let (hash, topics) = (Place::of(name).hash, &*turn.topics);
                let is_heard = |ear: &Ear| topics.contains_key(&(hash, ear.waiter));
                turn.record.ears.retain(|ear| ear.process != process || is_heard(ear));
            };
            match self.try_change(stripe, quiet, process, &no_time) {
                Ok(Some(_)) => {}
                // A file that makes no sense will not make any later.
                Err(other) if other.kind() != ErrorKind::Unavailable => {}
                _ => drop(self.leave_untidy(stripe)),
            }
        }
    }

    /// A call from another process. One that nobody hears is for an ear that was left.
    pub(super) fn called(&self, call: Call) {
        let place = Place::from_hash(call.hash);
        let mut shard = self.shard(place.stripe);
        let topic = shard.topics.get_mut(&(call.hash, call.waiter)).map(|local| {
            local.heard = local.heard.max(call.calls);
            local.topic.clone()
        });
        drop(shard);
        match topic {
            Some(topic) => topic.wake(),
            None => drop(self.leave_untidy(place.stripe)),
        }
    }

    /// Wakes everybody here who listens to anything.
    pub(super) fn wake_all(&self) {
        for stripe in 0..STRIPES {
            let shard = self.shard(stripe);
            let topics: Vec<_> = shard.topics.values().map(|local| local.topic.clone()).collect();
            drop(shard);
            topics.iter().for_each(|topic| topic.wake());
        }
    }

    /// Looks for calls that did not arrive, and for ears that somebody has cleared away.
    pub(super) fn look_for_missed_calls(&self) {
        if self.hung_bell().is_some() {
            let _ = self.bell(); // it may be gone, too
        }
        let Ok(me) = self.id() else { return };
        for stripe in 0..STRIPES {
            if self.shard(stripe).topics.is_empty() {
                continue;
            }
            // If another is inside, the next look will do.
            let Ok(Some(records)) = self.try_read(stripe) else { continue };
            let ears: HashMap<_, _> = records
                .iter()
                .map(|(name, record)| (Place::of(name).hash, &record.ears))
                .flat_map(|(hash, ears)| ears.iter().map(move |ear| (hash, ear)))
                .filter(|(_, ear)| ear.process == me)
                .map(|(hash, ear)| ((hash, ear.waiter), ear.calls))
                .collect();
            let (mut missed, mut deaf) = (Vec::new(), Vec::new());
            for (key, local) in &mut self.shard(stripe).topics {
                match ears.get(key) {
                    Some(calls) if *calls > local.heard => {
                        local.heard = *calls;
                        missed.push(local.topic.clone());
                    }
                    Some(_) => {}
                    None => deaf.push((local.name.clone(), *key)),
                }
            }
            missed.extend(deaf.iter().filter_map(|(name, key)| self.make_hear(name, *key, me)));
            missed.iter().for_each(|topic| topic.wake());
        }
    }

    /// Makes an ear for those who listen here already. They may have missed something.
    fn make_hear(
        &self,
        name: &str,
        key: (u128, Option<Owner>),
        process: Uuid,
    ) -> Option<Arc<Topic>> {
        let mut work = Some(|turn: &mut Turn<'_>| {
            let Some(local) = turn.topics.get(&key) else { return Ok(None) };
            let (_, is_new) = ear_of(&mut turn.record, process, key.1, local.heard);
            Ok(is_new.then(|| local.topic.clone()))
        });
        self.try_step(name, &no_time, &mut work).ok()??.0
    }
}

/// For steps in which it does not matter.
fn no_time() -> Moment {
    Moment::from_nanos(0)
}

/// How often an ear was called, and whether it had to be made: then it begins at `start`.
fn ear_of(record: &mut Record, process: Uuid, waiter: Option<Owner>, start: u64) -> (u64, bool) {
    let ears = &mut record.ears;
    match ears.iter().find(|ear| ear.process == process && ear.waiter == waiter) {
        Some(ear) => (ear.calls, false),
        None => {
            ears.push(Ear { process, waiter, calls: start });
            (start, true)
        }
    }
}

/// One listener; the last one takes the topic away.
struct Subscription {
    hub: Arc<Hub>,
    name: Arc<str>,
    waiter: Option<Owner>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.hub.leave(&self.name, self.waiter);
    }
}
