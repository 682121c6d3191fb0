//! Redisson's algorithm on the same client crate, so that only the algorithms differ.
//!
//! One connection for commands, one for subscriptions. A waiter subscribes (once per process and channel), tries again, and
//! waits for a permit of the channel's local semaphore, of which each message adds one; then it tries again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::{Semaphore, mpsc};

use crate::client::{Outcome, words};
use crate::raw;

pub(crate) const ACQUIRE: &str = "\
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return nil
end
return redis.call('pttl', KEYS[1])";

pub(crate) const RELEASE: &str = "\
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1";

/// The same with the key by which Redisson makes a repeated release harmless.
pub(crate) const RELEASE_WITH_LATCH: &str = "\
local done = redis.call('get', KEYS[3])
if done ~= false then
  return tonumber(done)
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('set', KEYS[3], 0, 'px', ARGV[3])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
redis.call('set', KEYS[3], 1, 'px', ARGV[3])
return 1";

#[derive(Clone)]
pub(crate) struct Redisson(Arc<Shared>);

struct Shared {
    connection: MultiplexedConnection,
    listening: MultiplexedConnection,
    acquire: String,
    release: String,
    channels: Arc<Mutex<HashMap<String, Arc<Channel>>>>,
}

struct Channel {
    /// How many wait here; subscribed while it is not 0.
    users: tokio::sync::Mutex<usize>,
    permits: Semaphore,
}

pub(crate) struct RedissonHeld {
    redisson: Redisson,
    name: Arc<str>,
    owner: String,
}

impl Redisson {
    pub(crate) async fn connect(url: &str) -> Redisson {
        let mut connection = raw::connect(url).await;
        let acquire = raw::load(&mut connection, ACQUIRE).await;
        let release = raw::load(&mut connection, RELEASE).await;
        let (pushes, mut pushed) = mpsc::unbounded_channel::<PushInfo>();
        let client = redis::Client::open(format!("{url}?protocol=resp3"));
        let client = client.expect("a URL of the kit's is valid");
        let config = redis::AsyncConnectionConfig::new().set_push_sender(pushes);
        let listening = client.get_multiplexed_async_connection_with_config(&config).await;
        let listening = listening.expect("the server has just started");
        let channels = Arc::new(Mutex::new(HashMap::<String, Arc<Channel>>::new()));
        let mine = channels.clone();
        tokio::spawn(async move {
            while let Some(push) = pushed.recv().await {
                if push.kind == PushKind::Message
                    && let Some(Value::BulkString(channel)) = push.data.first()
                    && let Some(channel) = lock(&mine).get(&*String::from_utf8_lossy(channel))
                {
                    channel.permits.add_permits(1);
                }
            }
        });
        Redisson(Arc::new(Shared { connection, listening, acquire, release, channels }))
    }

    pub(crate) async fn lock(&self, name: &Arc<str>) -> Outcome<RedissonHeld> {
        let owner = raw::owner();
        if self.attempt(name, &owner).await?.is_some() {
            let topic = raw::channel(name);
            let channel = self.subscribe(&topic).await?;
            let waited = self.wait(name, &owner, &channel).await;
            // Not waited for, as in Redisson.
            tokio::spawn(self.clone().unsubscribe(topic, channel));
            waited?;
        }
        Ok(RedissonHeld { redisson: self.clone(), name: name.clone(), owner })
    }

    async fn wait(&self, name: &str, owner: &str, channel: &Channel) -> Outcome<()> {
        while let Some(ttl) = self.attempt(name, owner).await? {
            if let Ok(Ok(permit)) = tokio::time::timeout(ttl, channel.permits.acquire()).await {
                permit.forget();
            }
        }
        Ok(())
    }

    /// `None`: acquired.
    async fn attempt(&self, name: &str, owner: &str) -> Outcome<Option<Duration>> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.0.acquire).arg(1).arg(name).arg(raw::LEASE).arg(owner);
        let ttl: Option<i64> =
            command.query_async(&mut self.0.connection.clone()).await.map_err(words)?;
        Ok(ttl.map(|ttl| Duration::from_millis(ttl.max(0).unsigned_abs())))
    }

    async fn subscribe(&self, topic: &str) -> Outcome<Arc<Channel>> {
        let channel = {
            let mut channels = lock(&self.0.channels);
            let new = || {
                let users = tokio::sync::Mutex::new(0);
                Arc::new(Channel { users, permits: Semaphore::new(0) })
            };
            channels.entry(topic.to_owned()).or_insert_with(new).clone()
        };
        let mut users = channel.users.lock().await;
        if *users == 0 {
            self.0.listening.clone().subscribe(topic).await.map_err(words)?;
        }
        *users += 1;
        drop(users);
        Ok(channel)
    }

    async fn unsubscribe(self, topic: String, channel: Arc<Channel>) {
        let mut users = channel.users.lock().await;
        *users -= 1;
        if *users == 0 {
            // If it fails the connection is gone, and with it the subscription.
            let _ = self.0.listening.clone().unsubscribe(topic).await;
        }
    }
}

impl RedissonHeld {
    pub(crate) async fn unlock(self) -> Outcome<()> {
        let shared = &self.redisson.0;
        let mut command = redis::cmd("EVALSHA");
        command.arg(&shared.release).arg(2).arg(&*self.name).arg(raw::channel(&self.name));
        command.arg(&self.owner).arg(raw::LEASE);
        match command.query_async(&mut shared.connection.clone()).await.map_err(words)? {
            Some(1_i64) => Ok(()),
            other => Err(format!("{} was lost: {other:?}", self.name)),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
