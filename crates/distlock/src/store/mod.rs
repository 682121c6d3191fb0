//! The seam between the engine, which waits, and the stores, which decide.
//!
//! Programs do not need this module; authors of a store, and of test doubles that make one fail, do.
//!
//! # Examples
//! A table behind the mutexes of one program. The [machines](state) know the rules, so that a store needs a place to keep
//! what they say, and a way to call out who should look again:
//!
//! ```
//! use std::collections::HashMap;
//! use std::future::ready;
//! use std::sync::{Arc, Mutex};
//! use distlock::env::{BoxFuture, Env, System};
//! use distlock::store::state::{Around, Machine, Step, Wake, fair::Entry};
//! use distlock::store::{Attempt, Claim, Listener, Released, Snapshot, Store, Topic, What};
//! use distlock::{Locks, Owner, Result};
//!
//! #[derive(Debug, Default)]
//! struct Table {
//!     entries: Mutex<HashMap<Arc<str>, Entry>>,
//!     released: Arc<Topic>,
//! }
//!
//! /// Neither fair nor fenced locks are kept here.
//! struct Nothing;
//! impl Around for Nothing {
//!     fn listens(&self, _: Owner) -> bool {
//!         false
//!     }
//!     fn token(&self) -> u64 {
//!         0
//!     }
//! }
//!
//! impl Table {
//!     /// One atomic step.
//!     fn step<T>(&self, name: &str, step: impl FnOnce(Option<Entry>) -> Step<Entry, T>) -> T {
//!         let mut entries = self.entries.lock().unwrap();
//!         let Step { entry, answer, wake } = step(entries.remove(name));
//!         entries.extend(entry.filter(|e| e.is_live(System.now())).map(|e| (name.into(), e)));
//!         drop(entries);
//!         if wake != Wake::Nobody {
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
//!     fn acquire<'a>(&'a self, c: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
//!         Box::pin(ready(Ok(self.step(&c.name, |e| Entry::acquire(e, c, System.now(), &Nothing)))))
//!     }
//!     fn release<'a>(&'a self, c: &'a Claim) -> BoxFuture<'a, Result<Released>> {
//!         Box::pin(ready(Ok(self.step(&c.name, |e| Entry::release(e, c, System.now(), &Nothing)))))
//!     }
//!     fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
//!         let renew = |c: &Claim| Ok(self.step(&c.name, |e| Entry::renew(e, c, System.now())));
//!         Box::pin(ready(claims.iter().map(renew).collect()))
//!     }
//!     fn listen<'a>(&'a self, _: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
//!         Box::pin(ready(Ok(Listener::new(self.released.clone(), ()))))
//!     }
//!     fn inspect<'a>(&'a self, _: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
//!         Box::pin(ready(Ok(self.look(name))))
//!     }
//!     fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
//!         let before = self.look(name);
//!         self.step(name, |e| Entry::force(e, what, System.now(), &Nothing));
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
//! let (waiter, ()) = tokio::join!(locks.mutex("k").lock(), async { drop(guard) });
//! waiter?.unlock().await
//! # }).unwrap();
//! ```

mod admin;
mod claim;
mod listen;
pub mod state;

pub use admin::{Admin, Command, LatchOp, LeasedOp, PermitId, PermitsOp, Reply};
pub use claim::{Attempt, Claim, Holder, Kind, Mode, Released, Snapshot, Together, What};
pub use listen::{Listener, Topic};

use std::fmt::Debug;

use crate::doctor::{Examine, Finding, Level};
use crate::durability::Durability;
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};

