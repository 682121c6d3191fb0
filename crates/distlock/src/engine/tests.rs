//! What happens between a step and its answer, and when no answer comes.

mod renewals;
mod steps;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::env::{BoxFuture, Virtual};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::locks::Locks;
use crate::memory::MemoryStore;
use crate::observe::{Event, Observer, Subject, usual};
use crate::store::{
    Attempt, AttemptAll, Claim, ClaimKind, Grant, Listener, Released, Renewed, Snapshot, Store,
};

const LONG: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// How a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Well,
    /// It hears of hand-overs and renewals only when it is let.
    Late,
    /// It does what it is told and does not answer.
    Mute,
    /// It cannot be reached.
    Down,
}

/// What it does beside that, whatever its mood.
#[derive(Debug, Default)]
struct Whims {
    /// It hears of new acquisitions only when it is let.
    acquires_late: AtomicBool,
    /// It hears of renewals only when it is let.
    renews_late: AtomicBool,
    /// It does what renewals ask for, and answers only when it is let.
    answers_late: AtomicBool,
    /// It cannot be told what is given up.
    remembers: AtomicBool,
    /// It takes what is given up without being asked, as a majority of stores does, which tells its stores later.
    forgets_later: AtomicBool,
    /// How many renewals it does not hear of.
    deaf: AtomicUsize,
    term: AtomicU64,
    /// How long it thinks before it gives several at once. It does not otherwise.
    nap: Mutex<Option<Duration>>,
}

#[derive(Debug)]
struct Moody {
    inner: Arc<MemoryStore>,
    mood: Mutex<Mood>,
    whims: Whims,
    gate: Semaphore,
    at_the_gate: AtomicUsize,
}

impl Moody {
    fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn check(&self) -> Result<()> {
        match *self.mood.lock().unwrap() {
            Mood::Down => Err(Error::new(ErrorKind::Unavailable, "as the test wants it")),
            Mood::Mute => Err(Error::new(ErrorKind::Indeterminate, "as the test wants it")),
            Mood::Well | Mood::Late => Ok(()),
        }
    }

    fn is_down(&self) -> bool {
        *self.mood.lock().unwrap() == Mood::Down
    }

    async fn pass_the_gate(&self) {
        if *self.mood.lock().unwrap() == Mood::Late {
            self.wait_in_line().await;
        }
    }

    async fn wait_in_line(&self) {
        self.at_the_gate.fetch_add(1, Ordering::Relaxed);
        self.gate.acquire().await.expect("it is never closed").forget();
        self.at_the_gate.fetch_sub(1, Ordering::Relaxed);
    }

