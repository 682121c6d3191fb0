//! Whatever nodes do, as long as a majority keeps a hold in memory nobody else gets in; and nothing stays behind.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use super::flaky::Mood;
use super::*;
use crate::env::Moment;

const WHO: usize = 3;
/// Long: what is free at the end was released.
const LONG: Duration = Duration::from_secs(3600);
const BRIEF: Duration = Duration::from_millis(400);

#[derive(Clone, Debug)]
enum Step {
    /// These ask at the same time.
    Acquire {
        who: Vec<usize>,
        lease: Duration,
    },
    /// This one asks, leaves after so many polls, and gives back what it may have got.
    Leave {
        who: usize,
        polls: usize,
    },
    Release {
        who: usize,
    },
    Renew {
        who: usize,
    },
    Mood {
        node: usize,
        mood: Mood,
    },
    /// The node loses its memory, if every holder keeps a majority.
    Forget {
        node: usize,
    },
    Wait(Duration),
}

fn steps() -> impl Strategy<Value = Step> {
    let mood = prop_oneof![
        2 => Just(Mood::Well),
        1 => Just(Mood::Down),
        1 => Just(Mood::Mute),
        1 => (1..300_u64).prop_map(|n| Mood::Slow(ms(n))),
        1 => (1..300_u64).prop_map(|n| Mood::Distant(ms(n))),
    ];
    let lease = prop_oneof![3 => Just(LONG), 1 => Just(BRIEF)];
    prop_oneof![
        6 => (prop::collection::vec(0..WHO, 1..=WHO), lease)
            .prop_map(|(who, lease)| Step::Acquire { who, lease }),
        2 => (0..WHO, 0..4_usize).prop_map(|(who, polls)| Step::Leave { who, polls }),
        4 => (0..WHO).prop_map(|who| Step::Release { who }),
        3 => (0..WHO).prop_map(|who| Step::Renew { who }),
        5 => (0..5_usize, mood).prop_map(|(node, mood)| Step::Mood { node, mood }),
        2 => (0..5_usize).prop_map(|node| Step::Forget { node }),
        2 => (1..200_u64).prop_map(|n| Step::Wait(ms(n))),
    ]
}

/// One process.
struct Process {
    quorum: Arc<Quorum>,
    claim: Claim,
    /// Until when it believes that it holds the lock.
    believes: Option<Moment>,
}

struct World {
    scene: Scene,
    processes: Vec<Process>,
}

impl World {
    fn new(nodes: usize) -> World {
        let scene = Scene::new(nodes);
        let process = |_| {
            let (quorum, claim) = (scene.quorum(), scene.claim(LONG));
            Process { quorum, claim, believes: None }
        };
        let processes = (0..WHO).map(process).collect();
        World { scene, processes }
    }

