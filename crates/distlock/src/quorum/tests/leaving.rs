//! What is released is released everywhere, also where nobody answered, and is heard of.

use super::*;
use crate::locks::Locks;

#[test]
fn an_acquisition_that_straggles_does_not_outlive_the_release() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        scene.nodes[2].be(Mood::Slow(ms(500)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), ACQUIRED);
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

/// An attempt that was withdrawn leaves a release on its way at a slow node. If that comes to nothing, the next attempt, which stands
/// behind it in the line, must not pay for it.
#[test]
fn a_release_that_ends_unsaid_does_not_take_the_vote_of_the_attempt_behind_it() {
    paused(async {
        let scene = Scene::new(1);
        let claim = scene.claim(LEASE);
        let node = Node::new(scene.nodes[0].clone(), "there".into(), Arc::new(scene.env.clone()));
        let withdrawn = node.release(&freed(&claim));
        let next = node.acquire(&claim);
        drop(withdrawn);
        assert_eq!(next.await.answer.unwrap(), ACQUIRED);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(scene.known(&claim).await, [true], "a release of the time before came after it");
        assert!(node.is_settled());
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

/// Whoever is next in the same process gets votes of its own: those of the one before may be a bare majority.
#[test]
fn the_next_of_the_same_process_stands_on_every_node_and_not_only_where_the_one_before_stood() {
    paused(async {
        let scene = Scene::new(5);
        let other = scene.claim(LEASE);
        for node in &scene.nodes[3..] {
            node.acquire(&other).await.unwrap();
        }
        let builder = Locks::builder().store(scene.quorum()).env(scene.env.clone());
        let locks = builder.connect().await.unwrap();
        let first = locks.mutex("k").lock().await.unwrap();
        let next = tokio::spawn(locks.mutex("k").lock().into_future());
        while locks.mutex("k").waiting() == 0 {
            tokio::task::yield_now().await;
        }
        for node in &scene.nodes[3..] {
            node.release(&freed(&other)).await.unwrap();
        }
        first.unlock().await.unwrap();
        let next = next.await.unwrap().unwrap();
        let holders = scene.holders().await;
        assert!(holders[0].is_some() && holders.iter().all(|it| *it == holders[0]), "{holders:?}");

        // So one of those that the one before stood on may be gone.
        scene.nodes[0].be(Mood::Down);
        next.unlock().await.unwrap();
        locks.mutex("k").lock().await.unwrap().unlock().await.unwrap();
        scene.nodes[0].be(Mood::Well);
        locks.close().await;
        tokio::time::sleep(LEASE / 100).await;
        assert_eq!(scene.holders().await, [const { None }; 5]);
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
