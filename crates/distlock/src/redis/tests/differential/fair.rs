//! `fair`: besides the answers, the order of the queue and the time of everybody in it are the same everywhere.
//!
//! Time is part of what this kind does, so a sequence counts only as far as it gets within less than the shortest grace;
//! within that, no two stores can differ by having taken their steps at different moments.

use std::collections::{HashMap, HashSet};

use redis::aio::MultiplexedConnection;

use super::*;
use crate::env::{Env, Moment};
use crate::redis::tests::server::patient;
use crate::redis::wire;
use crate::store::machine::fair::GRACE;

/// As far as a sequence counts, and by how much times may differ.
const WITHIN: Duration = Duration::from_millis(700);
const CLOSE: i128 = 750;

const PATIENT: ClaimKind = ClaimKind::Fair { patience: Some(Duration::from_secs(300)) };
const HASTY: ClaimKind = ClaimKind::Fair { patience: Some(BRIEF) };
const ONCE: ClaimKind = ClaimKind::Fair { patience: None };

fn steps() -> impl Strategy<Value = Step> {
    let what = prop_oneof![6 => Just(PATIENT), 2 => Just(HASTY), 2 => Just(ONCE)];
    let depth = prop_oneof![8 => Just(1), 1 => 2..4_u32];
    prop_oneof![
        12 => (anybody(), what, depth, proptest::option::weighted(0.05, anybody())).prop_map(
            |(who, what, depth, heir_of)| Step::Acquire { who, what, depth, heir_of }
        ),
        5 => (anybody(), 0..2_u32)
            .prop_map(|(who, depth)| Step::Release { who, what: PATIENT, depth }),
        1 => anybody().prop_map(|who| Step::Renew { who, what: PATIENT }),
        2 => anybody().prop_map(|who| Step::Expire { who, what: PATIENT }),
        2 => (anybody(), prop_oneof![Just(PATIENT), Just(HASTY), Just(ONCE)])
            .prop_map(|(who, what)| Step::GiveUp { who, what }),
        3 => anybody().prop_map(|who| Step::Listen { who, what: PATIENT }),
        1 => anybody().prop_map(|who| Step::Deafen { who }),
        1 => Just(Step::Force { what: PATIENT }),
        1 => Just(Step::Inspect { what: PATIENT }),
    ]
}

/// Some listen from the start: a queue of the dead is not what is usual.
fn sequences() -> impl Strategy<Value = Vec<Step>> {
    let listen = anybody().prop_map(|who| Step::Listen { who, what: PATIENT });
    let start = proptest::collection::vec(listen, 0..5);
    (start, proptest::collection::vec(steps(), 1..STEPS))
        .prop_map(|(start, rest)| [start, rest].concat())
}

/// A server, and a connection to look at it with.
struct Beside {
    server: RealServer,
    raw: MultiplexedConnection,
}

impl Beside {
    async fn start(flavor: Flavor) -> Beside {
        let server = RealServer::builder(flavor).start().await;
        let client = redis::Client::open(server.url()).unwrap();
        let raw = client.get_multiplexed_async_connection_with_config(&patient()).await;
        Beside { server, raw: raw.unwrap() }
    }

    /// Who waits and how much time each has left, without those at the head whose time is over.
    async fn waiting(&mut self, name: &str) -> Vec<(String, i128)> {
        let (queue, timeouts) = (wire::queue(name).to_string(), wire::timeouts(name).to_string());
        let mut look = redis::pipe();
        look.atomic().cmd("TIME").cmd("LRANGE").arg(queue).arg(0).arg(-1);
        look.cmd("ZRANGE").arg(timeouts).arg(0).arg(-1).arg("WITHSCORES");
        let ((secs, micros), queue, scores): ((i128, i128), Vec<String>, HashMap<String, f64>) =
            look.query_async(&mut self.raw).await.unwrap();
        let now = secs * 1000 + micros / 1000;
        assert_eq!(scores.len(), queue.iter().collect::<HashSet<_>>().len(), "a stray time");
        let left = queue.into_iter().map(|waiter| {
            let left = scores[&waiter] as i128 - now;
            (waiter, left)
        });
        left.skip_while(|(_, left)| *left <= 0).collect()
    }

