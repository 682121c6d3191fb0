//! While something is held.

use std::future::IntoFuture;
use std::time::SystemTime;

use super::{ALL, Ground, HOUR, WAYS, Way, fields, key, may_read, ms, open, secs, ttls};
use crate::cancel::poll_once;
use crate::suites::times::STEADY;
use crate::suites::{Site, eventually};

/// Of every kind: who holds it is seen while it is held, and by others.
pub async fn everybody_sees_who_holds_it(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "billing").await, open(&ground, "other").await);
    for way in WAYS {
        let name = ground.name(&format!("{way:?}"));
        let before = SystemTime::now() - secs(60);
        let held = way.take(&here, &name, None, Some("ship order")).await;
        for locks in [&here, &elsewhere] {
            let info = way.says(locks, &name).await.unwrap_or_else(|| panic!("{way:?}: nobody"));
            assert_eq!((&*info.service, info.label.as_deref()), ("billing", Some("ship order")));
            assert_eq!(info.pid, std::process::id());
            assert!(!info.host.is_empty());
            assert!(info.acquired_at > before, "{info:?}");
            assert!(info.waited < ground.slack(), "{info:?}");
        }
        held.unlock().await;
        assert_eq!(way.says(&elsewhere, &name).await, None, "{way:?}");
        let held = way.take(&elsewhere, &name, None, None).await;
        let info = way.says(&here, &name).await.unwrap_or_else(|| panic!("{way:?}: nobody"));
        assert_eq!((&*info.service, info.label), ("other", None));
        held.unlock().await;
        way.sweep(&here, &name).await;
    }
}

/// Who does not ask for it pays nothing: no key, whatever the request says. What others say it reads, if it may.
pub async fn who_says_nothing_leaves_nothing(ground: Ground) {
    let (silent, says) = (ground.open().await, open(&ground, "billing").await);
    for way in WAYS {
        let name = ground.name(&format!("{way:?}"));
        let held = way.take(&silent, &name, None, Some("nothing")).await;
        assert_eq!(way.says(&says, &name).await, None, "{way:?}");
        assert_eq!(fields(&ground, &name).await.unwrap_or_default(), 0, "{way:?}");
        held.unlock().await;
        let held = way.take(&says, &name, None, Some("something")).await;
        let read = way.says(&silent, &name).await;
        // Not being allowed to is no error.
        assert_eq!(read.is_some(), may_read(&ground), "{way:?}: {read:?}");
        held.unlock().await;
        way.sweep(&says, &name).await;
    }
}

/// After a local hand-over the store soon shows what the heir says, and nothing of its predecessor.
pub async fn an_heir_speaks_for_itself(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "billing").await, open(&ground, "other").await);
    for way in [Way::Mutex, Way::Simple] {
        let name = ground.name(&format!("{way:?}"));
        for round in 0..5 {
            let first = way.take(&here, &name, Some(HOUR), Some("first")).await;
            let mut waiter = match way {
                Way::Simple => here.simple(&name).lock(),
                _ => here.mutex(&name).lock(),
            }
            .lease(HOUR)
            .label("second")
            .into_future();
            poll_once(&mut waiter).await;
            tokio::time::sleep(ms(3)).await;
            first.unlock().await;
            let heir = waiter.await.expect("it gets free");
            let shown = || async {
                let seen = way.seen(&elsewhere, &name).await;
                let info = seen.holders.first().and_then(|holder| holder.info.as_ref());
                let right = info.is_some_and(|info| info.label.as_deref() == Some("second"));
                let waited = info.is_some_and(|info| info.waited >= ms(2));
                let alone = fields(&ground, &name).await.is_none_or(|fields| fields == 1);
                right && waited && alone && seen.depth_of(heir.stay()) == 1
            };
            eventually(&format!("{way:?}: the heir is shown, round {round}"), shown).await;
            assert!(alike(&ground, &name).await);
            heir.unlock().await.expect("it was held");
        }
    }
}

/// Whether the lock and what its holders say live equally long, but for the time that a script takes.
async fn alike(ground: &Ground, name: &str) -> bool {
    let Some((lock, said)) = ttls(ground, name).await else { return true };
    lock > 0 && said > 0 && (lock - said).abs() <= 250
}

