//! A majority of stores in memory, some of which fail.

mod flaky;
mod property;

use std::future::Future;

use uuid::Uuid;

use super::*;
use crate::env::Virtual;
use crate::owner::Owner;
use crate::store::Together;
use flaky::{Flaky, Mood};

const LEASE: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// In virtual time.
fn paused<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// Some nodes, for any number of processes.
struct Scene {
    env: Arc<dyn Env>,
    nodes: Vec<Arc<Flaky>>,
}

impl Scene {
    fn new(nodes: usize) -> Scene {
        let env: Arc<dyn Env> = Arc::new(Virtual::new());
        let nodes = (0..nodes).map(|_| Flaky::new(&env)).collect();
        Scene { env, nodes }
    }

    /// One more process.
    fn quorum(&self) -> Arc<Quorum> {
        let node = |(at, store): (usize, &Arc<Flaky>)| {
            Node::new(store.clone(), Arc::from(format!("node {at}")), self.env.clone())
        };
        let nodes = self.nodes.iter().enumerate().map(node).collect();
        Quorum::new(nodes, self.env.clone())
    }

    /// One more owner.
    fn claim(&self, lease: Duration) -> Claim {
        let owner = Owner::mint(Uuid::new_v4());
        Claim { name: "k".into(), owner, lease, depth: 1, heir_of: None, what: What::Exclusive }
    }

    /// Who stands where.
    async fn holders(&self) -> Vec<Option<String>> {
        let mut holders = Vec::new();
        for node in &self.nodes {
            holders.push(node.holder("k").await);
        }
        holders
    }

    async fn known(&self, claim: &Claim) -> Vec<bool> {
        let owner = claim.owner.to_string();
        self.holders().await.iter().map(|holder| holder.as_ref() == Some(&owner)).collect()
    }
}

fn freed(claim: &Claim) -> Claim {
    Claim { depth: 0, ..claim.clone() }
}

/// redlock-py#3, redsync#37, RedLock.net#34, node-redlock#17.
#[test]
fn validity_is_the_lease_less_what_has_passed_and_what_clocks_may_differ_by() {
    assert_eq!(validity(ms(10_000), ms(0)), Some(ms(10_000 - 100 - 2)));
    assert_eq!(validity(ms(10_000), ms(3000)), Some(ms(7000 - 100 - 2)));
    assert_eq!(validity(ms(10_000), ms(9898)), None);
    assert_eq!(validity(ms(10_000), ms(9897)), Some(ms(1)));
    assert_eq!(validity(ms(10_000), ms(20_000)), None);
    assert_eq!(validity(ms(1), ms(0)), Some(Duration::from_micros(500)));
    assert_eq!(validity(ms(1), ms(1)), None);
    // Never longer than the lease, never later when more has passed, and the margin grows with the lease.
    for lease in [1, 2, 3, 10, 100, 999, 30_000, 3_600_000] {
        let mut before = ms(lease);
        for elapsed in (0..=lease).step_by((lease as usize / 20).max(1)) {
            let left = validity(ms(lease), ms(elapsed)).unwrap_or_default();
            assert!(left < before, "{lease} {elapsed}: {left:?} after {before:?}");
            assert!(left + ms(elapsed) + ms(lease) / 100 <= ms(lease) || left.is_zero());
            before = left.max(Duration::from_nanos(1));
        }
        assert_eq!(validity(ms(lease), ms(lease)), None);
    }
    assert!(validity(config::LONGEST, ms(5)).is_some());
}

#[test]
fn a_majority_whose_answers_took_as_long_as_the_lease_gives_nothing() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(ms(500)));
        scene.nodes.iter().for_each(|node| node.be(Mood::Distant(ms(499))));
        let answer = quorum.acquire(&claim).await.unwrap();
        assert!(matches!(answer, Attempt::Busy { .. }), "{answer:?}");
        scene.nodes.iter().for_each(|node| node.be(Mood::Distant(ms(480))));
        let answer = quorum.acquire(&claim).await.unwrap();
        assert_eq!(answer, Attempt::Acquired { token: None });
    });
}