    /// Until the server knows that nobody listens there.
    async fn unheard(&mut self, name: &str, owner: Owner) {
        let channel = wire::waiter_channel(name, owner);
        loop {
            let mut ask = redis::cmd("PUBSUB");
            let (_, count): (String, u32) =
                ask.arg("NUMSUB").arg(&channel).query_async(&mut self.raw).await.unwrap();
            if count == 0 {
                return;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn waiting(memory: &MemoryStore, name: &str, now: Moment) -> Vec<(String, i128)> {
    let queue = memory.peek(name).map(|entry| entry.queue).unwrap_or_default();
    let left = queue.into_iter().map(|place| {
        let (ahead, behind) = (place.until.since(now), now.since(place.until));
        (place.owner.to_string(), ahead.as_millis() as i128 - behind.as_millis() as i128)
    });
    left.skip_while(|(_, left)| *left <= 0).collect()
}

fn is_close(one: &[(String, i128)], other: &[(String, i128)]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < CLOSE)
}

/// One owner at a time, everybody waits once, and nobody waits for itself.
fn is_sound(seen: &Snapshot) -> bool {
    let mut names: Vec<&str> = seen.holders.iter().map(|holder| &*holder.owner).collect();
    names.extend(seen.queue.iter().map(String::as_str));
    seen.holders.len() <= 1 && names.iter().collect::<HashSet<_>>().len() == names.len()
}

/// One sequence on every store, as far as it gets in time.
async fn sequence(
    name: &str,
    steps: &[Step],
    memory: &MemoryStore,
    stores: &[Arc<dyn Store>],
    servers: &mut [Beside],
) -> std::result::Result<(), TestCaseError> {
    let owners: [Owner; OWNERS] = std::array::from_fn(|_| owner());
    let run =
        |store| Run { store, name: name.to_owned(), owners, ears: Default::default(), token: 0 };
    let mut runs: Vec<Run<'_>> = vec![run(memory)];
    runs.extend(stores.iter().map(|store| run(&**store)));
    let clocks = Clocks::read();
    for (index, step) in steps.iter().enumerate() {
        let before = memory.inspect(PATIENT, name).await.unwrap();
        let mut answers = Vec::new();
        for run in &mut runs {
            answers.push(run.apply(step).await);
        }
        match step {
            Step::Deafen { who } => {
                for server in &mut *servers {
                    server.unheard(name, owners[*who]).await;
                }
            }
            Step::Acquire { what: HASTY, .. } => tokio::time::sleep(OVER).await,
            _ => {}
        }
        let ours = waiting(memory, name, System.now());
        let mut theirs = Vec::new();
        for server in &mut *servers {
            theirs.push(server.waiting(name).await);
        }
        let mut seen = Vec::new();
        for run in &runs {
            seen.push(run.store.inspect(PATIENT, name).await.unwrap());
        }
        if !clocks.agree_within(WITHIN) {
            break;
        }
        for answer in &answers[1..] {
            prop_assert_eq!(&answers[0], answer, "step {}: {:?}", index, step);
        }
        for theirs in &theirs {
            prop_assert!(is_close(&ours, theirs), "step {index}, {step:?}: {ours:?}, {theirs:?}");
        }
        for seen in &seen {
            prop_assert!(is_sound(seen), "step {index}, {step:?}: {seen:?}");
        }
        if let Step::Acquire { who, depth: 1, heir_of: None, .. } = step
            && answers[0].starts_with("acquired")
            && !before.is_held()
        {
            let turn = before.queue.first().is_none_or(|first| *first == owners[*who].to_string());
            prop_assert!(turn, "step {index}, {step:?}: before {before:?}");
        }
    }
    for run in &mut runs {
        run.ears = Default::default();
        run.apply(&Step::Force { what: PATIENT }).await;
        for who in anybody() {
            run.apply(&Step::GiveUp { who, what: PATIENT }).await;
        }
    }
    for server in servers {
        let left = server.server.keys(&format!("*{name}*")).await;
        prop_assert!(left.is_empty() || !clocks.agree_within(LONG), "left behind: {left:?}");
    }
    prop_assert!(memory.peek(name).is_none());
    Ok(())
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_fair_lock_is_the_same_everywhere() {
    const { assert!(WITHIN.as_millis() < GRACE.as_millis()) };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build().unwrap();
    let memory = MemoryStore::new(Arc::new(System));
    let (mut servers, mut stores): (Vec<Beside>, Vec<Arc<dyn Store>>) = Default::default();
    runtime.block_on(async {
        for flavor in Flavor::installed() {
            let beside = Beside::start(flavor).await;
            stores.push(connect(&beside.server).await);
            servers.push(beside);
        }
    });
    let config = Config { cases: SEQUENCES, failure_persistence: None, ..Config::default() };
    let (servers, next) = (std::cell::RefCell::new(servers), AtomicU32::new(0));
    let outcome = TestRunner::new(config).run(&sequences(), |steps| {
        let name = format!("fair:{}", next.fetch_add(1, Ordering::Relaxed));
        let servers = &mut *servers.borrow_mut();
        runtime.block_on(sequence(&name, &steps, &memory, &stores, servers))
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    runtime.block_on(async {
        drop(stores);
        drop(servers);
    });
}
