//! Members of other kinds.

use distlock::{Member, MultiLock};

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
    ]
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
}
