//! The scripts and the pure state machine give the same answers to the same steps.

use std::sync::Arc;
use std::time::Duration;

use super::server::{Server, claim, owner};
use crate::env::System;
use crate::memory::MemoryStore;
use crate::store::{Attempt, Claim, Released, Store};
use crate::{Owner, Result};

const SEQUENCES: u64 = 150;
const STEPS: usize = 40;

/// A step, small enough to be read when it fails.
#[derive(Debug)]
enum Step {
    Acquire {
        who: usize,
        depth: u32,
        heir_of: Option<usize>,
    },
    Release {
        who: usize,
        depth: u32,
    },
    Renew {
        who: usize,
    },
    /// Its time runs out, if this one holds it.
    Expire {
        who: usize,
    },
    Force,
    Inspect,
}

fn draw(random: &mut fastrand::Rng) -> Step {
    let who = random.usize(..3);
    match random.u32(..12) {
        0..=4 => {
            let heir_of = (random.u32(..4) == 0).then(|| random.usize(..3));
            Step::Acquire { who, depth: random.u32(1..4), heir_of }
        }
        5..=7 => Step::Release { who, depth: random.u32(..3) },
        8 => Step::Renew { who },
        9 => Step::Expire { who },
        10 => Step::Force,
        _ => Step::Inspect,
    }
}

/// What is compared: everything but times and the number of listeners.
async fn apply(store: &dyn Store, name: &str, owners: &[Owner; 3], step: &Step) -> String {
    let about = |who: usize, depth| claim(name, owners[who], depth);
    match step {
        Step::Acquire { who, depth, heir_of } => {
            let heir_of = heir_of.map(|heir| owners[heir]);
            let claim = Claim { heir_of, ..about(*who, *depth) };
            match store.acquire(&claim).await {
                Ok(Attempt::Busy { .. }) => "busy".to_owned(),
                other => format!("{other:?}"),
            }
        }
        Step::Release { who, depth } => match store.release(&about(*who, *depth)).await {
            Ok(Released::Freed { .. }) => "freed".to_owned(),
            other => format!("{other:?}"),
        },
        Step::Renew { who } => renewed(store.renew(&[about(*who, 1)]).await),
        Step::Expire { who } => {
            let brief = Claim { lease: Duration::from_millis(1), ..about(*who, 1) };
            let held = renewed(store.renew(&[brief]).await);
            tokio::time::sleep(Duration::from_millis(3)).await;
            held
        }
        Step::Force => format!("{:?}", store.force(name).await.map(|before| before.holders)),
        Step::Inspect => format!("{:?}", store.inspect(name).await.map(|seen| seen.holders)),
    }
}

fn renewed(answers: Vec<Result<bool>>) -> String {
    format!("{answers:?}")
}

#[tokio::test]
async fn every_sequence_of_steps_has_the_same_answers_in_memory_and_on_a_server() {
    let server = Server::start().await;
    let redis = server.store().await;
    let memory = MemoryStore::new(Arc::new(System));
    for seed in 0..SEQUENCES {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("sequence:{seed}");
        let owners = [owner(), owner(), owner()];
        let mut done = Vec::new();
        for _ in 0..STEPS {
            let step = draw(&mut random);
            let there = apply(&*redis, &name, &owners, &step).await;
            let here = apply(&*memory, &name, &owners, &step).await;
            done.push(step);
            assert_eq!(here, there, "seed {seed}, after {done:#?}");
        }
        redis.force(&name).await.unwrap();
        memory.force(&name).await.unwrap();
    }
}
