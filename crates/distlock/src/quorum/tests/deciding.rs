//! What the answers come to.

use super::*;

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
        assert_eq!(answer, Attempt::Acquired { token: None, lease: ms(500) });
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
            assert_eq!(answer, ACQUIRED, "{mood:?}");
            let other = scene.quorum().acquire(&scene.claim(LEASE)).await.unwrap();
            assert!(matches!(other, Attempt::Busy { .. }), "{mood:?}: {other:?}");
            assert!(
                quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap().is_held(),
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
            "only 2 of 5 servers agreed, 3 are needed: ",
            "node 0: nobody is there",
            "node 1: granted",
            "node 2: no reply in time",
            "node 3: no lock stands there",
            "node 4: granted",
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
        scene.nodes[4].be(Mood::Slow(ms(40)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), ACQUIRED);
    });
}

/// One that has frozen is not known to be gone until a reply is overdue: it does not keep those who tied for that long.
#[test]
fn a_tie_waits_for_a_frozen_node_no_longer_than_the_others_took_a_few_times_over() {
    paused(async {
        for answers_take in [ms(0), ms(100)] {
            let scene = Scene::new(5);
            let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
            for node in &scene.nodes[..2] {
                node.acquire(&scene.claim(LEASE)).await.unwrap();
            }
            scene.nodes[..4].iter().for_each(|node| node.be(Mood::Distant(answers_take)));
            scene.nodes[4].be(Mood::Slow(LEASE));
            let since = scene.env.now();
            let answer = quorum.acquire(&claim).await.unwrap();
            let took = scene.env.now().since(since);
            assert!(matches!(answer, Attempt::Busy { .. }), "{answer:?}");
            // The tie, what it gives back, and the pause after it.
            assert!(took <= answers_take * 5 + ms(50) + AFTER_A_TIE + ms(5), "{took:?}");
            scene.nodes.iter().for_each(|node| node.be(Mood::Well));
            assert_eq!(scene.known(&claim).await, [false; 5], "something was kept");
        }
    });
}

/// Two near ones of which one is left over from somebody who died: the far one has the say.
#[test]
fn a_node_far_away_breaks_a_tie_as_soon_as_it_is_known_how_far() {
    paused(async {
        for far in [ms(100), ms(250)] {
            let scene = Scene::new(3);
            let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
            scene.nodes[1].acquire(&scene.claim(LEASE)).await.unwrap();
            scene.nodes[2].be(Mood::Distant(far));
            let mut answers = Vec::new();
            for _ in 0..8 {
                answers.push(quorum.acquire(&claim).await.unwrap());
            }
            assert!(answers.contains(&ACQUIRED), "{far:?}: {answers:?}");
            // Known now: the first attempt for any other hold decides.
            let other = Claim { name: "other".into(), ..scene.claim(LEASE) };
            let taken = Claim { name: "other".into(), ..scene.claim(LEASE) };
            scene.nodes[1].acquire(&taken).await.unwrap();
            let answer = quorum.acquire(&other).await.unwrap();
            assert_eq!(answer, ACQUIRED, "{far:?}");
        }
    });
}

/// That a minority does not have it says nothing of a hold: the next renewal may find that a majority has.
#[test]
fn a_reentry_that_nobody_decides_is_no_loss() {
    paused(async {
        let moods =
            [Mood::Down, Mood::Mute, Mood::Taken, Mood::Distant(ms(100)), Mood::Slow(ms(100))];
        for mood in moods {
            let scene = Scene::new(3);
            let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
            quorum.acquire(&claim).await.unwrap();
            scene.nodes[2].forget();
            scene.nodes[1].be(mood);
            let deeper = Claim { depth: 2, ..claim.clone() };
            match (mood, quorum.acquire(&deeper).await) {
                (Mood::Distant(_) | Mood::Slow(_), answer) => {
                    assert_eq!(answer.unwrap(), ACQUIRED, "{mood:?}");
                }
                (_, answer) => {
                    let error = answer.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{mood:?}");
                    assert!(error.is_in_doubt(), "{mood:?}");
                }
            }
            scene.nodes[1].be(Mood::Well);
            assert_eq!(scene.known(&claim).await, [true, true, false], "{mood:?}");
            assert_eq!(quorum.acquire(&deeper).await.unwrap(), ACQUIRED);
            // A majority that does not have it does.
            scene.nodes[1].forget();
            let answer = quorum.acquire(&deeper).await.unwrap();
            assert!(matches!(answer, Attempt::Busy { .. }), "{mood:?}: {answer:?}");
        }
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
        assert_eq!(together, AttemptAll::NotAtomic);
    });
}

#[test]
fn a_majority_grants_the_least_that_any_majority_has() {
    paused(async {
        let scene = Scene::new(3);
        let (quorum, claim) = (scene.quorum(), scene.claim(LEASE));
        let granted = |lease| Attempt::Acquired { token: None, lease };
        scene.nodes[0].be(Mood::Grudging(ms(5_000)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), granted(LEASE)); // the others are a majority
        quorum.release(&Claim { depth: 0, ..claim }).await.unwrap();

        let claim = scene.claim(LEASE);
        scene.nodes[1].be(Mood::Grudging(ms(10_000)));
        assert_eq!(quorum.acquire(&claim).await.unwrap(), granted(ms(10_000)));
        let renewed = quorum.renew(std::slice::from_ref(&claim)).await.remove(0).unwrap();
        assert_eq!(renewed, Renewed::Held { for_: ms(10_000) });
    });
}

#[test]
fn a_majority_can_do_what_each_of_its_nodes_can() {
    paused(async {
        let offered = Scene::new(3).quorum().capabilities();
        assert!(offered.offers(Kind::Redlock) && !offered.offers(Kind::Fair));
        assert!(!offered.passes_on && !offered.answers_at_once);
    });
}
