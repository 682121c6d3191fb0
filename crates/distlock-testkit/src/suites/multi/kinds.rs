//! Members of other kinds.

use std::future::IntoFuture;

use distlock::{ErrorKind, LeasedSemaphore, Member, MultiLock};

use super::{Field, HOUR, Process};
use crate::suites::eventually;

/// One member of each kind that can be one.
fn one_of_each(process: &Process) -> Vec<(&'static str, Member)> {
    let last = process.store(process.names.len() - 1);
    let name = |kind: &str| format!("{}:{kind}", process.name(0));
    vec![
        ("mutex", process.member(0).into()),
        ("fenced", last.fenced(name("fenced")).into()),
        ("simple", process.store(0).simple(name("simple")).into()),
        ("spin", last.spin(name("spin")).into()),
        ("fair", last.fair(name("fair")).into()),
        ("rw", process.store(0).rw(name("rw")).writer()),
        ("leased_semaphore", leased(process).permits(2)),
    ]
}

/// Two permits, at the last store.
fn leased(process: &Process) -> LeasedSemaphore {
    let last = process.store(process.names.len() - 1);
    last.leased_semaphore(format!("{}:leased", process.name(0))).with_permits(2)
}

/// All or none over any kinds: each of them can be the one that is in the way.
pub async fn members_may_be_of_any_kind(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let all = |process: &Process| MultiLock::new(one_of_each(process).into_iter().map(|(_, m)| m));
    let only = |process: &Process, kind: &str| {
        let chosen = one_of_each(process).into_iter().filter(|(of, _)| *of == kind);
        MultiLock::new(chosen.map(|(_, member)| member))
    };
    let guard = all(&here).lock().lease(HOUR).await.expect("all are free");
    assert_eq!(guard.guards().len(), one_of_each(&here).len());
    let first = guard.token().expect("one is fenced");
    for (kind, _) in one_of_each(&here) {
        let refused = only(&elsewhere, kind).try_lock().await.expect("the stores answer");
        assert!(refused.is_none(), "the {kind} was given away");
    }
    guard.unlock().await.expect("all were held");

    for (busy, _) in one_of_each(&here) {
        let held = only(&elsewhere, busy).lock().lease(HOUR).await.expect("it is free");
        let refused = all(&here).try_lock().await.expect("the stores answer");
        assert!(refused.is_none(), "all were given although the {busy} is held");
        for (kind, _) in one_of_each(&here).into_iter().filter(|(kind, _)| *kind != busy) {
            let free = || async {
                let one = only(&elsewhere, kind).try_lock().await.expect("the stores answer");
                match one {
                    Some(guard) => guard.unlock().await.is_ok(),
                    None => false,
                }
            };
            eventually(&format!("the {kind} is free although the {busy} is held"), free).await;
        }
        held.unlock().await.expect("it was held");
    }
    let again = all(&elsewhere).try_lock().await.expect("the stores answer");
    let again = again.expect("all are free");
    assert!(again.token().expect("one is fenced") > first);
    again.unlock().await.expect("all were held");
    let plain = here.all().lock().await.expect("all are free");
    assert_eq!(plain.token(), None);
    plain.unlock().await.expect("all were held");
    assert!(leased(&here).delete().await.expect("the store answers"));
}

/// Readers share, and so do those who leave each other enough permits; whoever wants more than is left gets nothing at all.
pub async fn members_that_can_be_shared_are_shared(field: Field) {
    let (here, elsewhere) = (field.process().await, field.process().await);
    let name = |kind: &str| format!("{}:{kind}", here.name(0));
    let last = field.size() - 1;
    let parts = |process: &Process, at: usize, writes: bool, permits: u32| {
        let rw = process.store(last).rw(name("rw"));
        MultiLock::new([
            if writes { rw.writer() } else { rw.reader() },
            process.store(0).semaphore(name("semaphore")).with_permits(3).permits(permits),
            process.member(at).into(),
        ])
    };
    let semaphore = here.store(0).semaphore(name("semaphore"));
    let first = parts(&here, 0, false, 2).lock().await.expect("all are free");
    let second = parts(&elsewhere, 1, false, 1).try_lock().await.expect("the stores answer");
    let second = second.expect("they can be inside together");
    assert_eq!(semaphore.available().await.expect("the store answers"), 0);
    second.unlock().await.expect("all were held");

    for (writes, permits) in [(true, 1), (false, 2)] {
        let refused = parts(&elsewhere, 1, writes, permits).try_lock().await;
        assert!(refused.expect("the stores answer").is_none(), "{writes} {permits}");
        // Nothing was kept of what it could have.
        let all_back = || async {
            semaphore.available().await.expect("the store answers") == 1
                && !here.member(1).is_locked().await.expect("the store answers")
        };
        eventually("what was had is given back", all_back).await;
    }
    let waiting = tokio::spawn(parts(&elsewhere, 1, true, 3).lock().into_future());
    first.unlock().await.expect("all were held");
    let all = waiting.await.expect("no panic").expect("all get free");
    assert_eq!(semaphore.available().await.expect("the store answers"), 0);
    all.unlock().await.expect("all were held");
    assert_eq!(semaphore.available().await.expect("the store answers"), 3);
    assert!(semaphore.delete().await.expect("the store answers"));
}

/// A lock that is named twice counts once, whoever writes may read besides, and permits add up.
pub async fn members_named_twice_are_no_trap(field: Field) {
    let here = field.process().await;
    let rw = here.store(0).rw(here.name(0));
    let semaphore = here.store(0).semaphore(format!("{}:semaphore", here.name(0))).with_permits(4);
    let members = [
        rw.reader(),
        semaphore.permits(1),
        rw.writer(),
        rw.reader(),
        rw.writer(),
        semaphore.permits(2),
    ];
    let guard = MultiLock::new(members).lock().await.expect("all are free");
    assert_eq!(semaphore.available().await.expect("the store answers"), 1);
    assert!(rw.try_read().await.expect("the store answers").is_none());
    guard.unlock().await.expect("all were held");
    assert_eq!(semaphore.available().await.expect("the store answers"), 4);
    rw.try_write().await.expect("the store answers").expect("free").unlock().await.expect("held");
    let error = MultiLock::new([rw.writer(), semaphore.permits(0)]).lock().await;
    assert_eq!(error.expect_err("there is nothing to take").kind(), ErrorKind::Config);
    assert!(semaphore.delete().await.expect("the store answers"));
}
