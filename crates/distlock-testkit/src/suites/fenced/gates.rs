//! Those who check the numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::{ErrorKind, FenceGate};
use tokio::task::JoinSet;

use crate::suites::Ground;

const HOUR: Duration = Duration::from_secs(3600);

/// A holder that slept through the end of its lease writes after its successor has: refused, by a gate in memory and by one
/// in the store.
pub async fn a_paused_holders_late_write_is_refused(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let (gate, kept) = (FenceGate::new(), here.fence_gate(ground.name("gate")));
    let paused = here.fenced(&name).lock().lease(Duration::from_millis(60)).await;
    let paused = paused.expect("it is free");
    gate.admit(paused.token()).expect("nobody newer was here");
    kept.admit(paused.token()).await.expect("nobody newer was here");

    let next = elsewhere.fenced(&name).lock().lease(HOUR).await.expect("the lease ends");
    gate.admit(next.token()).expect("it is the newest");
    elsewhere.fence_gate(ground.name("gate")).admit(next.token()).await.expect("the newest");

    for late in [gate.admit(paused.token()), kept.admit(paused.token()).await] {
        let late = late.expect_err("somebody newer was here");
        assert_eq!(late.kind(), ErrorKind::Lost);
        let text = late.to_string();
        for number in [paused.token(), next.token()] {
            assert!(text.contains(&number.to_string()), "{text}");
        }
    }
    // And its successor still can.
    gate.admit(next.token()).expect("it is the newest");
    kept.admit(next.token()).await.expect("it is the newest");
    drop(paused);
    next.unlock().await.expect("it was held");
    assert!(kept.forget().await.expect("the store answers"));
}

/// A gate in the store is one for all, has nothing to do with the lock of its name, and can be forgotten.
pub async fn a_gate_in_the_store_is_one_for_all(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    let (one, two) = (here.fence_gate(&name), elsewhere.fence_gate(&name));
    assert!(!one.forget().await.expect("the store answers"));
    one.admit(10).await.expect("the first");
    let stale = two.admit(9).await.expect_err("10 was here");
    assert_eq!(stale.kind(), ErrorKind::Lost);
    assert_eq!(stale.lock_name(), Some(&*name));
    two.admit(10).await.expect("the same holder");
    here.fence_gate(ground.name("other")).admit(1).await.expect("another gate");
    assert!(here.fence_gate(ground.name("other")).forget().await.expect("the store answers"));

    let guard = here.fenced(&name).lock().await.expect("the gate is not the lock");
    assert!(here.fenced(&name).force_unlock().await.expect("the store answers"));
    drop(guard);
    assert_eq!(two.admit(9).await.expect_err("10 was here").kind(), ErrorKind::Lost);
    assert!(two.forget().await.expect("the store answers"));
    one.admit(1).await.expect("everything is forgotten");
    assert!(one.forget().await.expect("the store answers"));
    let bad = here.fence_gate("").admit(1).await.expect_err("a gate needs a name");
    assert_eq!(bad.kind(), ErrorKind::InvalidName);
}

/// However many show their tokens at once: what was refused was older than something seen, and nothing gets in that is older
/// than what was let in before it was shown.
pub async fn a_gate_is_exact_under_a_crowd(ground: Ground) {
    let rounds = ground.crowd(150) as u64;
    let (seen, shown) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for task in 0..6_u64 {
        let gate = ground.open().await.fence_gate(ground.name("k"));
        let (seen, shown) = (Arc::clone(&seen), Arc::clone(&shown));
        tasks.spawn(async move {
            for round in 1..=rounds {
                let token = round * 7 % 64 + round * 4 + task;
                let before = seen.load(Ordering::SeqCst);
                shown.fetch_max(token, Ordering::SeqCst);
                match gate.admit(token).await {
                    Ok(()) => {
                        assert!(token >= before, "{token} got in after {before}");
                        seen.fetch_max(token, Ordering::SeqCst);
                    }
                    Err(stale) => {
                        assert_eq!(stale.kind(), ErrorKind::Lost, "{stale}");
                        assert!(token < shown.load(Ordering::SeqCst));
                    }
                }
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    assert_eq!(seen.load(Ordering::SeqCst), shown.load(Ordering::SeqCst));
    let gate = ground.open().await.fence_gate(ground.name("k"));
    assert!(gate.forget().await.expect("the store answers"));
}
