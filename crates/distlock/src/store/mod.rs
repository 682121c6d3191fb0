//! The interface between the engine, which waits, and the stores, which decide.
//!
//! Programs do not need this module; authors of a store, and of test doubles that make one fail, do.
//!
//! # Examples
//! A table behind the mutexes of one program. The [state machines](machine) contain the rules, so a store only keeps their entries
//! and notifies waiters:
//!
//! ```
//! use std::collections::HashMap;
//! use std::future::ready;
//! use std::sync::{Arc, Mutex};
//! use distlock::env::{BoxFuture, Env, System};
//! use distlock::store::machine::{Machine, MachineContext, Transition, Wake, fair::FairEntry};
//! use distlock::store::{
//!     Attempt, Capabilities, Claim, ClaimKind, Kind, Listener, Released, Renewed, Snapshot, Store, Topic,
//! };
//! use distlock::{ErrorKind, Locks, Owner, Result};
//!
//! #[derive(Debug, Default)]
//! struct Table {
//!     entries: Mutex<HashMap<Arc<str>, FairEntry>>,
//!     released: Arc<Topic>,
//! }
//!
//! /// This store has neither fair nor fenced locks, so its machines need nothing of it.
//! struct NoContext;
//! impl MachineContext for NoContext {
//!     fn listens(&self, _: Owner) -> bool {
//!         false
//!     }
//!     fn token(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! impl Table {
//!     /// One atomic operation.
//!     fn step<T>(&self, name: &str, step: impl FnOnce(Option<FairEntry>) -> Transition<FairEntry, T>) -> T {
//!         let mut entries = self.entries.lock().unwrap();
//!         let Transition { entry, answer, wake } = step(entries.remove(name));
//!         entries.extend(entry.filter(|e| e.is_live(System.now())).map(|e| (name.into(), e)));
//!         drop(entries);
//!         if wake != Wake::None {
//!             self.released.wake();
//!         }
//!         answer
//!     }
//!
//!     fn look(&self, name: &str) -> Snapshot {
//!         let entries = self.entries.lock().unwrap();
//!         entries.get(name).map_or_else(|| Snapshot::free(name), |e| e.view(name, System.now()))
//!     }
//! }
//!
//! impl Store for Table {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::new().with_kinds(&[Kind::Mutex, Kind::Spin])
//!     }
//!     fn acquire<'a>(&'a self, c: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
//!         Box::pin(ready(Ok(self.step(&c.name, |e| FairEntry::acquire(e, c, System.now(), &NoContext)))))
//!     }
//!     fn release<'a>(&'a self, c: &'a Claim) -> BoxFuture<'a, Result<Released>> {
//!         Box::pin(ready(Ok(self.step(&c.name, |e| FairEntry::release(e, c, System.now(), &NoContext)))))
//!     }
//!     fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
//!         let renew = |c: &Claim| Ok(self.step(&c.name, |e| FairEntry::renew(e, c, System.now())));
//!         Box::pin(ready(claims.iter().map(renew).collect()))
//!     }
//!     fn listen<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
//!         Box::pin(ready(Ok(Listener::new(self.released.clone(), ()))))
//!     }
//!     fn inspect<'a>(&'a self, _: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
//!         Box::pin(ready(Ok(self.look(name))))
//!     }
//!     fn force<'a>(&'a self, kind: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
//!         let before = self.look(name);
//!         self.step(name, |e| FairEntry::force(e, kind, System.now(), &NoContext));
//!         Box::pin(ready(Ok(before)))
//!     }
//!     fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
//!         let entries = self.entries.lock().unwrap();
//!         let names = entries.iter().filter(|(name, _)| name.starts_with(prefix));
//!         Box::pin(ready(Ok(names.map(|(name, e)| e.view(name, System.now())).collect())))
//!     }
//! }
//!
//! # distlock::block_on(async {
//! let locks = Locks::builder().store(Arc::new(Table::default())).connect().await?;
//! let guard = locks.mutex("k").lock().await?;
//! assert!(locks.mutex("k").try_lock().await?.is_none());
//! assert_eq!(locks.latch("k").wait().await.unwrap_err().kind(), ErrorKind::Unsupported);
//! let (waiter, ()) = tokio::join!(locks.mutex("k").lock(), async { drop(guard) });
//! waiter?.unlock().await
//! # }).unwrap();
//! ```

mod admin;
mod capabilities;
mod claim;
mod listen;
pub mod machine;

pub use admin::{Admin, Command, LatchOp, LeasedOp, PermitId, PermitsOp, Reply};
pub use capabilities::Capabilities;
pub use claim::{
    Attempt, AttemptAll, Claim, ClaimKind, Grant, Holder, Kind, Mode, Released, Renewed, Snapshot,
};
pub use listen::{Listener, Topic};

use std::fmt::Debug;

use crate::doctor::{Examine, Finding, Level};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};

