//! A Java thread, and the locks it takes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::pending::Answer;
use super::{Latch, LeasedPermits, Peer, Pending, Semaphore};

/// Redisson's kinds of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `getLock`.
    Plain,
    /// `getFairLock`.
    Fair,
    /// `getReadWriteLock(…).readLock()`.
    Read,
    /// `getReadWriteLock(…).writeLock()`.
    Write,
    /// `getFencedLock`, with tokens.
    Fenced,
    /// `getSpinLock`.
    Spin,
    /// `RedissonMultiLock` over plain locks; its name is theirs with commas between them.
    Multi,
}

/// A thread of a [`Peer`]: what it locks it owns. Its commands run one after the other.
#[derive(Clone, Debug)]
pub struct Thread {
    peer: Arc<Peer>,
    name: String,
}

/// A lock that was taken.
#[derive(Clone, Debug)]
pub struct Entry {
    /// By whom: `UUID:THREAD`.
    pub owner: String,
    /// When Java knew of it, by the machine's clock.
    pub at: SystemTime,
    /// The token of a fenced lock.
    pub token: Option<u64>,
}

/// When a command began and ended in Java, by the machine's clock.
#[derive(Clone, Copy, Debug)]
pub struct Spell {
    /// Just before.
    pub from: SystemTime,
    /// Just after.
    pub at: SystemTime,
}

impl Thread {
    pub(super) fn new(peer: Arc<Peer>, name: &str) -> Thread {
        assert!(!name.contains(' '), "a blank ends a word");
        Thread { peer, name: name.to_owned() }
    }

    /// As whom it locks: `UUID:THREAD`.
    pub fn owner(&self) -> Pending<String> {
        self.send("whoami", |answer| answer.owner())
    }

    /// `lock()`: waits for as long as it takes, and the watchdog keeps it.
    pub fn lock(&self, kind: Kind, name: &str) -> Pending<Entry> {
        self.send(&format!("lock {} {name} -1", kind.word()), entry)
    }

    /// `lock(lease)`: waits for as long as it takes.
    pub fn lock_for(&self, kind: Kind, name: &str, lease: Duration) -> Pending<Entry> {
        self.send(&format!("lock {} {name} {}", kind.word(), lease.as_millis()), entry)
    }

    /// `tryLock(wait, lease)`, or `tryLock()` without either; without a lease the watchdog keeps it.
    pub fn try_lock(
        &self,
        kind: Kind,
        name: &str,
        wait: Duration,
        lease: Option<Duration>,
    ) -> Pending<Option<Entry>> {
        let (wait, lease) = (wait.as_millis(), millis(lease));
        self.send(&format!("tryLock {} {name} {wait} {lease}", kind.word()), |answer| {
            let busy = answer.is_null() || answer.value() == &serde_json::Value::Bool(false);
            (!busy).then(|| entry(answer))
        })
    }

    /// `unlock()`, which throws `IllegalMonitorStateException` if the thread does not hold it.
    pub fn unlock(&self, kind: Kind, name: &str) -> Pending<Spell> {
        self.send(&format!("unlock {} {name}", kind.word()), spell)
    }

    /// `forceUnlock()`: whether anybody held it.
    pub fn force_unlock(&self, kind: Kind, name: &str) -> Pending<bool> {
        self.send(&format!("forceUnlock {} {name}", kind.word()), |answer| answer.truth())
    }

    /// `isLocked()`.
    pub fn is_locked(&self, kind: Kind, name: &str) -> Pending<bool> {
        self.send(&format!("isLocked {} {name}", kind.word()), |answer| answer.truth())
    }

    /// `isHeldByCurrentThread()`.
    pub fn is_held(&self, kind: Kind, name: &str) -> Pending<bool> {
        self.send(&format!("isHeld {} {name}", kind.word()), |answer| answer.truth())
    }

    /// `getHoldCount()`: that of this thread.
    pub fn hold_count(&self, kind: Kind, name: &str) -> Pending<i64> {
        self.send(&format!("holdCount {} {name}", kind.word()), |answer| answer.number())
    }

    /// `remainTimeToLive()` in milliseconds: −1 for ever, −2 not locked.
    pub fn ttl(&self, kind: Kind, name: &str) -> Pending<i64> {
        self.send(&format!("ttl {} {name}", kind.word()), |answer| answer.number())
    }

    /// The last token of a fenced lock.
    pub fn token(&self, name: &str) -> Pending<i64> {
        self.send(&format!("token {name}"), |answer| answer.number())
    }

    /// Interrupts whatever it is at.
    pub fn interrupt(&self) -> Pending<()> {
        self.send("interrupt", |_| ())
    }

    /// Whether it is asleep until a message comes. Redisson's message that a writer has left wakes those who sleep, and no others:
    /// one that has just asked and goes to sleep then does not hear of it.
    pub fn is_asleep(&self) -> Pending<bool> {
        self.send("asleep", |answer| answer.truth())
    }

    /// Goes in and out of a lock for that long, leaving a [history](crate::history) under `key`. Gives how often it was inside.
    pub fn stress(&self, kind: &str, name: &str, key: &str, time: Duration) -> Pending<u64> {
        let who = format!("{}-{}", self.peer.uuid(), self.name);
        let command = format!("stress {kind} {name} {key} {who} {}", time.as_millis());
        self.send(&command, |answer| answer.number().unsigned_abs())
    }

    /// `getSemaphore(name)`.
    pub fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::new(self.clone(), name)
    }

    /// `getPermitExpirableSemaphore(name)`.
    pub fn leased_semaphore(&self, name: &str) -> LeasedPermits {
        LeasedPermits::new(self.clone(), name)
    }

    /// `getCountDownLatch(name)`.
    pub fn latch(&self, name: &str) -> Latch {
        Latch::new(self.clone(), name)
    }

    pub(super) fn send<T>(&self, command: &str, read: fn(Answer) -> T) -> Pending<T> {
        self.peer.send(&self.name, command, read)
    }
}

impl Kind {
    /// What the peer calls it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::Fair => "fair",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Fenced => "fenced",
            Kind::Spin => "spin",
            Kind::Multi => "multi",
        }
    }
}

/// As the peer wants it: −1 for none.
pub(super) fn millis(lease: Option<Duration>) -> String {
    lease.map_or("-1".to_owned(), |lease| lease.as_millis().to_string())
}

pub(super) fn spell(answer: Answer) -> Spell {
    Spell { from: answer.from(), at: answer.at() }
}

fn entry(answer: Answer) -> Entry {
    Entry { owner: answer.owner(), at: answer.at(), token: answer.value().as_u64() }
}
