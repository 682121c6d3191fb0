//! The contenders behind one face.

use std::sync::Arc;

use distlock::{Guard, Locks};

use crate::raw::Raw;
use crate::redisson::{Redisson, RedissonHeld};
use crate::spin::Spin;

/// The contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// This library.
    Distlock,
    /// A multiplexed connection that runs this library's scripts and does nothing else: the limit.
    Raw,
    /// Redisson's algorithm.
    Redisson,
    /// `SET NX PX`, asked again every millisecond.
    Spin1,
    /// The same every 50 ms.
    Spin50,
}

impl Who {
    /// Those that can wait for a busy lock.
    pub(crate) const WAITING: [Who; 4] = [Who::Distlock, Who::Redisson, Who::Spin1, Who::Spin50];
    /// Those worth comparing where nothing is busy.
    pub(crate) const UNCONTENDED: [Who; 4] = [Who::Distlock, Who::Raw, Who::Redisson, Who::Spin1];

    pub(crate) fn key(self) -> &'static str {
        match self {
            Who::Distlock => "distlock",
            Who::Raw => "raw",
            Who::Redisson => "redisson-alg",
            Who::Spin1 => "spin-1ms",
            Who::Spin50 => "spin-50ms",
        }
    }

    pub(crate) fn named(key: &str) -> Option<Who> {
        let all = [Who::Distlock, Who::Raw, Who::Redisson, Who::Spin1, Who::Spin50];
        all.into_iter().find(|who| who.key() == key)
    }
}

/// A connected contender.
#[derive(Clone)]
pub(crate) enum Client {
    Distlock(Locks),
    Raw(Raw),
    Redisson(Redisson),
    Spin(Spin),
}

/// A lock that is held.
pub(crate) enum Held {
    Distlock(Guard),
    Raw(Raw, Arc<str>, String),
    Redisson(RedissonHeld),
    Spin(Spin, Arc<str>, String),
}

/// What went wrong, in words: a contender that fails is a finding, not a crash.
pub(crate) type Outcome<T> = Result<T, String>;

pub(crate) fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Client {
    pub(crate) async fn connect(who: Who, url: &str) -> Client {
        match who {
            Who::Distlock => {
                Client::Distlock(Locks::connect(url).await.expect("the server has just started"))
            }
            Who::Raw => Client::Raw(Raw::connect(url).await),
            Who::Redisson => Client::Redisson(Redisson::connect(url).await),
            Who::Spin1 => Client::Spin(Spin::connect(url, 1).await),
            Who::Spin50 => Client::Spin(Spin::connect(url, 50).await),
        }
    }

    pub(crate) async fn lock(&self, name: &Arc<str>) -> Outcome<Held> {
        match self {
            Client::Distlock(locks) => {
                locks.mutex(&**name).lock().await.map(Held::Distlock).map_err(words)
            }
            Client::Raw(raw) => {
                let owner = raw.acquire(name).await?;
                Ok(Held::Raw(raw.clone(), name.clone(), owner))
            }
            Client::Redisson(redisson) => redisson.lock(name).await.map(Held::Redisson),
            Client::Spin(spin) => {
                let token = spin.acquire(name).await?;
                Ok(Held::Spin(spin.clone(), name.clone(), token))
            }
        }
    }

    pub(crate) async fn close(self) {
        if let Client::Distlock(locks) = self {
            locks.close().await;
        }
    }
}

impl Held {
    pub(crate) async fn unlock(self) -> Outcome<()> {
        match self {
            Held::Distlock(guard) => guard.unlock().await.map_err(words),
            Held::Raw(raw, name, owner) => raw.release(&name, &owner).await,
            Held::Redisson(held) => held.unlock().await,
            Held::Spin(spin, name, token) => spin.release(&name, &token).await,
        }
    }
}
