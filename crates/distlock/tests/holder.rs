//! What holders say of themselves, on every store.

use distlock::{Locks, RedLock};
use distlock_testkit::suites::eventually;
use distlock_testkit::{promises, server_promises};

promises! {
    holder::says:
    everybody_sees_who_holds_it
    who_says_nothing_leaves_nothing
    an_heir_speaks_for_itself
    what_is_said_lives_as_long_as_the_lock
    a_reentry_keeps_what_was_said
    many_holders_have_their_own_words
    all_of_several_say_it
    hostile_words_do_no_harm
    those_who_wait_are_counted
}

promises! {
    holder::gone:
    what_was_said_goes_with_the_hold
    what_others_leave_is_shown_to_nobody
    whoever_does_not_get_it_says_nothing
}

promises! {
    holder::told:
    a_wait_timeout_says_who_holds_it
    one_of_several_is_named
}

promises! {
    holder::slow:
    a_hold_that_takes_long_is_warned_of_once
    what_was_released_in_time_is_not_warned_of
    a_warning_says_what_the_hold_is_for
}

server_promises! {
    holder::server:
    who_says_nothing_pays_nothing
    strangers_say_nothing
    what_stands_in_its_place_costs_no_lock
    a_missing_permission_is_named
}

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
#[cfg(feature = "profiles")]
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
#[cfg(feature = "redis")]
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
