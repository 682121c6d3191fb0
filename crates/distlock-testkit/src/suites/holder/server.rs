//! What only a server shows; each promise has one of its own.

use distlock::doctor::{Acl, Level};
use distlock::store::Kind;
use distlock::{ErrorKind, Locks};

use super::{HOUR, WAYS, Way, key};
use crate::{Server, assert_clean};

async fn open(url: &str) -> Locks {
    let builder = Locks::builder().url(url).holder_info("billing");
    builder.connect().await.expect("the server answers")
}

/// Without it nothing is sent that was not sent before; with it a lock still costs two round trips.
pub async fn who_says_nothing_pays_nothing(server: Server) {
    const TIMES: u64 = 20;
    let (silent, says) =
        (Locks::connect(&server.url()).await.expect("answers"), open(&server.url()).await);
    for (locks, writes) in [(&silent, 1), (&says, 2)] {
        for way in WAYS {
            way.take(locks, "warm-up", None, None).await.unlock().await; // loads the scripts
            way.sweep(locks, "warm-up").await;
        }
        server.reset_stats().await;
        for _ in 0..TIMES {
            Way::Mutex.take(locks, "k", Some(HOUR), Some("x")).await.unlock().await;
        }
        let stats = server.command_stats().await;
        let calls = |name: &str| stats.get(name).map_or(0, |stats| stats.calls);
        assert_eq!(calls("evalsha"), 2 * TIMES);
        assert_eq!(calls("hset"), writes * TIMES);
        assert_eq!(calls("hdel"), writes * TIMES);
        assert_eq!(calls("pexpire"), writes * TIMES);
    }
    assert!(server.keys("*distlock_holders*").await.is_empty());
}

/// Owners of others, Java's among them, are shown without words; words that are no words of ours, and those of somebody who
/// holds nothing, are shown to nobody. A listing shows locks, and not what stands beside them.
pub async fn strangers_say_nothing(server: Server) {
    let locks = open(&server.url()).await;
    let java = "3f2504e0-4f89-41d3-9a0c-0305e82c3301:17";
    server.cli(&["HSET", "k", java, "1"]).await;
    server.cli(&["PEXPIRE", "k", "60000"]).await;
    let words = "host=h&pid=1&service=s&at=1&waited=1";
    for (owner, text) in [(java, "\u{1b}garbage"), ("somebody:1", words)] {
        server.cli(&["HSET", &key("k"), owner, text]).await;
    }
    server.cli(&["PEXPIRE", &key("k"), "60000"]).await;
    let seen = Way::Mutex.seen(&locks, "k").await;
    assert_eq!(seen.holders.len(), 1);
    assert_eq!((&*seen.holders[0].owner, &seen.holders[0].info), (java, &None));

    let held = Way::Mutex.take(&locks, "mine", Some(HOUR), Some("label")).await;
    let read = Way::Read.take(&locks, "read", Some(HOUR), Some("reads")).await;
    let all = locks.list("").await.expect("the server answers");
    let names: Vec<&str> = all.iter().map(|lock| &*lock.name).collect();
    assert_eq!(names, ["k", "mine", "read"]);
    let labels: Vec<_> = all
        .iter()
        .map(|lock| lock.holders[0].info.as_ref().and_then(|info| info.label.as_deref()))
        .collect();
    assert_eq!(labels, [None, Some("label"), Some("reads")]);
    held.unlock().await;
    read.unlock().await;
    server.cli(&["DEL", "k", &key("k")]).await;
    assert_clean(&server, "").await;
}

/// Another type under its key is somebody's data: it stays, and no lock fails because of it.
pub async fn what_stands_in_its_place_costs_no_lock(server: Server) {
    let locks = open(&server.url()).await;
    server.cli(&["SET", &key("k"), "somebody's"]).await;
    let held = Way::Mutex.take(&locks, "k", Some(HOUR), Some("x")).await;
    assert_eq!(Way::Mutex.says(&locks, "k").await, None);
    held.guard().extend(2 * HOUR).await.expect("it is held");
    held.unlock().await;
    let kept: String = server.ask(&["GET", &key("k")]).await;
    assert_eq!(kept, "somebody's");
}

/// A user who may not write it is told so at once, and by the doctor before; locks of programs that do not ask for it work on.
pub async fn a_missing_permission_is_named(server: Server) {
    let kinds = [Kind::Mutex];
    let least = Acl::new("app:").kinds(&kinds);
    let url = server.user_with("least", &least.clone().doctor().rules());
    let says = open(&url).await;
    let error = says.mutex("app:k").lock().await.expect_err("it may not be written");
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("holder_info"), "{error}");
    let report = |locks: Locks| async move {
        let report = locks.doctor().kinds(&kinds).await;
        let acl = report.findings().iter().find(|finding| finding.subject == "acl");
        acl.map(|finding| (finding.level, finding.says.clone())).expect("it looks at that")
    };
    let prefixed = |url: &str| Locks::builder().url(url).prefix("app:").holder_info("billing");
    let (level, says) = report(prefixed(&url).connect().await.expect("answers")).await;
    assert_eq!(level, Level::Fault, "{says}");
    assert!(
        says.contains("holder_info lacks") && says.contains("~{app:*}:distlock_holders"),
        "{says}"
    );

    let silent = Locks::connect(&url).await.expect("the server answers");
    silent.mutex("app:k").lock().await.expect("it is free").unlock().await.expect("it was held");

    let url = server.user_with("more", &least.holder_info().doctor().rules());
    let (level, says) = report(prefixed(&url).connect().await.expect("answers")).await;
    assert_eq!(level, Level::Ok, "{says}");
    let more = open(&url).await;
    more.mutex("app:k").lock().await.expect("it is free").unlock().await.expect("it was held");
    assert_clean(&server, "app:").await;
}