/// What is said lives as long as the lock: after taking it, going in again, extending and renewing it.
pub async fn what_is_said_lives_as_long_as_the_lock(ground: Ground) {
    let watchdog = STEADY;
    let locks = ground.saying("billing").watchdog(watchdog).connect().await.expect("opens");
    let mut kept = Vec::new();
    for way in WAYS.into_iter().filter(|way| way.has_ttl()) {
        let name = ground.name(&format!("{way:?}"));
        let held = way.take(&locks, &name, Some(secs(20)), None).await;
        assert!(alike(&ground, &name).await, "{way:?}: taken");
        held.guard().extend(secs(40)).await.expect("it is held");
        assert!(alike(&ground, &name).await, "{way:?}: extended");
        if let Some((lock, _)) = ttls(&ground, &name).await {
            assert!(lock > 20_000, "{way:?}: {lock}");
        }
        held.unlock().await;
        kept.push((way, way.take(&locks, &name, None, None).await));
    }
    // Twice their time to live, and so renewed at least once. All at the same time: it is long, for a busy machine's sake.
    tokio::time::sleep(2 * watchdog).await;
    for (way, held) in kept {
        let name = ground.name(&format!("{way:?}"));
        assert!(way.says(&locks, &name).await.is_some(), "{way:?}: renewed");
        assert!(alike(&ground, &name).await, "{way:?}: renewed");
        held.unlock().await;
    }
}

/// A re-entry keeps what the outer hold says, and its time to live covers the longer lease.
pub async fn a_reentry_keeps_what_was_said(ground: Ground) {
    let locks = open(&ground, "billing").await;
    let name = ground.name("k");
    let me = locks.owner();
    let outer = locks.mutex(&name).lock().owner(&me).lease(secs(20)).label("outer");
    let outer = outer.await.expect("it is free");
    let inner = locks.mutex(&name).lock().owner(&me).lease(HOUR).label("inner");
    let inner = inner.await.expect("it is mine");
    let label = async || Way::Mutex.says(&locks, &name).await.and_then(|info| info.label);
    assert_eq!(label().await.as_deref(), Some("outer"));
    assert!(alike(&ground, &name).await);
    inner.unlock().await.expect("it was held");
    assert_eq!(label().await.as_deref(), Some("outer"));
    outer.unlock().await.expect("it was held");
    assert_eq!(label().await, None);
}

/// Several at once, each with its own words: readers, a writer that reads, permits.
pub async fn many_holders_have_their_own_words(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "a").await, open(&ground, "b").await);
    let name = ground.name("rw");
    let words = async |way: Way, name: &str| {
        let seen = way.seen(&here, name).await;
        let mut words: Vec<String> = seen
            .holders
            .iter()
            .map(|holder| holder.info.clone().and_then(|info| info.label).unwrap_or_default())
            .collect();
        words.sort();
        words
    };
    let one = Way::Read.take(&here, &name, Some(secs(20)), Some("one")).await;
    let two = Way::Read.take(&elsewhere, &name, Some(HOUR), Some("two")).await;
    let three = Way::Read.take(&here, &name, Some(secs(20)), None).await;
    assert_eq!(words(Way::Read, &name).await, ["", "one", "two"]);
    two.unlock().await;
    assert_eq!(words(Way::Read, &name).await, ["", "one"]);
    assert!(alike(&ground, &name).await);
    one.unlock().await;
    three.unlock().await;

    let me = here.owner();
    let write = here.rw(&name).write().owner(&me).label("writes").await.expect("it is free");
    let read = here.rw(&name).read().owner(&me).label("reads").await.expect("it is mine");
    assert_eq!(words(Way::Write, &name).await, ["reads", "writes"]);
    write.unlock().await.expect("it was held");
    assert_eq!(words(Way::Read, &name).await, ["reads"]);
    read.unlock().await.expect("it was held");

    // Who goes on reading does so for the same end.
    let write = here.rw(&name).write().label("writes").await.expect("it is free");
    let read = write.downgrade().await.expect("it is held");
    assert_eq!(words(Way::Read, &name).await, ["writes"]);
    read.unlock().await.expect("it was held");

    let name = ground.name("s");
    let semaphore = |locks: &distlock::Locks| locks.semaphore(&name).with_permits(ALL);
    let one = semaphore(&here).acquire(2).label("one").await.expect("enough are left");
    let two = semaphore(&elsewhere).acquire(1).label("two").await.expect("enough are left");
    assert_eq!(words(Way::Semaphore, &name).await, ["one", "two"]);
    one.unlock().await.expect("they were held");
    assert_eq!(words(Way::Semaphore, &name).await, ["two"]);
    two.unlock().await.expect("they were held");
    Way::Semaphore.sweep(&here, &name).await;

    let name = ground.name("l");
    let semaphore = |locks: &distlock::Locks| locks.leased_semaphore(&name).with_permits(ALL);
    let one = semaphore(&here).acquire(2).label("one").await.expect("enough are left");
    let two = semaphore(&elsewhere).acquire(1).label("two").await.expect("enough are left");
    assert_eq!(words(Way::LeasedSemaphore, &name).await, ["one", "one", "two"]);
    one.unlock().await.expect("they were held");
    assert_eq!(words(Way::LeasedSemaphore, &name).await, ["two"]);
    two.unlock().await.expect("they were held");
    Way::LeasedSemaphore.sweep(&here, &name).await;
}