    /// Until a step waits there.
    async fn wait_at_the_gate(&self) {
        while self.at_the_gate.load(Ordering::Relaxed) == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Store for Moody {
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            if claim.heir_of.is_some() {
                self.pass_the_gate().await;
            } else if self.whims.acquires_late.load(Ordering::Relaxed) {
                self.wait_in_line().await;
            }
            if self.is_down() {
                self.check()?;
            }
            let answer = self.inner.acquire(claim).await;
            self.check().and(answer)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            if self.is_down() {
                self.check()?;
            }
            let answer = self.inner.release(claim).await;
            self.check().and(answer)
        })
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if self.whims.forgets_later.load(Ordering::Relaxed) {
                return Ok(());
            }
            match self.whims.remembers.load(Ordering::Relaxed) {
                true => Err(Error::new(ErrorKind::Unavailable, "as the test wants it")),
                false => self.release(claim).await.map(drop),
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async move {
            match self.whims.renews_late.load(Ordering::Relaxed) {
                true => self.wait_in_line().await,
                false => self.pass_the_gate().await,
            }
            let less = |deaf: usize| deaf.checked_sub(1);
            if self.whims.deaf.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
                let deaf = |_| Err(Error::new(ErrorKind::Unavailable, "as the test wants it"));
                return claims.iter().map(deaf).collect();
            }
            let answers = self.inner.renew(claims).await;
            if self.whims.answers_late.load(Ordering::Relaxed) {
                self.wait_in_line().await;
            }
            answers
        })
    }

    fn term(&self) -> u64 {
        self.whims.term.load(Ordering::Relaxed)
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<AttemptAll>> {
        let nap = *self.whims.nap.lock().unwrap();
        Box::pin(async move {
            let Some(nap) = nap else { return Ok(AttemptAll::NotAtomic) };
            sleep(nap).await;
            for claim in claims {
                self.inner.acquire(claim).await?;
            }
            Ok(AttemptAll::Acquired(claims.iter().map(|claim| Grant::new(claim.lease)).collect()))
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        self.inner.listen(claim)
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.inner.inspect(what, name)
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        self.inner.force(what, name)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        self.inner.list(prefix)
    }
}

/// Two processes and the store of both, in virtual time: a lock passes on in memory only for some milliseconds.
struct Scene {
    store: Arc<Moody>,
    locks: Locks,
    other: Locks,
}

impl Scene {
    async fn new(name: &str) -> Scene {
        Scene::seen_by(name, usual()).await
    }

    async fn seen_by(name: &str, observer: Arc<dyn Observer>) -> Scene {
        let env = Virtual::new();
        let inner = MemoryStore::named(name, Arc::new(env.clone()));
        let other = Locks::builder().store(inner.clone()).env(env.clone());
        let other = other.connect().await.unwrap();
        let (mood, gate) = (Mutex::new(Mood::Well), Semaphore::new(0));
        let (at_the_gate, whims) = (AtomicUsize::new(0), Whims::default());
        let store = Arc::new(Moody { inner, mood, whims, gate, at_the_gate });
        let locks = Locks::builder().store(store.clone()).env(env).observer(observer);
        let locks = locks.watchdog(LONG).connect().await.unwrap();
        Scene { store, locks, other }
    }

    /// Who has the lock after it passed on in memory. Its predecessor had it for `lease`.
    async fn heir(&self, lease: Duration, mood: Mood) -> Guard {
        let first = self.locks.mutex("k").lock().lease(lease).await.unwrap();
        let heir = tokio::spawn(self.locks.mutex("k").lock().lease(HOUR).into_future());
        while self.locks.mutex("k").waiting() == 0 {
            tokio::task::yield_now().await;
        }
        self.store.be(mood);
        drop(first);
        heir.await.unwrap().unwrap()
    }

    async fn is_locked(&self) -> bool {
        self.other.mutex("k").is_locked().await.unwrap()
    }
}

/// A lock that passed on in memory is taken away before the store has heard of that, and its heir unlocks meanwhile.
#[tokio::test(start_paused = true)]
async fn an_heir_of_what_is_gone_is_told_so_when_it_unlocks() {
    let scene = Scene::new("heirs").await;
    for unlocked_first in [true, false] {
        let heir = scene.heir(HOUR, Mood::Late).await;
        assert!(scene.other.mutex("k").force_unlock().await.unwrap());
        let unlocked = if unlocked_first {
            let unlocking = tokio::spawn(heir.unlock());
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(!unlocking.is_finished(), "the store has not heard of it yet");
            scene.store.gate.add_permits(1);
            timeout(LONG, unlocking).await.expect("it ends").unwrap()
        } else {
            scene.store.gate.add_permits(1);
            timeout(LONG, heir.lost()).await.expect("it is told");
            heir.unlock().await
        };
        assert_eq!(unlocked.unwrap_err().kind(), ErrorKind::Lost);
        assert!(!scene.is_locked().await);
        scene.store.be(Mood::Well);
        scene.locks.mutex("k").lock().wait(LONG).await.unwrap().unlock().await.unwrap();
    }
}

/// What is leaked stays, also if a step about it is under way.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_after_a_leak_frees_nothing() {
    let scene = Scene::new("leaks").await;
    let renewed = scene.locks.mutex("k").lock().await.unwrap();
    scene.store.be(Mood::Late);
    scene.store.wait_at_the_gate().await;
    let owner = renewed.leak();
    scene.store.gate.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    assert!(scene.is_locked().await, "the renewal's answer freed it");
    scene.locks.mutex("k").unlock(&owner).await.unwrap();
    assert!(!scene.is_locked().await);

    for under_way in [true, false] {
        let heir = scene.heir(HOUR, Mood::Late).await;
        if under_way {
            scene.store.wait_at_the_gate().await;
        }
        let owner = heir.leak();
        scene.store.gate.add_permits(1);
        sleep(Duration::from_secs(1)).await;
        let held = scene.other.mutex("k").inspect().await.unwrap();
        let holders: Vec<&str> = held.holders.iter().map(|holder| &*holder.owner).collect();
        assert_eq!(holders, [owner.to_string()], "{under_way}");
        scene.locks.mutex("k").unlock(&owner).await.unwrap();
        assert!(!scene.is_locked().await);
    }
}

/// Callers wait for a store that is away for as long as a command may take, whatever it is to be told.
#[tokio::test(start_paused = true)]
async fn no_release_waits_for_an_outage_to_end() {
    let scene = Scene::new("outage").await;
    let soon = Duration::from_secs(5);
    let heir = scene.heir(HOUR, Mood::Down).await;
    let begun = Instant::now();
    assert_eq!(heir.unlock().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < soon, "passed on: {:?}", begun.elapsed());
    scene.store.be(Mood::Well);
    scene.locks.mutex("k").lock().wait(LONG).await.unwrap().unlock().await.unwrap();
    assert!(!scene.is_locked().await);

    let owner = scene.locks.owner();
    let outer = scene.locks.mutex("k").lock().owner(&owner).lease(HOUR).await.unwrap();
    let inner = scene.locks.mutex("k").lock().owner(&owner).await.unwrap();
    scene.store.be(Mood::Down);
    let begun = Instant::now();
    assert_eq!(inner.unlock().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < soon, "one level: {:?}", begun.elapsed());
    let begun = Instant::now();
    assert_eq!(outer.extend(HOUR).await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(begun.elapsed() < soon, "extended: {:?}", begun.elapsed());
    scene.store.be(Mood::Well);
    timeout(LONG, outer.unlock()).await.expect("it ends").unwrap();
    assert!(!scene.is_locked().await);
}

/// A hand-over whose answers were all lost may have happened: an heir that is lost for want of them leaves nothing behind.
#[tokio::test(start_paused = true)]
async fn a_hand_over_in_doubt_leaves_nothing_behind() {
    let scene = Scene::new("doubt").await;
    let heir = scene.heir(Duration::from_secs(2), Mood::Mute).await;
    timeout(LONG, heir.lost()).await.expect("it is told");
    assert!(scene.is_locked().await, "the store knows the heir");
    scene.store.be(Mood::Down);
    sleep(Duration::from_secs(5)).await; // the predecessor's lease is over, and nobody asks for the heir any more
    scene.store.be(Mood::Well);
    timeout(LONG, async {
        while scene.is_locked().await {
            sleep(Duration::from_millis(10)).await;
        }
    })
    .await
    .expect("it is freed long before its lease ends");
}
