//! Those who listen, in this process and in others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::env::Moment;
use crate::error::Result;
use crate::owner::Owner;
use crate::store::{Listener, Topic};

use super::bell::Call;
use super::hub::{Hub, Local};
use super::name::{Place, STRIPES};
use super::record::Ear;
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
        let bell = self.bell()?;
        let key = (Place::of(name).hash, waiter);
        let mut work = Some(|turn: &mut Turn<'_>| {
            if let Some(local) = turn.topics.get_mut(&key) {
                local.listeners += 1;
                return Ok(local.topic.clone());
            }
            let ears = &mut turn.record.ears;
            let own = |ear: &&Ear| ear.process == process && ear.waiter == waiter;
            let heard = ears.iter().find(own).map_or(0, |ear| ear.calls);
            if !ears.iter().any(|ear| own(&ear)) {
                ears.push(Ear { process, waiter, calls: 0 });
            }
            let topic = Arc::<Topic>::default();
            turn.topics.insert(key, Local { topic: topic.clone(), listeners: 1, heard });
            self.listening.fetch_add(1, Ordering::AcqRel);
            Ok(topic)
        });
        let Some((topic, _)) = self.try_step(name, clock, &mut work)? else { return Ok(None) };
        self.watch.start(self, bell);
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
        // If another is inside the ear stays: it is taken down when it is called, or when this process is dead.
        let _ = self.tidy(place, name, waiter);
    }

    /// Takes down an ear behind which nobody listens.
    fn tidy(&self, place: Place, name: &str, waiter: Option<Owner>) -> Result<()> {
        let process = self.id()?;
        let mut work = Some(|turn: &mut Turn<'_>| {
            if !turn.topics.contains_key(&(place.hash, waiter)) {
                turn.record.ears.retain(|ear| ear.process != process || ear.waiter != waiter);
            }
            Ok(())
        });
        self.try_step(name, &|| Moment::from_nanos(0), &mut work).map(drop)
    }

    /// A call from another process.
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
            None => self.unheard(place, call.waiter),
        }
    }

    /// Nobody listens any more, but an ear was left.
    fn unheard(&self, place: Place, waiter: Option<Owner>) {
        let Ok(Some(records)) = self.try_read(place.stripe) else { return };
        for (name, _) in records {
            if Place::of(&name).hash == place.hash {
                let _ = self.tidy(place, &name, waiter);
            }
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

    /// Looks for calls that did not arrive.
    pub(super) fn look_for_missed_calls(&self) {
        let Ok(me) = self.id() else { return };
        for stripe in 0..STRIPES {
            if self.shard(stripe).topics.is_empty() {
                continue;
            }
            // If another is inside, the next look will do.
            let Ok(Some(records)) = self.try_read(stripe) else { continue };
            let mut missed = Vec::new();
            let mut shard = self.shard(stripe);
            for (name, record) in records {
                let hash = Place::of(&name).hash;
                for ear in record.ears.iter().filter(|ear| ear.process == me) {
                    let Some(local) = shard.topics.get_mut(&(hash, ear.waiter)) else { continue };
                    if ear.calls > local.heard {
                        local.heard = ear.calls;
                        missed.push(local.topic.clone());
                    }
                }
            }
            drop(shard);
            missed.iter().for_each(|topic| topic.wake());
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
