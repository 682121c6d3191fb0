//! The scripts and the pure state machines give the same answers to the same steps: in memory, in files, on Redis and on
//! Valkey.
//!
//! Each kind says which steps there are; sequences of them are drawn at random and, if they fail, shrunk.

mod exclusive;
mod fair;
mod fenced;
mod latch;
mod leased;
mod permits;
mod rw;
mod simple;

use std::any::Any;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use distlock_testkit::{Flavor, Server as RealServer, effort};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::server::{connect_with, owner};
use crate::env::System;
use crate::memory::MemoryStore;
use crate::store::{
    Admin, Attempt, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store,
};
use crate::{Owner, Result};

/// How many sequences, and how long each is at most.
const SEQUENCES: u32 = 96;
const SEQUENCES_IN_TIER_1: u32 = 48;
const STEPS: usize = 30;

/// How many owners there are.
pub(super) const OWNERS: usize = 3;

/// What a claim that is not brief asks for; what comes later of a sequence does not count.
const LONG: Duration = Duration::from_secs(60);

/// A brief lease, and how long to wait until it is over for sure.
const BRIEF: Duration = Duration::from_millis(1);
const OVER: Duration = Duration::from_millis(5);

/// How long a store waits for a reply. A server that is kept from running for some seconds answers late; without a reply the step
/// would be in doubt, and comparing what follows would mean nothing.
const NO_STALL: Duration = Duration::from_secs(600);

/// A step, small enough to be read when it fails. `who` is one of the owners.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Acquire {
        who: usize,
        what: ClaimKind,
        depth: u32,
        heir_of: Option<usize>,
    },
    Release {
        who: usize,
        what: ClaimKind,
        depth: u32,
    },
    /// For a moment, which shortens nothing.
    Renew {
        who: usize,
        what: ClaimKind,
    },
    /// Acquires for a moment that is over when the step ends. What this one held before stays: no step shortens it.
    Expire {
        who: usize,
        what: ClaimKind,
    },
    GiveUp {
        who: usize,
        what: ClaimKind,
    },
    /// Starts to listen, and stops: a waiter of a fair lock that does not listen may be dead.
    Listen {
        who: usize,
        what: ClaimKind,
    },
    Deafen {
        who: usize,
    },
    Force {
        what: ClaimKind,
    },
    Inspect {
        what: ClaimKind,
    },
    Admin {
        op: Admin,
    },
    /// An operation that has to do with one of the owners; `number` is for the operation to use.
    AdminOf {
        who: usize,
        number: u32,
        op: fn(Owner, u32) -> Admin,
    },
}

/// What is the same on every store for one sequence.
struct Run<'a> {
    store: &'a dyn Store,
    name: String,
    owners: [Owner; OWNERS],
    ears: [Option<Listener>; OWNERS],
    /// The highest fencing token so far.
    token: u64,
}

