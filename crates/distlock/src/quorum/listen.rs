//! Hearing of releases from several nodes.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::env::Env;
use crate::store::{Listener, Topic};

/// One listener that hears what any of these hears.
pub(super) fn merge(env: &Arc<dyn Env>, ears: Vec<Listener>) -> Listener {
    let topic = Arc::new(Topic::default());
    let mut kept = Vec::with_capacity(ears.len());
    for mut ear in ears {
        let (keep, mut gone) = oneshot::channel::<()>();
        kept.push(keep);
        let topic = topic.clone();
        env.spawn_apart(Box::pin(async move {
            loop {
                tokio::select! {
                    _ = ear.heard() => topic.wake(),
                    _ = &mut gone => return,
                }
            }
        }));
    }
    Listener::new(topic, kept)
}