    async fn take(&mut self, step: Step) {
        let nodes = self.scene.nodes.len();
        match step {
            Step::Acquire { who, lease } => {
                let mut who = who;
                who.sort_unstable();
                who.dedup();
                // An owner acquires once, and does not acquire again before it has let go.
                who.retain(|who| self.processes[*who].believes.is_none());
                let mut asking = Vec::new();
                for at in &who {
                    let process = &mut self.processes[*at];
                    process.claim.lease = lease;
                    let (quorum, claim) = (process.quorum.clone(), process.claim.clone());
                    asking.push(tokio::spawn(async move { quorum.acquire(&claim).await }));
                }
                let sent = self.scene.env.now();
                for (at, asking) in who.into_iter().zip(asking) {
                    let answer = asking.await.unwrap();
                    if let Ok(Attempt::Acquired { lease, .. }) = answer {
                        self.processes[at].believes = Some(deadline(sent, lease));
                    } else if answer.is_err() {
                        self.release(at).await; // as the engine does
                    }
                }
            }
            Step::Leave { who, polls } => {
                if self.processes[who].believes.is_none() {
                    let (quorum, claim) = {
                        let process = &self.processes[who];
                        (process.quorum.clone(), process.claim.clone())
                    };
                    drop(distlock_testkit::cancel::poll_times(quorum.acquire(&claim), polls).await);
                    self.release(who).await;
                }
            }
            Step::Release { who } => self.release(who).await,
            Step::Renew { who } => {
                let process = &mut self.processes[who];
                if process.believes.is_some() {
                    let sent = self.scene.env.now();
                    let claims = [process.claim.clone()];
                    match process.quorum.renew(&claims).await.pop().unwrap() {
                        Ok(Renewed::Held { for_ }) => process.believes = Some(deadline(sent, for_)),
                        Ok(Renewed::Gone) => self.release(who).await,
                        Err(_) => {}
                    }
                }
            }
            Step::Mood { node, mood } => self.scene.nodes[node % nodes].be(mood),
            Step::Forget { node } => {
                let node = node % nodes;
                // What is still on its way to a node is no vote that could be kept.
                tokio::time::sleep(Duration::from_secs(2)).await;
                let holders = self.scene.holders().await;
                let without = |owner: &str| {
                    let has = |at: &usize| *at != node && holders[*at].as_deref() == Some(owner);
                    (0..nodes).filter(has).count()
                };
                if self.believers().iter().all(|who| without(who) >= votes::majority(nodes)) {
                    self.scene.nodes[node].forget();
                }
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
        }
        let now = self.scene.env.now();
        for process in &mut self.processes {
            process.believes = process.believes.filter(|until| *until > now);
        }
    }

    async fn release(&mut self, who: usize) {
        let process = &mut self.processes[who];
        process.believes = None;
        let claim = Claim { depth: 0, ..process.claim.clone() };
        let _ = process.quorum.release(&claim).await;
        // An owner is one stay's.
        process.claim = self.scene.claim(LONG);
    }

    fn believers(&self) -> Vec<String> {
        let now = self.scene.env.now();
        let believes = |process: &&Process| process.believes.is_some_and(|until| until > now);
        self.processes.iter().filter(believes).map(|p| p.claim.owner.to_string()).collect()
    }

    /// At most one believes, and a majority knows it.
    async fn check(&self) -> Result<(), TestCaseError> {
        let (believers, holders) = (self.believers(), self.scene.holders().await);
        prop_assert!(believers.len() <= 1, "two are inside: {believers:?}, {holders:?}");
        for believer in &believers {
            let known = holders.iter().flatten().filter(|holder| *holder == believer).count();
            let need = votes::majority(holders.len());
            prop_assert!(known >= need, "{believer} is known to {known} of {holders:?}");
        }
        Ok(())
    }

    /// When all is well again and everybody has let go, nothing is left.
    async fn end(&mut self) -> Result<(), TestCaseError> {
        self.scene.nodes.iter().for_each(|node| node.be(Mood::Well));
        for who in 0..WHO {
            self.release(who).await;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let left = self.scene.holders().await;
        prop_assert!(left.iter().all(Option::is_none), "left behind: {left:?}");
        Ok(())
    }
}

fn deadline(sent: Moment, lease: Duration) -> Moment {
    sent.after(lease).before(config::safety_margin(lease))
}

#[test]
fn one_at_a_time_while_a_majority_remembers_and_nothing_is_left_behind() {
    let cases = std::env::var("DISTLOCK_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(256);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let sequences = (3..=5_usize, prop::collection::vec(steps(), 1..60));
    let outcome = TestRunner::new(config).run(&sequences, |(nodes, steps)| {
        paused(async {
            let mut world = World::new(nodes);
            for (index, step) in steps.iter().enumerate() {
                world.take(step.clone()).await;
                let checked = world.check().await;
                checked.map_err(|e| TestCaseError::fail(format!("step {index}, {step:?}: {e}")))?;
            }
            world.end().await
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
