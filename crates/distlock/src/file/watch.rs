//! Hearing of releases by other processes: one task per listened name looks at its state file.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::env::Env;
use crate::store::{Listener, Topic};

use super::dir::{Dir, Presence};
use super::name::Place;

/// How soon after a change a state file is looked at again: a busy lock may be free for two milliseconds only.
const SHORTEST: Duration = Duration::from_millis(1);

/// How often at least. A look is one `stat`, some microseconds, so a waiter costs a thousandth of a core, and a person
/// does not notice the delay.
const LONGEST: Duration = Duration::from_millis(20);

/// The watched names of one store.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<Arc<str>, Weak<Watch>>>);

/// One watched name. Listeners keep it alive; its task ends when the last of them is gone.
struct Watch {
    name: Arc<str>,
    topic: Arc<Topic>,
    presence: Option<Presence>,
    registry: Arc<Watches>,
}

impl Watches {
    /// A listener for `name`: a change after this call is heard.
    pub(super) fn listen(
        self: &Arc<Watches>,
        name: &Arc<str>,
        dir: &Arc<Dir>,
        env: &Arc<dyn Env>,
    ) -> Listener {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(watch) = names.get(name).and_then(Weak::upgrade) {
            return Listener::new(watch.topic.clone(), watch);
        }
        let topic = Arc::<Topic>::default();
        let place = Place::of(name);
        let watch = Arc::new(Watch {
            name: name.clone(),
            topic: topic.clone(),
            presence: dir.be_present(&place),
            registry: self.clone(),
        });
        names.insert(name.clone(), Arc::downgrade(&watch));
        drop(names);
        let task = look(Arc::downgrade(&watch), dir.clone(), env.clone(), place.file);
        env.spawn_apart(Box::pin(task));
        Listener::new(topic, watch)
    }

    /// The lock was freed: wakes this process's listeners at once, without waiting for their task to look. Returns how
    /// many listen as far as one can tell: one for all who are here, one for all who are elsewhere.
    pub(super) fn freed(&self, name: &str, dir: &Dir) -> u32 {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = names.get(name).and_then(Weak::upgrade);
        // Unlocked first: dropping the last reference locks again.
        drop(names);
        if let Some(watch) = &watch {
            watch.topic.wake();
        }
        let own = watch.as_ref().and_then(|watch| watch.presence.as_ref());
        let elsewhere = dir.others_are_present(&Place::of(name), own);
        u32::from(watch.is_some()) + u32::from(elsewhere)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// Looks until nobody listens. The first look happens here, before the task is spawned, not when it gets to run.
fn look(
    watch: Weak<Watch>,
    dir: Arc<Dir>,
    env: Arc<dyn Env>,
    file: String,
) -> impl Future<Output = ()> + Send {
    let mut seen = dir.trace(&file);
    let mut pause = SHORTEST;
    async move {
        loop {
            env.sleep_until(env.now().after(pause)).await;
            let Some(watch) = watch.upgrade() else { return };
            watch.presence.as_ref().inspect(|presence| presence.renew());
            pause = (pause * 2).min(LONGEST);
            let now = dir.trace(&file);
            let free = now.is_none();
            if free || now != seen {
                (seen, pause) = (now, SHORTEST);
            }
            // As long as it is free: it may have been taken and freed again between two looks. A change alone is no
            // release; most are renewals.
            if free {
                watch.topic.wake();
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut names = self.registry.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Another watch may have taken the place between our last reference's end and now.
        if names.get(&self.name).is_some_and(|other| other.strong_count() == 0) {
            names.remove(&self.name);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("name", &self.name).finish_non_exhaustive()
    }
}
