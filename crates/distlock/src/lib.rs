//! Locks that tasks, processes and machines share, in the wire format of Java's Redisson.
//!
//! ```
//! # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
//! # rt.block_on(async {
//! use distlock::Locks;
//!
//! let locks = Locks::memory(); // later Locks::connect("redis://127.0.0.1:6379").await?
//!
//! let guard = locks.mutex("orders:42").lock().await?; // waits; the watchdog renews it until the guard is dropped
//! guard.while_held(async { /* ship the order */ }).await?; // drops the work when the loss of the lock is noticed
//! guard.unlock().await?; // `Lost` if the lock was lost before
//! # Ok::<(), distlock::Error>(())
//! # }).unwrap();
//! ```
//!
//! [`Locks`] gives access to the locks of a store, by name. [`lock`](Mutex::lock) waits for a lock; [`try_lock`](Mutex::try_lock) returns
//! `None` if it is busy. Both return an [`Acquire`]: set `.wait`, `.lease` and `.owner`, then `.await` it or call `.blocking()`. The result is
//! a [`Guard`]: dropping it releases the lock, and [`lost`](Guard::lost) completes when the lock is lost.
//!
//! # Which store
//! | URL | the locks are shared by |
//! |---|---|
//! | `memory:` | the tasks and threads of one process |
//! | `file:/dir`, `file:` (the user's state directory) | the processes of one Linux machine, without a server |
//! | `redis://`, `rediss://`, `redis+unix://`, `redis+sentinel://`, `redis+replicated://`, `redis+cluster://` | many machines, and Java services that use Redisson |
//!
//! Features: `redis`, `file` and `macros` are on by default; `cluster`, `sentinel` and `tls` add the URLs of those names, and `metrics`,
//! `profiles`, `tokio-util`, `tower` and `axum` the items that need them.
//!
//! # Which kind
//! | kind | who holds it |
//! |---|---|
//! | [`Mutex`], [`Fair`] | one owner at a time; `Fair` in the order of arrival |
//! | [`Rw`] | many readers or one writer |
//! | [`Fenced`] | one owner at a time, each acquisition with a higher number, which the resource ([`FenceGate`]) checks |
//! | [`MultiLock`], [`RedLock`] | one owner of several locks, all or none; one owner by a majority of servers |
//! | [`Semaphore`], [`LeasedSemaphore`] | at most *n* permits; the permits of a `LeasedSemaphore` end with their leases |
//! | [`Latch`] | no owner: callers wait until a count is zero |
//! | [`Spin`], [`Simple`] | one owner at a time, without Pub/Sub |
//!
//! # Around a piece of work
//! [`Mutex::run`] holds the lock while a closure runs, `#[locked]` while a function runs, [`Locks::schedule`] while one process of many
//! runs a job, at most once per tick, and `web` (features `tower` and `axum`) while a request is handled. [`block_on`] is for programs
//! without a runtime.
//!
//! # Guides
//! - [`mod@guide`]: choosing a kind, a wait and a lease; lost locks; re-entry; which metrics to tune by.
//! - [`mod@cookbook`]: recipes that compile.
//! - [`mod@guarantees`]: what is promised, under which conditions, and what no lock with a lease can promise.
//! - [`mod@fencing`]: how a database or a server refuses the late write of a paused holder.
//! - [`mod@topologies`]: every URL, and what happens when a server fails. [`mod@operations`]: settings and permissions of a Redis server.
//! - [`mod@redisson_compat`]: sharing locks with Java services. [`mod@migration`]: moving locks to another server under load.
//! - [`mod@performance`]: how it is measured, and the results.
//!
//! [`mod@doctor`] checks whether a server is fit for locks, [`mod@env`] is for tests on virtual time (with tokio's feature `test-util`), [`store`]
//! for stores of your own.

mod acquire;
pub mod doctor;
mod engine;
mod error;
#[cfg(all(feature = "file", any(target_os = "linux", target_os = "android")))]
mod file;
mod guard;
mod holder;
mod kinds;
mod locks;
mod memory;
#[cfg(feature = "metrics")]
mod metrics;
mod observe;
mod owner;
#[cfg(feature = "profiles")]
mod profiles;
mod quorum;
#[cfg(feature = "redis")]
// What only fleets of servers need is built all the same: without the features nothing but the way in is missing.
#[cfg_attr(not(all(feature = "cluster", feature = "sentinel")), allow(dead_code))]
mod redis;
mod runtime;
mod schedule;
#[doc(hidden)]
pub mod state_dir;
pub mod store;
#[cfg(any(feature = "tower", feature = "axum"))]
pub mod web;

#[cfg(feature = "macros")]
#[doc = include_str!("locked.md")]
pub use distlock_macros::locked;

#[cfg(feature = "metrics")]
pub use self::metrics::Metrics;
pub use acquire::{Acquire, Acquiring, May, Member, Must, block_on};
pub use engine::State;
pub use error::{Error, ErrorKind, Result};
#[cfg(feature = "macros")]
#[doc(hidden)]
pub use guard::macros;
pub use guard::{FencedGuard, Guard, Permits, ReadGuard, Scope, WriteGuard};
pub use holder::HolderInfo;
pub use kinds::{
    Fair, FenceGate, Fenced, Latch, LeasedSemaphore, MultiGuard, MultiLock, Mutex, RedLock, Rw,
    Semaphore, Simple, Spin, StoredFenceGate,
};
pub use locks::{Builder, Durability, Locks};
pub use observe::{Event, Observer, Outcome, Subject, Tracing};
pub use owner::Owner;
#[cfg(feature = "profiles")]
pub use profiles::Profiles;
#[doc(hidden)]
pub use runtime::duration;
pub use runtime::env;
pub use runtime::{Backoff, WaitBy};
pub use schedule::{Schedule, Tick};
pub use store::PermitId;

/// How connections to a server are made, for programs with a network of their own.
#[cfg(feature = "redis")]
pub mod net {
    pub use crate::redis::{Connector, Endpoint, Net, Stream, TlsOptions};
}

/// The programs in README compile, and those that need no server run: that of the repository, and that of the crate's page, where relative
/// links would lead nowhere.
#[cfg(doctest)]
#[doc = include_str!("../docs/README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct CrateReadme;

/// The files of `docs`, a module each, for rustdoc alone. Of two definitions of a link Markdown takes the first: these stand before those at
/// the end of each file, which lead to files.
#[cfg(doc)]
macro_rules! guides {
    ($($module:ident: $file:literal,)*) => {$(
        #[doc = include_str!("links.md")]
        #[doc = include_str!(concat!("../docs/", $file))]
        pub mod $module {}
    )*};
}

#[cfg(doc)]
guides! {
    guide: "guide.md",
    cookbook: "cookbook.md",
    guarantees: "guarantees.md",
    topologies: "topologies.md",
    operations: "operations.md",
    fencing: "fencing.md",
    redisson_compat: "redisson-compat.md",
    migration: "migration.md",
    performance: "performance.md",
}
