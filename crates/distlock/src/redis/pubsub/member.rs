//! The hub of one server of a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::PushKind;
use tokio::sync::Notify;

use super::registry::State;
use super::{Ear, Hub, Wish};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::Dial;
use crate::runtime::duration::rounded;
use crate::store::Topic;

/// What a cluster wants of the hubs of its servers.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Whether channels are sharded.
    pub(crate) sharded: bool,
    /// To be told when it seems that the server does not serve what it did.
    pub(crate) doubt: Arc<Doubt>,
}

/// Somebody should find out who serves what.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    raised: AtomicBool,
    over: AtomicBool,
    /// Something is in doubt, or there is something to look after.
    pub(crate) news: Notify,
    closing: Notify,
}

impl Doubt {
    pub(crate) fn raise(&self) {
        self.raised.store(true, Ordering::Relaxed);
        self.news.notify_one();
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// Nobody needs to find out anything any more.
    pub(crate) fn close(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.closing.notify_one();
        self.news.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(crate) async fn closed(&self) {
        self.closing.notified().await;
    }

    /// Whether there is one; taken as answered.
    pub(crate) fn take(&self) -> bool {
        self.raised.swap(false, Ordering::Relaxed)
    }
}

impl Hub {
    /// The hub of one server of a cluster.
    pub(crate) fn member(dial: Arc<Dial>, membership: Membership) -> Hub {
        let mut hub = Hub::new(dial);
        if let Some(shared) = Arc::get_mut(&mut hub.0) {
            shared.membership = Some(membership);
        }
        hub
    }

    /// Has what is said on `channel` called out on `topic`, for as long as the wish is kept.
    pub(crate) fn want(&self, channel: &str, topic: &Arc<Topic>) -> Wish {
        let name = self.0.registry().want_on(channel, topic);
        let wish = Wish { shared: self.0.clone(), channel: name };
        self.0.look_after();
        wish
    }
}

impl Wish {
    /// Whether it is fulfilled. The topic is woken when that changes.
    pub(crate) fn is_heard(&self) -> Result<bool> {
        self.shared.hears(&self.channel)
    }

    /// Why it is not, unless the server is busy with it.
    pub(crate) fn trouble(&self, limit: Duration) -> Option<Error> {
        let shared = &self.shared;
        let silent = shared.dial.env.now().since(shared.last_heard());
        let registry = shared.registry();
        if let Some(trouble) = registry.trouble() {
            return Some(trouble.clone());
        }
        let busy = silent < limit && registry.state(&self.channel) == State::Joining;
        let (target, limit) = (&shared.dial.target, rounded(limit));
        let what = format!("{target} acknowledged no subscription within {limit:?}");
        (!busy).then(|| Error::new(ErrorKind::Unavailable, what))
    }
}

impl Ear {
    /// A sharded subscription is what the server last said of it, in the order in which it says so: it may take it back
    /// before the answer to having asked for it is looked at.
    pub(super) fn hear_sharded(&self, kind: &PushKind, channel: &str) -> Option<Arc<Topic>> {
        let mut registry = self.0.registry();
        match kind {
            PushKind::SSubscribe => registry.joined(&[Arc::from(channel)]).pop(),
            PushKind::SUnsubscribe => {
                let topic = registry.taken_back(channel)?;
                drop(registry);
                if let Some(membership) = &self.0.membership {
                    membership.doubt.raise();
                }
                self.0.changed.notify_one(); // something is put off
                Some(topic)
            }
            _ => registry.topic(channel),
        }
    }
}
