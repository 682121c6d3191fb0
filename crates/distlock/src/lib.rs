//! Locks that tasks, processes and machines share, on Redisson's wire format.
//!
//! ```
//! # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # rt.block_on(async {
//! use distlock::Locks;
//!
//! let locks = Locks::connect("memory:").await?; // or "file:/var/lock/app", or "redis://127.0.0.1:6379"
//!
//! let guard = locks.mutex("orders:42").lock().await?; // waits; the watchdog keeps it
//! guard.while_held(async { /* ship it */ }).await?; // stops if the lock is lost
//! guard.unlock().await?; // says if it had been lost
//! # Ok::<(), distlock::Error>(())
//! # }).unwrap();
//! ```
//!
//! # The tour
//! - [`Locks`] hands out locks by name. What serves them is decided by a URL: `memory:` (this process), `file:/dir` (this
//!   machine), `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+replicated://`, `redis+cluster://` (many
//!   machines, together with Java services that use Redisson).
//! - [`Mutex`] is such a lock: one owner at a time. [`lock`](Mutex::lock) must have it, [`try_lock`](Mutex::try_lock) may.
//!   Both make an [`Acquire`]: set `.wait`, `.lease`, `.owner`, then `.await` it or call `.blocking()`.
//! - Its family: [`Fair`] (in order), [`Rw`] (readers and a writer), [`Fenced`] (numbered; [`FenceGate`] checks the numbers),
//!   [`Spin`] and [`Simple`] (without Pub/Sub), [`MultiLock`] (all or none), [`RedLock`] (a majority of servers),
//!   [`Semaphore`] and [`LeasedSemaphore`] (permits), [`Latch`] (waits for a count).
//! - [`Mutex::run`] has the lock around a piece of work; `#[locked]` around a function; [`Locks::schedule`] around a job that one
//!   node of a fleet runs at each tick; `web` (features `tower`, `axum`) around requests.
//! - [`Guard`] is the hold itself. Dropping it releases; it knows when it is [lost](Guard::lost).
//! - [`Owner`] is who holds it. Fresh for each acquisition; pass one on to re-enter.
//! - [`Durability`] says when an acquisition counts: when the server has it, or when its replicas have it too.
//! - [`block_on`] is for programs without a runtime. (`CancellationToken`s: feature `tokio-util`.)
//! - [`Error`] has an [`ErrorKind`] to branch on. [`Observer`] gets every [`Event`].
//! - [`mod@guide`] helps to choose a kind, a wait and a lease, and says which figures to tune by.
//! - [`mod@cookbook`] has recipes.
//! - [`mod@doctor`] says whether a server is fit for locks, and what a user of it needs.
//! - [`mod@env`] is for tests on virtual time, [`store`] for those who bring a store of their own.
//!
//! # Without a lease, with a lease
//! Without one, the lock lives for the [watchdog's timeout](Builder::watchdog) and is renewed each third of it for as long as
//! the guard lives: use it when the work takes as long as it takes. With one, nobody renews it and the lock is held *at most*
//! that long: use it when the work must not.
//!
#![doc = include_str!("../docs/guarantees.md")]
#![doc = include_str!("../docs/topologies.md")]
#![doc = include_str!("../docs/fencing.md")]
#![doc = include_str!("../docs/redisson-compat.md")]

mod backoff;
mod blocking;
mod builder;
#[cfg(feature = "tokio-util")]
mod cancel;
mod chain;
mod config;
pub mod cookbook;
pub mod doctor;
mod durability;
#[doc(hidden)]
pub mod duration;
mod engine;
pub mod env;
mod error;
#[cfg(all(feature = "file", any(target_os = "linux", target_os = "android")))]
mod file;
mod guard;
mod guarded;
pub mod guide;
mod holder;
mod kinds;
mod limits;
mod locks;
#[cfg(feature = "macros")]
#[doc(hidden)]
pub mod macros;
mod member;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod observe;
mod owner;
mod patience;
#[cfg(feature = "profiles")]
mod profiles;
mod quorum;
#[cfg(feature = "redis")]
// What only fleets of servers need is built all the same: without the features nothing but the way in is missing.
#[cfg_attr(not(all(feature = "cluster", feature = "sentinel")), allow(dead_code))]
mod redis;
mod request;
mod run;
mod schedule;
mod scope;
pub mod store;
mod together;
mod too_late;
#[cfg(any(feature = "tower", feature = "axum"))]
pub mod web;

#[cfg(feature = "macros")]
#[doc = include_str!("locked.md")]
pub use distlock_macros::locked;

#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
pub use backoff::{Backoff, WaitBy};
pub use blocking::block_on;
pub use builder::Builder;
pub use durability::Durability;
pub use engine::State;
pub use error::{Error, ErrorKind, Result};
pub use guard::{FencedGuard, Guard, Permits, ReadGuard, WriteGuard};
pub use holder::HolderInfo;
pub use kinds::{
    Fair, FenceGate, Fenced, Latch, LeasedSemaphore, MultiGuard, MultiLock, Mutex, RedLock, Rw,
    Semaphore, Simple, Spin, StoredFenceGate,
};
pub use locks::Locks;
pub use member::Member;
pub use observe::{Event, Observer, Outcome, Subject, Tracing};
pub use owner::Owner;
#[cfg(feature = "profiles")]
pub use profiles::Profiles;
pub use request::{Acquire, Acquiring, May, Must};
pub use schedule::{Schedule, Tick};
pub use scope::Scope;
pub use store::PermitId;

/// How connections to a server are made, for those who bring their own network.
#[cfg(feature = "redis")]
pub mod net {
    pub use crate::redis::{Connector, Endpoint, Net, Stream, TlsOptions};
}

/// The programs in README compile, and those that need no server run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
