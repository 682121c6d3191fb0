//! A hold that a majority has comes to stand at every node.

use super::*;

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
            assert!(quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap().is_held());
            tokio::time::sleep(ms(500)).await;
            assert_eq!(scene.known(&claim).await, [true; 3], "{mood:?}");
            // And what heals does not outlive the release.
            scene.nodes[1].forget();
            assert!(quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap().is_held());
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
        assert!(!quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap().is_held());
        tokio::time::sleep(ms(100)).await;
        assert_eq!(scene.known(&claim).await, [false, true, false]);
    });
}

/// A bare majority is soon a full one, so that it survives the next failure.
#[test]
fn a_node_that_was_busy_for_a_moment_gets_the_hold_as_well() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim, other) = (scene.quorum(), scene.claim(LEASE), scene.claim(LEASE));
        scene.nodes[1].acquire(&other).await.unwrap();
        assert_eq!(quorum.acquire(&claim).await.unwrap(), ACQUIRED);
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