/// Where locks are kept. A store decides; it never waits.
///
/// # Contract
/// - **Each step is atomic and sent at most once.** A store does not retry: the engine does, because it
///   knows the deadline. (Reloading a script that a server does not know is not a retry.)
/// - **Each step is idempotent.** An owner lives in one process, so the engine knows its depth: `acquire` *sets* the hold
///   to `claim.depth`, `release` sets it to `claim.depth` and frees at 0. Doing a step twice changes nothing more.
/// - **Each step does no harm when it is late.** An owner in a claim is the id of one stay, from entering to leaving, and is not used
///   again; no step shortens a time to live that another step of the same stay has set; and a store that gives a connection up makes
///   sure, where it can, that nothing on it is done later.
/// - **Each step ends.** A store bounds every step by its reply time-out and says what it knows:
///   [`Unavailable`](crate::ErrorKind::Unavailable) if the step surely did not happen,
///   [`Indeterminate`](crate::ErrorKind::Indeterminate) if it may have.
/// - **Each step may be run to its end on any runtime**, and dropping its future half-way leaves the store consistent:
///   the step happened, or it did not.
/// - A lock always has a time to live. Something without one under the name is a
///   [`Conflict`](crate::ErrorKind::Conflict), found before anything is written; so is something of another type.
pub trait Store: Debug + Send + Sync + 'static {
    /// Whether every step is answered when it is first polled, without a runtime.
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Whether a step may keep its thread, as a disk that does not answer does: renewals then have another one than the watchdog,
    /// which must be able to say that a hold is lost.
    fn may_block(&self) -> bool {
        false
    }

    /// Where it is, in words for people, without a password. Two at the same place are one and the same.
    fn place(&self) -> String {
        format!("a store of the program ({:p})", self)
    }

    /// A number that names share if they share their fate: the server that keeps them, where there are several. What is renewed
    /// in one call should share it, because all of a call's answers come when the last one does.
    fn share(&self, name: &str) -> usize {
        let _ = name;
        0
    }

    /// When an acquisition counts here. A store that says [`Durability::Acks`] answers `Acquired` only when so many replicas have
    /// it, and [`NotDurable`](crate::ErrorKind::NotDurable) if it was acquired but too few have; the engine then releases it. What
    /// passes on (`claim.heir_of`) needs no acknowledgement.
    fn durability(&self) -> Durability {
        Durability::Primary
    }

    /// Whether a hold may pass from one owner to another (`claim.heir_of`). If not, nobody asks for that, and every owner
    /// acquires for itself.
    fn passes_on(&self) -> bool {
        true
    }

    /// A number that changes when another server has taken over what one kept: it may not know of every hold, so whoever
    /// believes in one asks about it then, and does not wait for the next renewal.
    fn term(&self) -> u64 {
        0
    }

    /// Takes the lock for `claim.owner` at `claim.depth`, or says how long the present holder may keep it.
    ///
    /// The time to live becomes `claim.lease`, or stays if the same owner has more. At depth 2 and above the owner must hold it already; if it does not,
    /// the answer is `Busy`. With `claim.heir_of` the lock passes from that owner to this one, and only from it.
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>>;

    /// Sets the owner's hold to `claim.depth`; at 0 the lock is free and everybody who listens is told.
    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>>;

    /// Sets the time to live of each lock that its owner still holds to `claim.lease`; never to less. Never acquires.
    ///
    /// One answer per claim, in order: `true` renewed, `false` not held any more, an error for unknown. One bad claim
    /// never spoils another's answer.
    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>>;

    /// Forgets the owner altogether: its hold, if it has one, and its place in a queue. Idempotent.
    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { self.release(claim).await.map(drop) })
    }

    /// Takes all of the claims, which are of one owner, or none, in one atomic step. Each is at depth 1.
    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<Together>> {
        let _ = claims;
        Box::pin(std::future::ready(Ok(Together::Apart)))
    }

    /// Starts listening for releases. The future ends when the subscription is acknowledged: from then on no release
    /// goes unheard, except across a reconnect, which the [`Listener`] reports as if it were a release.
    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>>;

    /// What stands under `name` now, read as a lock of this kind.
    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>>;

    /// Frees the lock whoever holds it, tells everybody who listens, and returns what stood there before. Of a read-write
    /// lock, frees the half that `what` says.
    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>>;

    /// Every lock that is held and whose name starts with `prefix`, as far as the store can tell locks from other data.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>>;

    /// Looks whether it is fit for locks. Trouble is what it is about, so it has no error: whatever keeps it from looking is a
    /// finding. A store says nothing of a kind that it does not offer.
    fn examine<'a>(&'a self, what: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        let _ = what;
        let says = "nothing is known of this store";
        let finding = Finding::new(Level::Note, "store", self.place(), says);
        Box::pin(std::future::ready(vec![finding]))
    }

    /// Looks after a semaphore, a latch or a fence. Not idempotent unless the operation says so: the engine does not send
    /// it again when the answer is lost.
    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        let _ = (name, op);
        Box::pin(std::future::ready(Err(unsupported("this operation"))))
    }

    /// Runs `command` in the same atomic step that finds `claim` still held; `None` if it is not.
    fn guarded<'a>(
        &'a self,
        claim: &'a Claim,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Option<Reply>>> {
        let _ = (claim, command);
        Box::pin(std::future::ready(Err(unsupported("a guarded command"))))
    }
}

/// The store cannot do `what`.
pub(crate) fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("this store does not offer {what}"))
}
