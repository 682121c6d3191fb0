//! Hearing of releases: one connection for all subscriptions at one server, looked after by one task.

mod actor;
mod member;
mod registry;
mod sharded;
mod way;

pub(crate) use member::{Doubt, Membership};
pub(crate) use way::Way;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::{AsyncPushSender, SendError};
use redis::{PushInfo, PushKind, Value};
use tokio::sync::Notify;

use self::registry::{Registry, State};
use super::connect::Dial;
use crate::env::Moment;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::duration::rounded;
use crate::store::Listener;

/// All subscriptions at one server. Dropping it ends them and closes their connection.
pub(crate) struct Hub(Arc<Shared>);

struct Shared {
    dial: Arc<Dial>,
    registry: Mutex<Registry>,
    /// The registry has something to do.
    changed: Notify,
    /// The hub is gone.
    closing: Notify,
    /// When the server last said something by itself: a sign of life.
    heard: AtomicU64,
    membership: Option<Membership>,
}

impl Hub {
    pub(crate) fn new(dial: Arc<Dial>) -> Hub {
        Hub(Arc::new(Shared {
            dial,
            registry: Mutex::default(),
            changed: Notify::new(),
            closing: Notify::new(),
            heard: AtomicU64::new(0),
            membership: None,
        }))
    }

    /// Subscribes to `channel`; ready when the server has acknowledged it.
    ///
    /// Dropping the future, like dropping the listener, takes back the wish; the task does what then has to be done.
    pub(crate) async fn listen(&self, channel: &str) -> Result<Listener> {
        let limit = self.0.dial.reply_timeout;
        let (name, mut listener) = self.0.want(channel);
        loop {
            let acknowledged = self.0.acknowledged(&name, &mut listener);
            if let Ok(done) = tokio::time::timeout(limit, acknowledged).await {
                return done.map(|()| listener);
            }
            // A server that keeps talking is busy with the subscriptions before this one.
            let silent = self.0.dial.env.now().since(self.0.last_heard());
            let registry = self.0.registry();
            if let Some(trouble) = registry.trouble() {
                return Err(trouble.clone());
            }
            if silent >= limit {
                let (target, limit) = (&self.0.dial.target, rounded(limit));
                let what = format!("{target} acknowledged no subscription within {limit:?}");
                return Err(Error::new(ErrorKind::Unavailable, what));
            }
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let topics = self.0.registry().close();
        self.0.closing.notify_one();
        // Nobody will call out anything any more: let those who still listen find out by themselves.
        topics.iter().for_each(|topic| topic.wake());
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub").field("target", &self.0.dial.target).finish_non_exhaustive()
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_sharded(&self) -> bool {
        self.membership.as_ref().is_some_and(|membership| membership.sharded)
    }

    fn hear(&self) {
        self.heard.store(self.dial.env.now().as_nanos(), Ordering::Relaxed);
    }

    fn last_heard(&self) -> Moment {
        Moment::from_nanos(self.heard.load(Ordering::Relaxed))
    }

    fn want(self: &Arc<Self>, channel: &str) -> (Arc<str>, Listener) {
        let (name, topic) = self.registry().want(channel);
        let wish = Wish { shared: self.clone(), channel: name.clone() };
        let listener = Listener::new(topic, wish);
        self.look_after();
        (name, listener)
    }

    /// Has a task do what there is to do.
    fn look_after(self: &Arc<Self>) {
        let first = !std::mem::replace(&mut self.registry().served, true);
        if first {
            self.dial.env.spawn_background(Box::pin(actor::run(self.clone())));
        }
        self.changed.notify_one();
    }

    /// Being acknowledged is called out on the topic like a release, so that waiting for it needs nothing of its own.
    async fn acknowledged(&self, channel: &str, listener: &mut Listener) -> Result<()> {
        while !self.hears(channel)? {
            let _ = listener.heard().await;
        }
        Ok(())
    }

    /// Whether the subscription is acknowledged.
    fn hears(&self, channel: &str) -> Result<bool> {
        let registry = self.registry();
        match registry.state(channel) {
            State::On => Ok(true),
            State::Off | State::Joining => Ok(false),
            State::Refused => {
                let why = registry.refusal().cloned();
                Err(why.unwrap_or_else(|| {
                    Error::new(ErrorKind::Config, "the server refused the subscription")
                }))
            }
        }
    }
}

/// Somebody's wish to hear a channel; dropping it takes it back.
pub(crate) struct Wish {
    shared: Arc<Shared>,
    channel: Arc<str>,
}

impl Drop for Wish {
    fn drop(&mut self) {
        if self.shared.registry().unwant(&self.channel) {
            self.shared.changed.notify_one();
        }
    }
}

/// Gets what the server says by itself, inside the task that reads it. Messages are untrusted: all that one can do is
/// to wake those who listen to its channel.
struct Ear(Arc<Shared>);

impl AsyncPushSender for Ear {
    fn send(&self, info: PushInfo) -> std::result::Result<(), SendError> {
        self.0.hear();
        let Some(Value::BulkString(channel)) = info.data.first() else { return Ok(()) };
        let Ok(channel) = std::str::from_utf8(channel) else { return Ok(()) };
        let topic = match info.kind {
            PushKind::Message => self.0.registry().topic(channel),
            PushKind::SMessage | PushKind::SSubscribe | PushKind::SUnsubscribe => {
                self.hear_sharded(&info.kind, channel)
            }
            _ => None,
        };
        if let Some(topic) = topic {
            topic.wake();
        }
        Ok(())
    }
}
