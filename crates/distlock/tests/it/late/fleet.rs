//! Processes of the version before and of this one on one name. The earlier one put the caller's owner itself into the store; what it
//! sent is sent here as it was.

use std::time::Duration;

use distlock::Locks;
use distlock_testkit::Server;
use distlock_testkit::suites::eventually;

use crate::late::stage::{LEASE, SOON};

/// An owner of the earlier version: the same for every hold.
const OLD: &str = "0f8fad5b-d9cb-469f-a165-70867728950e:7";

/// Takes the lock, or says for how long it is busy.
const ACQUIRE: &str = "
local ttl = redis.call('pttl', KEYS[1])
if ttl == -2 then
  redis.call('hset', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  return -1
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  redis.call('hset', KEYS[1], ARGV[1], ARGV[3])
  return -1
end
return ttl";

const RELEASE: &str = "
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
  return -1
end
return redis.call('publish', ARGV[2], '0')";

const RENEW: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0";

/// A process of the earlier version.
struct Old<'a>(&'a Server);

impl Old<'_> {
    /// Whether it has the lock now.
    async fn acquires(&self) -> bool {
        let lease = LEASE.as_millis().to_string();
        let busy: i64 = self.0.ask(&["EVAL", ACQUIRE, "1", "k", OLD, &lease, "1"]).await;
        busy == -1
    }

    async fn renews(&self) -> bool {
        let lease = LEASE.as_millis().to_string();
        self.0.ask(&["EVAL", RENEW, "1", "k", OLD, &lease]).await
    }

    /// How many heard of it; `None` if it did not have the lock.
    async fn releases(&self) -> Option<i64> {
        let channel = "redisson_lock__channel:{k}";
        let heard: i64 = self.0.ask(&["EVAL", RELEASE, "1", "k", OLD, channel]).await;
        (heard >= 0).then_some(heard)
    }
}

#[tokio::test]
async fn a_hold_of_the_version_before_keeps_this_one_out_and_its_release_wakes_it() {
    let server = Server::redis().await;
    let old = Old(&server);
    // So long that nobody looks again by itself before it is woken.
    let watchdog = Duration::from_secs(600);
    let builder = Locks::builder().url(server.url()).watchdog(watchdog);
    let locks = builder.connect().await.unwrap();
    assert!(old.acquires().await);
    assert!(locks.mutex("k").try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(locks.mutex("k").lock().lease(LEASE).into_future());
    let listens = || async { !server.pubsub_channels().await.is_empty() };
    eventually("it waits", listens).await;
    assert!(old.renews().await);
    assert_eq!(old.releases().await, Some(1));
    let guard = tokio::time::timeout(SOON, waiting).await.expect("woken").unwrap().unwrap();
    assert!(!old.acquires().await, "two holders");
    assert!(!old.renews().await && old.releases().await.is_none(), "it frees what it has not");
    guard.unlock().await.unwrap();
    assert!(!server.exists("k").await);
}

#[tokio::test]
async fn a_hold_of_this_version_keeps_the_one_before_out_and_its_release_wakes_it() {
    let server = Server::redis().await;
    let old = Old(&server);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let me = locks.owner();
    let outer = locks.mutex("k").lock().owner(&me).lease(LEASE).await.unwrap();
    let inner = locks.mutex("k").lock().owner(&me).lease(LEASE).await.unwrap();
    assert!(!old.acquires().await, "two holders");
    // One field, which reads like an owner and holds a count, and a time to live: what the earlier version expects of others.
    let fields = server.hgetall("k").await;
    let (field, depth) = fields.first_key_value().expect("a holder");
    assert!(fields.len() == 1 && field.parse::<distlock::Owner>().is_ok(), "{fields:?}");
    assert_eq!(depth, "2");
    assert!(server.pttl("k").await > 0);
    inner.unlock().await.unwrap();
    assert!(!old.acquires().await, "two holders");

    let client = redis::Client::open(server.url()).unwrap();
    let mut listener = client.get_connection().unwrap();
    let mut channel = listener.as_pubsub();
    channel.subscribe("redisson_lock__channel:{k}").unwrap();
    channel.set_read_timeout(Some(SOON)).unwrap();
    outer.unlock().await.unwrap();
    let message: String = channel.get_message().expect("woken").get_payload().unwrap();
    assert_eq!(message, "0");
    assert!(old.acquires().await);
    assert!(locks.mutex("k").try_lock().owner(&me).await.unwrap().is_none(), "two holders");
    assert!(old.releases().await.is_some());
}