impl Run<'_> {
    fn claim(&self, who: usize, what: ClaimKind, depth: u32, lease: Duration) -> Claim {
        let (name, owner) = (Arc::from(&*self.name), self.owners[who]);
        Claim { name, owner, lease, depth, heir_of: None, kind: what, info: None }
    }

    /// What is compared: everything but times and the number of listeners.
    async fn apply(&mut self, step: &Step) -> String {
        match step {
            Step::Acquire { who, what, depth, heir_of } => {
                let heir_of = heir_of.map(|heir| self.owners[heir]);
                let claim = Claim { heir_of, ..self.claim(*who, *what, *depth, LONG) };
                self.acquire(&claim).await
            }
            Step::Release { who, what, depth } => {
                match self.store.release(&self.claim(*who, *what, *depth, LONG)).await {
                    Ok(Released::Freed { .. }) => "freed".to_owned(),
                    Ok(other) => format!("{other:?}"),
                    Err(e) => format!("{:?}", e.kind()),
                }
            }
            Step::Renew { who, what } => {
                let held = self.store.renew(&[self.claim(*who, *what, 1, BRIEF)]).await;
                tokio::time::sleep(OVER).await;
                renewed(held)
            }
            Step::Expire { who, what } => {
                let claim = self.claim(*who, *what, 1, BRIEF);
                let answer = self.acquire(&claim).await;
                tokio::time::sleep(OVER).await;
                answer
            }
            Step::GiveUp { who, what } => {
                kind(self.store.give_up(&self.claim(*who, *what, 0, LONG)).await)
            }
            Step::Listen { who, what } => {
                let claim = self.claim(*who, *what, 1, LONG);
                match self.store.listen(&claim).await {
                    Ok(ear) => self.ears[*who] = Some(ear),
                    Err(e) => return format!("{:?}", e.kind()),
                }
                String::new()
            }
            Step::Deafen { who } => {
                self.ears[*who] = None;
                // A server hears of it a moment later.
                tokio::time::sleep(OVER).await;
                String::new()
            }
            Step::Force { what } => self.seen(self.store.force(*what, &self.name).await),
            Step::Inspect { what } => self.seen(self.store.inspect(*what, &self.name).await),
            Step::Admin { op } => self.admin(op).await,
            Step::AdminOf { who, number, op } => self.admin(&op(self.owners[*who], *number)).await,
        }
    }

    async fn acquire(&mut self, claim: &Claim) -> String {
        match self.store.acquire(claim).await {
            Ok(Attempt::Busy { .. }) => "busy".to_owned(),
            Ok(Attempt::Acquired { token: Some(token), .. }) if token <= self.token => {
                format!("token {token} after {}", self.token)
            }
            Ok(Attempt::Acquired { lease, .. }) if lease < claim.lease => {
                format!("granted {lease:?} of {:?}", claim.lease)
            }
            Ok(Attempt::Acquired { token, .. }) => {
                self.token = token.unwrap_or(self.token);
                format!("acquired, token {}", token.is_some())
            }
            Err(e) => format!("{:?}", e.kind()),
        }
    }

    async fn admin(&self, op: &Admin) -> String {
        match self.store.admin(&self.name, op).await {
            // What is left of a lease differs by how long the steps took.
            Ok(left) if left > 1000 => "more than a second".to_owned(),
            Ok(answer) => answer.to_string(),
            Err(e) => format!("{:?}", e.kind()),
        }
    }

    fn seen(&self, seen: Result<Snapshot>) -> String {
        match seen {
            Ok(seen) => {
                let mut holders: Vec<String> = seen
                    .holders
                    .iter()
                    .map(|h| format!("{} {} {:?}", h.owner, h.depth, h.mode))
                    .collect();
                holders.sort();
                format!("{holders:?} {:?} {:?} {}", seen.queue, seen.count, seen.ttl.is_some())
            }
            Err(e) => format!("{:?}", e.kind()),
        }
    }
}

fn renewed(answers: Vec<Result<Renewed>>) -> String {
    answers.into_iter().map(|answer| kind(answer.map(|renewed| renewed.is_held()))).collect()
}

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(e) => format!("{:?}", e.kind()),
    }
}

/// Draws sequences of `steps` and has every store take them. After each step `invariant` must hold for what a store shows,
/// read as `what`. At the end `clear` is taken by every store, after which no server may have a key left.
pub(super) fn agree(
    steps: impl Strategy<Value = Step>,
    what: ClaimKind,
    invariant: fn(&Snapshot) -> bool,
    clear: &[Step],
) {
    agree_within(LONG, steps, what, invariant, clear);
}

