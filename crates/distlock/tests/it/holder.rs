//! What holders say of themselves, on every store.

use distlock::{Locks, RedLock};
use distlock_testkit::suites::eventually;

/// Each node of a majority has what the holder says.
#[tokio::test]
async fn a_majority_says_who_holds_it() {
    let mut nodes = Vec::new();
    for node in 0..3 {
        let builder = Locks::builder().url(format!("memory:holder-{node}")).holder_info("billing");
        nodes.push(builder.connect().await.expect("memory"));
    }
    let lock = RedLock::new("k", &nodes);
    let guard = lock.lock().label("ship order").await.expect("it is free");
    let seen = lock.inspect().await.expect("all answer");
    let info = seen.holders[0].info.as_ref().expect("it says who it is");
    assert_eq!((&*info.service, info.label.as_deref()), ("billing", Some("ship order")));
    let text = lock.lock().wait(std::time::Duration::from_millis(30)).await.expect_err("held");
    assert!(text.to_string().contains("\"ship order\""), "{text}");
    guard.unlock().await.expect("it was held");
    for node in &nodes {
        // One who gave up may have been asked for once more.
        let free = || async { node.list("").await.expect("memory").is_empty() };
        eventually("nothing is left", free).await;
    }
}

/// Both can be set where no code is touched.
#[tokio::test]
async fn a_profile_says_who_holds_it() {
    use distlock::Profiles;

    let profiles = Profiles::parse(
        "[profile.main]\nurl = 'memory:said'\nholder_info = 'billing'\nslow_hold = '5s'",
    )
    .expect("both are keys");
    let locks = profiles.locks("main").await.expect("memory");
    let _guard = locks.mutex("k").lock().label("x").await.expect("it is free");
    let holder = locks.mutex("k").holder().await.expect("memory").expect("it is held");
    assert_eq!(holder.info.map(|info| info.service).as_deref(), Some("billing"));
    let wrong = Profiles::parse("[profile.main]\nurl = 'memory:'\nslow_hold = 'soon'");
    let wrong = wrong.expect_err("no duration").to_string();
    assert!(wrong.contains("slow_hold") && wrong.contains('3'), "{wrong}");
    let never = Profiles::parse("[profile.main]\nurl = 'memory:'\nslow_hold = '0s'");
    let never = never.expect_err("no time at all");
    assert_eq!(never.kind(), distlock::ErrorKind::Config);
    assert!(never.to_string().contains("locks.toml:3: profile.main.slow_hold: "), "{never}");
}

/// A listing does not know kinds, and says nothing about waiters rather than that there are none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_does_not_take_waiters_of_a_fair_lock_for_nobody() {
    use std::future::IntoFuture;

    use distlock_testkit::Server;

    let server = Server::redis().await;
    let here = Locks::connect(&server.url()).await.expect("the server answers");
    let there = Locks::connect(&server.url()).await.expect("the server answers");
    let _fair = here.fair("fair").lock().await.expect("it is free");
    let mutex = here.mutex("mutex").lock().await.expect("it is free");
    let read = here.rw("rw").read().await.expect("it is free");
    let in_line = tokio::spawn(there.fair("fair").lock().into_future());
    eventually("one is in line", || async {
        here.fair("fair").inspect().await.expect("an answer").waiters == Some(1)
    })
    .await;
    let waiters = || async {
        let all = here.list("").await.expect("an answer");
        all.iter().map(|lock| (lock.name.to_string(), lock.waiters)).collect::<Vec<_>>()
    };
    let seen = |mutex, rw| {
        [("fair", None), ("mutex", mutex), ("rw", rw)]
            .map(|(name, n)| (name.to_owned(), n))
            .to_vec()
    };
    // Those who wait are counted if that is quick enough.
    eventually("nobody waits for the others", || async {
        let all = waiters().await;
        assert_eq!(all[0], ("fair".to_owned(), None), "somebody is in line");
        all == seen(None, Some(0))
    })
    .await;
    let calling = tokio::spawn(there.mutex("mutex").lock().into_future());
    let writing = tokio::spawn(there.rw("rw").write().into_future());
    eventually("two listen", || async { waiters().await == seen(Some(1), Some(1)) }).await;
    in_line.abort();
    mutex.unlock().await.expect("it was held");
    read.unlock().await.expect("it was held");
    calling.await.expect("no panic").expect("it is free").unlock().await.expect("it was held");
    writing.await.expect("no panic").expect("it is free").unlock().await.expect("it was held");
}