#[test]
fn a_minority_that_fails_does_not_matter() {
    for mood in [Mood::Down, Mood::Mute, Mood::Taken, Mood::Slow(LEASE)] {
        paused(async {
            let scene = Scene::new(5);
            let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
            scene.nodes[1].be(mood);
            scene.nodes[4].be(mood);
            let since = scene.env.now();
            let answer = quorum.acquire(&claim).await.unwrap();
            assert_eq!(answer, Attempt::Acquired { token: None }, "{mood:?}");
            let other = scene.quorum().acquire(&scene.claim(LEASE)).await.unwrap();
            assert!(matches!(other, Attempt::Busy { .. }), "{mood:?}: {other:?}");
            assert!(
                quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap(),
                "{mood:?}"
            );
            assert_eq!(scene.env.now().since(since), ms(0), "{mood:?}: somebody waited for them");
            let released = quorum.release(&freed(&claim)).await.unwrap();
            assert_eq!(released, Released::Freed { heard_by: 0 }, "{mood:?}");
        });
    }
}

#[test]
fn too_few_is_an_error_that_says_what_each_of_them_said() {
    paused(async {
        let scene = Scene::new(5);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        scene.nodes[0].be(Mood::Down);
        scene.nodes[2].be(Mood::Mute);
        scene.nodes[3].be(Mood::Taken);
        let error = quorum.acquire(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
        let text = error.to_string();
        for said in [
            "3 of 5",
            "node 0: nobody is there",
            "node 1: gave it",
            "node 2: no reply in time",
            "node 3: no lock stands there",
            "node 4: gave it",
        ] {
            assert!(text.contains(said), "{said:?} is not in {text:?}");
        }
        // Nothing stays, but for where nobody can be told.
        scene.nodes.iter().for_each(|node| node.be(Mood::Well));
        tokio::time::sleep(ms(100)).await;
        assert_eq!(scene.holders().await, [const { None }; 5]);

        // If too many say no for good, asking again is no use.
        scene.nodes[..3].iter().for_each(|node| node.be(Mood::Taken));
        assert_eq!(quorum.acquire(&claim).await.unwrap_err().kind(), ErrorKind::Conflict);
    });
}

#[test]
fn an_acquisition_that_straggles_does_not_outlive_the_release() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        scene.nodes[2].be(Mood::Slow(ms(500)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), Attempt::Acquired { token: None });
        scene.nodes[2].be(Mood::Well); // what comes now is faster
        quorum.release(&freed(&claim)).await.unwrap();
        assert_eq!(scene.holders().await, [const { None }; 3]);
        tokio::time::sleep(ms(600)).await;
        assert_eq!(scene.holders().await, [const { None }; 3], "it came too late and stayed");
    });
}

#[test]
fn a_release_does_not_reach_into_the_next_acquisition_of_the_same_owner() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        quorum.acquire(&claim).await.unwrap();
        scene.nodes[2].be(Mood::Slow(ms(500)));
        quorum.release(&freed(&claim)).await.unwrap(); // still on its way to the last one
        scene.nodes[2].be(Mood::Well);
        quorum.acquire(&claim).await.unwrap();
        tokio::time::sleep(ms(600)).await;
        assert_eq!(scene.known(&claim).await, [true; 3]);

        // The same when the release got no answer, and is told again and again.
        scene.nodes[2].be(Mood::Down);
        quorum.release(&freed(&claim)).await.unwrap();
        tokio::time::sleep(ms(50)).await;
        quorum.acquire(&claim).await.unwrap();
        scene.nodes[2].be(Mood::Well);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(scene.known(&claim).await[..2], [true; 2]);
    });
}

#[test]
fn a_node_that_was_away_is_told_of_the_release_when_it_is_back() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        quorum.acquire(&claim).await.unwrap();
        scene.nodes[0].be(Mood::Down);
        quorum.release(&freed(&claim)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(scene.known(&claim).await, [true, false, false]);
        scene.nodes[0].be(Mood::Well);
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scene.known(&claim).await, [false; 3]);
    });
}