/// The same for steps that leave something which is not over `within` that time: stores take them at different moments, so a
/// sequence counts only as far as it gets before any of it can be over.
pub(super) fn agree_within(
    within: Duration,
    steps: impl Strategy<Value = Step>,
    what: ClaimKind,
    invariant: fn(&Snapshot) -> bool,
    clear: &[Step],
) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let (places, servers, stores) = runtime.block_on(stores());
    let config = Config {
        cases: effort(SEQUENCES, SEQUENCES_IN_TIER_1),
        failure_persistence: None,
        ..Config::default()
    };
    let sequences = proptest::collection::vec(steps, 1..STEPS);
    let compared = Cell::new(0);
    let outcome = TestRunner::new(config).run(&sequences, |steps| {
        runtime.block_on(async {
            let name = format!("sequence:{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let owners: [Owner; OWNERS] = std::array::from_fn(|_| owner());
            let mut runs: Vec<Run<'_>> = stores
                .iter()
                .map(|store| Run {
                    store: &**store,
                    name: name.clone(),
                    owners,
                    ears: Default::default(),
                    token: 0,
                })
                .collect();
            let clocks = Clocks::read();
            for (index, step) in steps.iter().enumerate() {
                let mut answers = Vec::new();
                for run in &mut runs {
                    answers.push(run.apply(step).await);
                    let seen = run.store.inspect(what, &run.name).await;
                    let seen = seen.map_err(|e| TestCaseError::fail(e.to_string()))?;
                    prop_assert!(invariant(&seen), "step {index}, {step:?}: {seen:?}");
                }
                if !clocks.agree_within(within) {
                    break;
                }
                compared.set(compared.get() + 1);
                for answer in &answers[1..] {
                    prop_assert_eq!(&answers[0], answer, "step {}: {:?}", index, step);
                }
            }
            for run in &mut runs {
                run.ears = Default::default();
                for step in clear {
                    run.apply(step).await;
                }
            }
            for server in &servers {
                let mut left = server.keys(&format!("*{name}*")).await;
                // The one thing that outlives a lock: without it, Redisson would count from 1 again.
                left.retain(|key| !key.starts_with("redisson_lock_token:"));
                // Where the time of day was set back, a key that was over is not over now, and nothing removes it until it is again.
                prop_assert!(
                    left.is_empty() || !clocks.agree_within(LONG),
                    "left behind: {left:?}"
                );
            }
            Ok(())
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(compared.get() > 0, "the machine stood still in the first step of every sequence");
    runtime.block_on(async {
        drop(stores);
        drop(servers);
        drop(places);
    });
}

/// The clocks when a sequence began. Servers go by the time of day, memory and files by a clock that is never set.
struct Clocks {
    monotonic: Instant,
    day: SystemTime,
}

impl Clocks {
    /// By how much the two may have come apart. If the time of day is set back by less than this, a brief lease is still over after
    /// `OVER`: a server counts whole milliseconds, so one of 1 ms lasts for less than 3 ms there, and 5 ms - 3 ms are left. A clock that
    /// is made to run faster or slower is no concern: that moves both.
    const APART: Duration = Duration::from_millis(2);

    /// Reads both at one moment: again if the thread was interrupted between them.
    fn read() -> Clocks {
        loop {
            let (monotonic, day) = (Instant::now(), SystemTime::now());
            if monotonic.elapsed() < Duration::from_micros(100) {
                return Clocks { monotonic, day };
            }
        }
    }

    /// Whether less than `limit` has passed, and the same time on both clocks. If not, leases may have ended in one store and not in
    /// another.
    fn agree_within(&self, limit: Duration) -> bool {
        let now = Clocks::read();
        let took = now.monotonic - self.monotonic;
        let day = now.day.duration_since(self.day);
        took < limit && day.is_ok_and(|day| day.abs_diff(took) < Clocks::APART)
    }
}

async fn connect(server: &RealServer) -> Arc<dyn Store> {
    connect_with(&server.url(), Arc::default(), NO_STALL).await.unwrap()
}

/// Memory first, then files, then every server that is installed.
async fn stores() -> (Vec<Box<dyn Any>>, Vec<RealServer>, Vec<Arc<dyn Store>>) {
    #[allow(unused_mut, reason = "not every build has files")]
    let mut places = Vec::<Box<dyn Any>>::new();
    let mut stores: Vec<Arc<dyn Store>> = vec![MemoryStore::new(Arc::new(System))];
    #[cfg(all(feature = "file", target_os = "linux"))]
    {
        let (place, store) = crate::file::passing_store();
        places.push(place);
        stores.push(store);
    }
    let mut servers = vec![RealServer::redis().await];
    match Flavor::Valkey.program() {
        Some(_) => servers.push(RealServer::valkey().await),
        None => eprintln!("SKIPPED: no server for Valkey"),
    }
    for server in &servers {
        stores.push(connect(server).await);
    }
    (places, servers, stores)
}

/// One of the owners.
pub(super) fn anybody() -> std::ops::Range<usize> {
    0..OWNERS
}