/// Keeps locks. A store decides; it never waits.
///
/// # Contract
/// - **Each operation is atomic and sent at most once.** A store does not retry: the engine does, because it
///   knows the deadline. (Reloading a script that a server does not know is not a retry.)
/// - **Each operation is idempotent.** An owner lives in one process, so the engine knows its hold count: `acquire` *sets* the hold
///   to `claim.depth`, `release` sets it to `claim.depth` and frees at 0. Applying an operation twice changes nothing more.
/// - **Each operation is harmless when it is late.** An owner in a claim is the id of one stay, from the acquire to the last release, and
///   is not used again; no operation shortens a time to live that another operation of the same stay has set; and a store that gives a
///   connection up makes sure, where it can, that nothing on it is applied later.
/// - **The store grants time.** An accepted acquire or renewal returns how long the store keeps the hold at least, counted from the moment at
///   which it applied the operation. The holder counts from the earlier moment at which it sent the operation, so it stops believing in the
///   hold before the store drops it, provided that both clocks run at the same rate. A grant longer than the store keeps its word would let
///   two owners in.
/// - **Each operation ends.** A store bounds every operation by its reply timeout, and returns
///   [`Unavailable`](crate::ErrorKind::Unavailable) if it surely was not applied,
///   [`Indeterminate`](crate::ErrorKind::Indeterminate) if it may have been.
/// - **Each operation may be completed on any runtime**, and dropping its future half-way leaves the store consistent:
///   the operation was applied, or it was not.
/// - A lock always has a time to live. A key without one under the name is a
///   [`Conflict`](crate::ErrorKind::Conflict), found before anything is written; so is a key of another type. (The permits of a plain
///   semaphore and the count of a latch have none.)
pub trait Store: Debug + Send + Sync + 'static {
    /// Returns what the store can do. It must be cheap, because the engine asks often, and the same for as long as the store exists: a
    /// store computes it once. [`Capabilities::new`] unless implemented.
    fn capabilities(&self) -> Capabilities {
        Capabilities::new()
    }

    /// Returns the address of the store for messages, without a password. Stores with the same place are one store.
    fn place(&self) -> String {
        format!("a store of the program ({:p})", self)
    }

    /// Returns a number that is equal for names on the same server, if the store has several servers. The engine renews such names in one
    /// call, because all results of a call come when the last one does.
    fn failure_domain(&self, name: &str) -> usize {
        let _ = name;
        0
    }

    /// Returns a number that changes when another server has taken over the data of one: it may not have every hold, so the engine
    /// then verifies its holds without waiting for the next renewal.
    fn term(&self) -> u64 {
        0
    }

    /// Acquires the lock for `claim.owner` at `claim.depth`, or returns how long the present holder may keep it.
    ///
    /// The time to live becomes `claim.lease`, or stays if the same owner has more; the result says what the store granted. A store that
    /// cannot grant so much, or counts in whole seconds, grants what it can: the engine believes in the hold for as long as the store says,
    /// counted from the time at which it sent the operation, and renews it in time. At depth 2 and above the owner must hold it already; if
    /// it does not, the result is `Busy`. With `claim.heir_of` the lock passes from that owner to this one, and only from it.
    ///
    /// A claim of a kind that the store does not [offer](Capabilities::offers) does not arrive here.
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>>;

    /// Sets the owner's hold to `claim.depth`; at 0 the lock is free and its listeners are notified.
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>>;

    /// Sets the time to live of each lock that its owner still holds to `claim.lease`; never to less. Never acquires.
    ///
    /// Returns one result for each claim, in order: [`Renewed::Held`] with the lease that the store granted, [`Renewed::Gone`] if the owner
    /// surely does not hold it any more, an error if that is not known. An error of one claim never changes the result of another.
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>>;

    /// Removes the owner altogether: its hold, if it has one, and its place in a queue. Idempotent.
    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.release(claim).await.map(drop) })
    }

    /// Acquires all of the claims, which are of one owner, or none, in one atomic operation. Each is at depth 1.
    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<AttemptAll>> {
        let _ = claims;
        Box::pin(std::future::ready(Ok(AttemptAll::NotAtomic)))
    }

    /// Subscribes to releases. The future completes when the subscription is acknowledged: from then on the [`Listener`] receives
    /// every release, except during a reconnect, which it reports as if it were a release.
    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>>;

    /// Returns the state of `name` now, read as a lock of this kind.
    fn inspect<'a>(&'a self, kind: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>>;

    /// Frees the lock whatever its owner, notifies its listeners, and returns the state before. Of a read-write lock it frees the half
    /// that `kind` names.
    fn force<'a>(&'a self, kind: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>>;

    /// Returns every lock that is held and whose name starts with `prefix`, as far as the store can tell locks from other data.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>>;

    /// Checks whether the store is fit for locks. It returns no error: a failure of the check is a finding as well. A store returns
    /// nothing about a kind that it does not offer.
    fn examine<'a>(&'a self, what: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        let _ = what;
        let says = "nothing is known of this store";
        let finding = Finding::new(Level::Note, "store", self.place(), says);
        Box::pin(std::future::ready(vec![finding]))
    }

    /// Applies an operation to a semaphore, a latch or a fence, and returns its number. Unless the operation is
    /// [idempotent](Admin::is_idempotent), the engine does not send it again when the reply is lost.
    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        let _ = (name, op);
        Box::pin(std::future::ready(Err(unsupported("this operation"))))
    }

    /// Runs `command` in the same atomic operation that finds `claim` still held; returns `None` if it is not.
    fn guarded<'a>(
        &'a self,
        claim: &'a Claim,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Option<Reply>>> {
        let _ = (claim, command);
        Box::pin(std::future::ready(Err(unsupported("a guarded command"))))
    }
}

/// Returns the error for an operation that the store cannot do.
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this store does not offer {what}"))
}