/// Whoever has left need not be waited for by the next.
#[test]
fn giving_up_ends_also_when_nobody_can_be_told_and_they_are_told_later() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        quorum.acquire(&claim).await.unwrap();
        scene.nodes.iter().for_each(|node| node.be(Mood::Down));
        quorum.give_up(&freed(&claim)).await.unwrap();
        assert_eq!(scene.known(&claim).await, [true; 3]);
        scene.nodes.iter().for_each(|node| node.be(Mood::Well));
        quorum.settle().await;
        assert_eq!(scene.known(&claim).await, [false; 3]);
    });
}

/// redsync#147, redsync#149.
#[test]
fn a_node_that_lost_its_memory_gets_the_hold_back_with_the_next_renewal() {
    // Also one that answers after the majority has decided.
    for mood in [Mood::Well, Mood::Distant(ms(200)), Mood::Slow(ms(200))] {
        paused(async {
            let scene = Scene::new(3);
            let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
            quorum.acquire(&claim).await.unwrap();
            scene.nodes[1].forget();
            scene.nodes[1].be(mood);
            let other = scene.quorum().acquire(&scene.claim(LEASE)).await.unwrap();
            assert!(matches!(other, Attempt::Busy { .. }), "{other:?}");
            tokio::time::sleep(ms(500)).await;
            assert_eq!(scene.known(&claim).await, [true, false, true]);
            assert!(quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap());
            tokio::time::sleep(ms(500)).await;
            assert_eq!(scene.known(&claim).await, [true; 3], "{mood:?}");
            // And what heals does not outlive the release.
            scene.nodes[1].forget();
            assert!(quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap());
            quorum.release(&freed(&claim)).await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(scene.holders().await, [const { None }; 3], "{mood:?}");
        });
    }
}

#[test]
fn a_hold_that_a_majority_has_lost_is_lost_and_not_healed() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        quorum.acquire(&claim).await.unwrap();
        scene.nodes[0].forget();
        scene.nodes[2].forget();
        assert!(!quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap());
        tokio::time::sleep(ms(100)).await;
        assert_eq!(scene.known(&claim).await, [false, true, false]);
    });
}

#[test]
fn a_hand_over_leaves_nothing_of_the_one_before() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, first) = (scene.quorum(), scene.claim(LEASE));
        quorum.acquire(&first).await.unwrap();
        let heir = Claim { heir_of: Some(first.owner), ..scene.claim(LEASE) };
        scene.nodes[2].be(Mood::Down);
        assert_eq!(quorum.acquire(&heir).await.unwrap(), Attempt::Acquired { token: None });
        assert_eq!(scene.known(&first).await, [false, false, true]);
        scene.nodes[2].be(Mood::Well);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(scene.known(&first).await, [false; 3]);
        assert_eq!(scene.known(&heir).await, [true, true, false]);
        assert!(quorum.renew(std::slice::from_ref(&heir)).await.remove(0).unwrap());
        tokio::time::sleep(ms(1)).await;
        assert_eq!(scene.known(&heir).await, [true; 3]);
    });
}

#[test]
fn a_release_is_heard_of_from_any_node_also_from_one_that_came_late() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        scene.nodes[2].be(Mood::Slow(ms(300)));
        let since = scene.env.now();
        let mut ear = quorum.listen(&claim).await.unwrap();
        assert_eq!(scene.env.now().since(since), ms(0), "somebody waited for the slow one");
        tokio::time::sleep(ms(400)).await;
        // Now it is the only one that can tell.
        scene.nodes[2].be(Mood::Well);
        scene.nodes[2].acquire(&claim).await.unwrap();
        scene.nodes[2].release(&freed(&claim)).await.unwrap();
        let heard = tokio::time::timeout(ms(100), ear.heard()).await;
        assert!(heard.is_ok());
        drop(ear);
        tokio::time::sleep(ms(1)).await;
        scene.nodes[2].acquire(&claim).await.unwrap();
        let freed = scene.nodes[2].release(&freed(&claim)).await.unwrap();
        assert_eq!(freed, Released::Freed { heard_by: 0 }, "somebody still listens");

        scene.nodes.iter().for_each(|node| node.be(Mood::Down));
        let error = quorum.listen(&claim).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum);
    });
}

