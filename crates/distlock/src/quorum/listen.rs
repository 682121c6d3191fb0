//! Hearing of releases from several nodes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::votes::majority;
use crate::env::Env;
use crate::store::{Listener, Topic};

/// A release is called out by one node after the other. Whoever came at the first call would find the others still busy, take
/// the one, give it back, and so call out again: what a majority has not said counts only after this long.
const GATHER: Duration = Duration::from_millis(10);

/// Hears what several ears hear, and calls it out when a majority has heard it; more can be added while somebody listens.
#[derive(Clone)]
pub(super) struct Ears {
    topic: Arc<Topic>,
    env: Arc<dyn Env>,
    heard: Arc<Mutex<Heard>>,
    /// Closed when nobody listens any more.
    listened_to: watch::Receiver<()>,
}

/// What was heard since it was last called out.
#[derive(Debug)]
struct Heard {
    by: Vec<bool>,
    /// How often it was called out.
    rounds: u64,
}

impl Heard {
    /// Whether this is the first of a round, or its end.
    fn note(&mut self, node: usize) -> (bool, bool) {
        let first = !self.by.contains(&true);
        if let Some(heard) = self.by.get_mut(node) {
            *heard = true;
        }
        let count = self.by.iter().filter(|heard| **heard).count();
        (first, count >= majority(self.by.len()))
    }

    fn begin_anew(&mut self) {
        self.by.fill(false);
        self.rounds += 1;
    }
}

impl Ears {
    /// No ear yet, and the listener that hears what those at so many nodes will.
    pub(super) fn new(env: &Arc<dyn Env>, nodes: usize) -> (Ears, Listener) {
        let topic = Arc::new(Topic::default());
        let (keep, listened_to) = watch::channel(());
        let heard = Arc::new(Mutex::new(Heard { by: vec![false; nodes], rounds: 0 }));
        let ears = Ears { topic: topic.clone(), env: env.clone(), heard, listened_to };
        (ears, Listener::new(topic, keep))
    }

    /// The ear at one of the nodes.
    pub(super) fn add(&self, node: usize, mut ear: Listener) {
        let here = self.clone();
        let mut listened_to = self.listened_to.clone();
        self.env.spawn_background(Box::pin(async move {
            let hearing = async {
                loop {
                    let _ = ear.heard().await;
                    here.hear(node).await;
                }
            };
            tokio::select! {
                () = hearing => {}
                _ = listened_to.changed() => {} // only ever because it is closed
            }
        }));
    }

    async fn hear(&self, node: usize) {
        let (first, enough, round) = {
            let mut heard = self.heard();
            let (first, enough) = heard.note(node);
            if enough {
                heard.begin_anew();
            }
            (first, enough, heard.rounds)
        };
        if enough {
            return self.topic.wake();
        }
        if !first {
            return;
        }
        self.env.sleep_until(self.env.now().after(GATHER)).await;
        let mut heard = self.heard();
        let alone = heard.rounds == round;
        if alone {
            heard.begin_anew();
        }
        drop(heard);
        if alone {
            self.topic.wake();
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Virtual;

    /// One node of five calls out five times, then three call out once, within a moment.
    #[tokio::test(start_paused = true)]
    async fn a_majority_is_heard_at_once_and_fewer_a_little_later() {
        let env: Arc<dyn Env> = Arc::new(Virtual::new());
        let (ears, mut listener) = Ears::new(&env, 5);
        let topics: Vec<Arc<Topic>> = (0..5).map(|_| Arc::default()).collect();
        for (at, topic) in topics.iter().enumerate() {
            ears.add(at, Listener::new(topic.clone(), ()));
        }
        let since = env.now();
        topics[2].wake();
        assert_eq!(listener.heard().await, 1);
        assert!(env.now().since(since) > GATHER - Duration::from_millis(1));
        let since = env.now();
        topics[..3].iter().for_each(|topic| topic.wake());
        assert_eq!(listener.heard().await, 1);
        assert_eq!(env.now().since(since), Duration::ZERO);
        // Those who call out after the majority are heard too, as a round of their own.
        topics[3..].iter().for_each(|topic| topic.wake());
        assert_eq!(listener.heard().await, 1);
        let more = tokio::time::timeout(GATHER * 3, listener.heard()).await;
        assert!(more.is_err(), "heard of what nobody called out");
    }
}