/// Several locks that are taken in one step each show their holder.
pub async fn all_of_several_say_it(ground: Ground) {
    let locks = open(&ground, "billing").await;
    let (a, b) = (ground.name("{t}a"), ground.name("{t}b"));
    let all = distlock::MultiLock::new([locks.mutex(&a).into(), locks.fenced(&b).into()]);
    let guard = all.lock().label("both").await.expect("they are free");
    for name in [&a, &b] {
        let info = Way::Mutex.says(&locks, name).await.expect("held");
        assert_eq!(info.label.as_deref(), Some("both"));
    }
    guard.unlock().await.expect("they were held");
    for name in [&a, &b] {
        assert_eq!(Way::Mutex.says(&locks, name).await, None);
    }
}

/// Any text can be said: it is cut, cannot break out of what it stands in, and is never shown raw.
pub async fn hostile_words_do_no_harm(ground: Ground) {
    let locks = open(&ground, "a\u{1b}[2Jservice\n").await;
    let name = ground.name("k");
    let long = "{x}&pid=0\r\n".repeat(1000);
    for label in ["line\nbreak\r\n\u{1b}[31m", "{tag}:distlock_holders", "a=b&host=evil", &long] {
        let held = Way::Mutex.take(&locks, &name, None, Some(label)).await;
        let info = Way::Mutex.says(&locks, &name).await.expect("held");
        assert_eq!(info.pid, std::process::id());
        assert_ne!(info.host, "evil");
        let kept = info.label.clone().unwrap_or_default();
        assert!(kept.len() <= 256 && !kept.chars().any(char::is_control), "{kept:?}");
        assert!(!info.to_string().chars().any(char::is_control), "{info}");
        let waits = locks.mutex(&name).lock().wait(ms(20)).await.expect_err("it is held");
        assert!(!waits.to_string().chars().any(char::is_control), "{waits}");
        held.unlock().await;
    }
    if let Some(server) = ground.server() {
        assert!(!server.exists(&key(&name)).await);
    }
}

/// How many wait is told: of a fair lock those in line, of others the processes that listen.
pub async fn those_who_wait_are_counted(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "a").await, open(&ground, "b").await);
    // Those who poll do not listen.
    let polls = matches!(ground.site(), Site::Polling(_));
    let ways: &[Way] = if polls { &[Way::Fair] } else { &[Way::Mutex, Way::Fair, Way::Write] };
    for &way in ways {
        let name = ground.name(&format!("{way:?}"));
        let held = way.take(&here, &name, Some(HOUR), None).await;
        assert_eq!(way.seen(&here, &name).await.waiters, Some(0), "{way:?}");
        let (other, called) = (elsewhere.clone(), name.clone());
        let waiter = tokio::spawn(async move { way.take(&other, &called, Some(HOUR), None).await });
        let one = || async { way.seen(&here, &name).await.waiters == Some(1) };
        eventually(&format!("{way:?}: one waits"), one).await;
        held.unlock().await;
        waiter.await.expect("no panic").unlock().await;
    }
}