#[test]
fn the_wait_is_for_a_majority_and_not_for_the_first_node() {
    paused(async {
        let scene = Scene::new(5);
        for (at, node) in scene.nodes.iter().enumerate() {
            let claim = scene.claim(Duration::from_secs(10 * (at as u64 + 1)));
            node.acquire(&claim).await.unwrap();
        }
        let answer = scene.quorum().acquire(&scene.claim(LEASE)).await.unwrap();
        assert_eq!(answer, Attempt::Busy { ttl: Duration::from_secs(30) });
    });
}

/// A bare majority is soon a full one, so that it survives the next failure.
#[test]
fn a_node_that_was_busy_for_a_moment_gets_the_hold_as_well() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim, other) = (scene.quorum(), scene.claim(LEASE), scene.claim(LEASE));
        scene.nodes[1].acquire(&other).await.unwrap();
        assert_eq!(quorum.acquire(&claim).await.unwrap(), Attempt::Acquired { token: None });
        tokio::time::sleep(ms(20)).await;
        assert_eq!(scene.known(&claim).await, [true, false, true]);
        scene.nodes[1].release(&freed(&other)).await.unwrap();
        tokio::time::sleep(ms(100)).await;
        assert_eq!(scene.known(&claim).await, [true; 3]);
        quorum.release(&freed(&claim)).await.unwrap();
        assert_eq!(scene.holders().await, [const { None }; 3]);

        // It does not outlive the release, and nothing waits for it.
        scene.nodes[1].acquire(&other).await.unwrap();
        quorum.acquire(&claim).await.unwrap();
        let since = scene.env.now();
        quorum.release(&freed(&claim)).await.unwrap();
        assert_eq!(scene.env.now().since(since), ms(0));
        scene.nodes[1].release(&freed(&other)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(scene.holders().await, [const { None }; 3]);
    });
}

/// Who ties does not wait for a node that is known to be gone, with its part in hand.
#[test]
fn a_tie_is_over_when_all_that_can_be_expected_to_answer_have() {
    paused(async {
        let scene = Scene::new(5);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        for node in &scene.nodes[..2] {
            node.acquire(&scene.claim(LEASE)).await.unwrap();
        }
        let long = Duration::from_secs(5);
        scene.nodes[4].be(Mood::Down);
        quorum.acquire(&claim).await.unwrap();
        scene.nodes[4].be(Mood::Slow(long)); // still not there
        for _ in 0..3 {
            let since = scene.env.now();
            let answer = quorum.acquire(&claim).await.unwrap();
            assert!(matches!(answer, Attempt::Busy { .. }), "{answer:?}");
            assert!(scene.env.now().since(since) <= AFTER_A_TIE + ms(1), "it waited for the fifth");
        }
        // One that is only slow is waited for, and decides.
        scene.nodes[4].be(Mood::Well);
        tokio::time::sleep(long * 3).await;
        scene.nodes[4].be(Mood::Slow(ms(200)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), Attempt::Acquired { token: None });
    });
}

/// Two of four can never be outvoted, whatever the others say.
#[test]
fn half_of_the_nodes_busy_is_busy_and_no_outage() {
    paused(async {
        for mood in [Mood::Down, Mood::Well, Mood::Slow(ms(300))] {
            let scene = Scene::new(4);
            scene.nodes[2..].iter().for_each(|node| node.be(mood));
            for node in &scene.nodes[..2] {
                node.acquire(&scene.claim(LEASE)).await.unwrap();
            }
            let answer = scene.quorum().acquire(&scene.claim(LEASE)).await.unwrap();
            assert!(matches!(answer, Attempt::Busy { .. }), "{mood:?}: {answer:?}");
        }
    });
}

#[test]
fn several_locks_of_a_majority_are_asked_for_one_by_one() {
    paused(async {
        let scene = Scene::new(3);
        let together = scene.quorum().acquire_all(&[scene.claim(LEASE)]).await.unwrap();
        assert_eq!(together, Together::Apart);
    });
}
