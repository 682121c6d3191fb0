//! Hearing of releases from several nodes.

use std::sync::Arc;

use tokio::sync::watch;

use crate::env::Env;
use crate::store::{Listener, Topic};

/// Hears what any of several ears hears; more can be added while somebody listens.
#[derive(Clone)]
pub(super) struct Ears {
    topic: Arc<Topic>,
    env: Arc<dyn Env>,
    /// Closed when nobody listens any more.
    listened_to: watch::Receiver<()>,
}

impl Ears {
    /// No ear yet, and the listener that hears them all.
    pub(super) fn new(env: &Arc<dyn Env>) -> (Ears, Listener) {
        let topic = Arc::new(Topic::default());
        let (keep, listened_to) = watch::channel(());
        let ears = Ears { topic: topic.clone(), env: env.clone(), listened_to };
        (ears, Listener::new(topic, keep))
    }

    pub(super) fn add(&self, mut ear: Listener) {
        let mut here = self.clone();
        self.env.spawn_apart(Box::pin(async move {
            loop {
                tokio::select! {
                    _ = ear.heard() => here.topic.wake(),
                    _ = here.listened_to.changed() => return, // only ever because it is closed
                }
            }
        }));
    }
}
