//! What can be asked.

use super::{HOUR, ms};
use crate::suites::{Ground, Recorder};

/// Redisson: testIsLocked, testIsLockedOtherThread.
pub async fn everybody_sees_that_it_is_locked(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let name = ground.name("k");
    for _ in 0..2 {
        assert!(!here.mutex(&name).is_locked().await.expect("the store answers"));
        assert!(!elsewhere.mutex(&name).is_locked().await.expect("the store answers"));
        let guard = here.mutex(&name).lock().await.expect("it is free");
        assert!(here.mutex(&name).is_locked().await.expect("the store answers"));
        assert!(elsewhere.mutex(&name).is_locked().await.expect("the store answers"));
        guard.unlock().await.expect("it was held");
    }
}

/// Asking does not change anything, and does not make anything.
pub async fn questions_leave_no_trace(ground: Ground) {
    let locks = ground.open().await;
    let mutex = locks.mutex(ground.name("k"));
    let me = locks.owner();
    assert!(!mutex.is_locked().await.expect("the store answers"));
    assert_eq!(mutex.hold_count(&me).await.expect("the store answers"), 0);
    assert_eq!(mutex.ttl().await.expect("the store answers"), None);
    assert!(!mutex.inspect().await.expect("the store answers").is_held());
    assert!(!mutex.force_unlock().await.expect("the store answers"));
    ground.assert_clean().await;
}

/// A list has what is held and nothing else, by prefix and sorted.
pub async fn a_list_has_what_is_held(ground: Ground) {
    let (here, elsewhere) = (ground.open().await, ground.open().await);
    let mut guards = Vec::new();
    for name in ["b:2", "a:1", "b:1", "b*", "c"] {
        guards.push(here.mutex(ground.name(name)).lock().lease(HOUR).await.expect("it is free"));
    }
    drop(guards.pop());
    here.mutex(ground.name("c")).is_locked().await.expect("the store answers"); // after the drop
    let names = async |prefix: &str| -> Vec<String> {
        let all = elsewhere.list(&ground.name(prefix)).await.expect("the store answers");
        all.iter().map(|one| one.name.replace(ground.prefix(), "")).collect()
    };
    assert_eq!(names("").await, ["a:1", "b*", "b:1", "b:2"]);
    assert_eq!(names("b:").await, ["b:1", "b:2"]);
    assert_eq!(names("b*").await, ["b*"]);
    assert_eq!(names("zz").await, [""; 0]);
    let one = elsewhere.list(&ground.name("a")).await.expect("the store answers").remove(0);
    assert_eq!(one.depth_of(guards[1].stay()), 1);
    assert!(one.ttl.expect("it is held") > HOUR / 2);
}

/// A prefix is part of the name as others see it.
pub async fn a_prefix_is_part_of_the_name(ground: Ground) {
    let prefix = ground.name("app:");
    let builder = ground.builder().prefix(&prefix);
    let prefixed = builder.connect().await.expect("the store can be opened");
    let plain = ground.open().await;
    let guard = prefixed.mutex("k").lock().await.expect("it is free");
    assert_eq!(guard.name(), ground.name("app:k"));
    assert_eq!(prefixed.mutex("k").name(), ground.name("app:k"));
    assert!(plain.mutex(ground.name("app:k")).is_locked().await.expect("the store answers"));
    assert!(!plain.mutex(ground.name("k")).is_locked().await.expect("the store answers"));
    let beside = plain.mutex(ground.name("k")).lock().await.expect("another name");
    let listed = prefixed.list("").await.expect("the store answers");
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(*listed[0].name, *guard.name());
    beside.unlock().await.expect("it was held");
    guard.unlock().await.expect("it was held");
}

/// Observers are told what happened, in order.
pub async fn observers_see_what_happens(ground: Ground) {
    let (here, there) = (Recorder::new(), Recorder::new());
    let open = async |seen: &std::sync::Arc<Recorder>| {
        ground.builder().observer(seen.clone()).connect().await.expect("the store can be opened")
    };
    let (one, two) = (open(&here).await, open(&there).await);
    let name = ground.name("k");
    let guard = one.mutex(&name).lock().await.expect("it is free");
    assert_eq!(here.words(&name), ["attempted", "acquired"]);
    assert_eq!(here.accounts(&name), ["asked", "attempted", "entered", "acquired", "acquired"]);
    assert!(two.mutex(&name).try_lock().wait(ms(40)).await.expect("the store answers").is_none());
    let words = there.words(&name);
    assert_eq!(words.last(), Some(&"gave up"));
    assert_eq!(there.accounts(&name).last(), Some(&"timeout"));
    assert!(words[..words.len() - 1].iter().all(|word| *word == "attempted"), "{words:?}");
    // Answered behind whatever the wait that ran out still asked for: that can get nothing any more.
    assert!(two.mutex(&name).is_locked().await.expect("the store answers"));
    guard.unlock().await.expect("it was held");
    assert_eq!(here.words(&name), ["attempted", "acquired", "released"]);
    let lost = one.mutex(&name).lock().await.expect("it is free");
    one.mutex(&name).force_unlock().await.expect("the store answers");
    drop(lost);
    assert_eq!(
        here.words(&name)[3..],
        ["attempted", "acquired", "lost"],
        "no release after a loss"
    );
    let left = two.mutex(&name).lock().into_future();
    drop(left);
    assert_eq!(there.words(&name), words, "a request that was never polled did not happen");
}
