//! Hearing of releases by other processes: one task per listened name looks at its state file.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::env::Env;
use crate::store::{Listener, Topic};

use super::dir::Dir;
use super::name::Place;

/// How often a state file is looked at while somebody waits: one `stat`, a microsecond, so even a hundred waited-for
/// names cost less than a hundredth of a core, and a person does not notice the delay.
const PERIOD: Duration = Duration::from_millis(20);

/// The watched names of one store.
#[derive(Debug, Default)]
pub(super) struct Watches(Mutex<HashMap<Arc<str>, Weak<Watch>>>);

/// One watched name. Listeners keep it alive; its task ends when the last of them is gone.
struct Watch {
    name: Arc<str>,
    topic: Arc<Topic>,
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
        let watch =
            Arc::new(Watch { name: name.clone(), topic: topic.clone(), registry: self.clone() });
        names.insert(name.clone(), Arc::downgrade(&watch));
        drop(names);
        let task = look(Arc::downgrade(&watch), dir.clone(), env.clone(), Place::of(name).file);
        env.spawn_apart(Box::pin(task));
        Listener::new(topic, watch)
    }

    /// Wakes this process's listeners at once, without waiting for their task to look.
    pub(super) fn wake(&self, name: &str) {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let watch = names.get(name).and_then(Weak::upgrade);
        // Unlocked first: dropping the last reference locks again.
        drop(names);
        if let Some(watch) = watch {
            watch.topic.wake();
        }
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
    async move {
        loop {
            env.sleep_until(env.now().after(PERIOD)).await;
            let Some(watch) = watch.upgrade() else { return };
            let now = dir.trace(&file);
            if now != seen {
                seen = now;
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
