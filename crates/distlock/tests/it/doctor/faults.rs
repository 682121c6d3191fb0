//! Faults that are planted are found, each by itself and all together, and nothing else is.

use std::net::TcpStream;

use distlock::doctor::Level;
use distlock_testkit::{Flavor, Server};

use crate::doctor::report::{CANARY, bad, examine, examine_as, of, replica_of, sound, until};

/// Settings, what is to be found, and how bad it is.
type Plant = (&'static [(&'static str, &'static str)], &'static str, Level);

/// Settings that are wrong.
const PLANTS: [Plant; 10] = [
    (&[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")], "eviction", Level::Fault),
    (&[("maxmemory", "100mb"), ("maxmemory-policy", "volatile-ttl")], "eviction", Level::Fault),
    (&[("maxmemory-policy", "allkeys-random")], "eviction", Level::Warning),
    (&[("appendonly", "no")], "persistence", Level::Warning),
    (&[("timeout", "60")], "idle_timeout", Level::Warning),
    (&[("client-output-buffer-limit", "pubsub 1000 500 60")], "pubsub_buffer", Level::Warning),
    (&[("min-replicas-to-write", "1")], "min_replicas", Level::Fault),
    // Less than an empty server uses, and a little more.
    (&[("maxmemory", "100kb")], "memory", Level::Fault),
    (&[("maxmemory", "NEARLY")], "memory", Level::Warning),
    (&[("maxclients", "16")], "clients", Level::Warning),
];

async fn set(server: &Server, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        let used = match *value {
            "NEARLY" => {
                let used = server.info_field("used_memory").await.unwrap();
                Some((used.parse::<u64>().unwrap() * 104 / 100).to_string())
            }
            _ => None,
        };
        let value = used.as_deref().unwrap_or(value);
        server.cli(&["CONFIG", "SET", name, value]).await;
    }
}

const HEALTH: [(&str, &str); 8] = [
    ("maxmemory", "0"),
    ("maxmemory-policy", "noeviction"),
    ("appendonly", "yes"),
    ("timeout", "0"),
    ("client-output-buffer-limit", "pubsub 33554432 8388608 60"),
    ("min-replicas-to-write", "0"),
    ("maxclients", "10000"),
    ("save", ""),
];

async fn alone(flavor: Flavor) {
    let server = sound(flavor).await;
    let report = examine(&server.url()).await;
    assert_eq!(bad(&report), [], "nothing is wrong:\n{report}");
    assert!(report.is_reached());
    // Somebody has connections already.
    let others: Vec<TcpStream> =
        (0..12).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    for (settings, subject, level) in PLANTS {
        set(&server, settings).await;
        let report = examine(&server.url()).await;
        assert_eq!(bad(&report), [(subject, level)], "{settings:?}:\n{report}");
        set(&server, &HEALTH).await;
    }
    drop(others);
    let report = examine(&server.url()).await;
    assert_eq!(bad(&report), [], "nothing is wrong any more:\n{report}");
    assert_eq!(server.keys("*").await, [] as [String; 0], "it leaves nothing");
    assert_eq!(server.pubsub_channels().await, [] as [String; 0], "it leaves nothing");
}

#[tokio::test]
async fn each_fault_alone_is_found_and_nothing_else_on_redis() {
    alone(Flavor::Redis).await;
}

#[tokio::test]
async fn each_fault_alone_is_found_and_nothing_else_on_valkey() {
    alone(Flavor::Valkey).await;
}

#[tokio::test]
async fn each_fault_alone_is_found_and_nothing_else_on_redis62() {
    alone(Flavor::Redis62).await;
}

/// The badly configured server: everything at once, seen by a user who may not do everything.
async fn together(flavor: Flavor) {
    let mut builder = Server::builder(flavor).password(CANARY);
    let faked = flavor != Flavor::Redis && faketime().is_some();
    if let Some(library) = faketime().filter(|_| faked) {
        builder = builder.env("LD_PRELOAD", library).env("FAKETIME", "+20s");
        builder = builder.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    } else if flavor != Flavor::Redis {
        eprintln!("SKIPPED: no clock that is wrong for {flavor:?}: libfaketime is not installed");
    }
    let server = builder.start().await;
    let replica = replica_of(&server).await;
    // A snapshot cannot take the place of a directory.
    let _ = std::fs::remove_file(server.dir().join("dump.rdb"));
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    std::fs::write(server.dir().join("dump.rdb/full"), "").unwrap();
    server.cli(&["CONFIG", "SET", "save", "3600 1"]).await;
    server.cli(&["BGSAVE"]).await;
    until("the snapshot fails", async || {
        server.info_field("rdb_last_bgsave_status").await.as_deref() == Some("err")
    })
    .await;
    let planted = [
        ("maxmemory", "100mb"),
        ("maxmemory-policy", "allkeys-lru"),
        ("timeout", "60"),
        ("client-output-buffer-limit", "pubsub 1000 500 60"),
        ("maxclients", "16"),
    ];
    set(&server, &planted).await;
    let rules = ["+@all", "-zadd", "-pexpire", "~app:*", "&*"].map(str::to_owned);
    let url = server.user_with("lk", &rules);
    let others: Vec<TcpStream> =
        (0..12).map(|_| TcpStream::connect(server.addr()).unwrap()).collect();
    let report = examine_as(&url, "app:").await;
    drop(others);
    let mut expected = vec![
        ("acl", Level::Fault),
        ("clients", Level::Warning),
        ("disk", Level::Fault),
        ("eviction", Level::Fault),
        ("idle_timeout", Level::Warning),
        ("min_replicas", Level::Warning),
        ("pubsub_buffer", Level::Warning),
    ];
    if faked {
        expected.insert(2, ("clock", Level::Fault));
    }
    assert_eq!(bad(&report), expected, "{report}");
    let acl = &of(&report, "acl").says;
    assert!(acl.contains("mutex, spin, simple, multi, redlock lacks +pexpire;"), "{acl}");
    let queue =
        "fair lacks +pexpire +zadd ~redisson_lock_queue:{app:* ~redisson_lock_timeout:{app:*;";
    assert!(acl.contains(queue) && !acl.contains("+hset"), "{acl}");

    // The one that it is mistaken for.
    let report = examine(&replica.url()).await;
    assert_eq!(of(&report, "role").level, Level::Fault, "{report}");
}

#[tokio::test]
async fn all_faults_together_are_found_on_redis() {
    together(Flavor::Redis).await;
}

#[tokio::test]
async fn all_faults_together_are_found_on_valkey() {
    together(Flavor::Valkey).await;
}

#[tokio::test]
async fn all_faults_together_are_found_on_redis62() {
    together(Flavor::Redis62).await;
}

/// What sets another clock, if it is installed. It does not get on with the allocator of the system's Redis.
fn faketime() -> Option<&'static str> {
    let libraries = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/faketime/libfaketimeMT.so.1",
    ];
    libraries.into_iter().find(|path| std::path::Path::new(path).exists())
}

/// What each permission that is taken away says, and of which kinds.
#[tokio::test]
async fn missing_permissions_are_listed_for_each_kind() {
    use distlock::doctor::Acl;
    for flavor in Flavor::ALL {
        let server = sound(flavor).await;
        let all = Acl::new("app:").doctor().rules();
        let url = server.user_with("lk", &all);
        let report = examine_as(&url, "app:").await;
        assert_eq!(bad(&report), [], "{flavor:?}:\n{report}");
        for missing in
            ["+lpos", "+decr", "+publish", "+subscribe", "+evalsha", "+script|load", "+ping"]
        {
            let rules: Vec<String> = all.iter().filter(|rule| *rule != missing).cloned().collect();
            let url = server.user_with("lk", &rules);
            let report = examine_as(&url, "app:").await;
            let found = of(&report, "acl");
            assert_eq!(found.level, Level::Fault, "{flavor:?} without {missing}:\n{report}");
            assert!(found.says.contains(missing), "{flavor:?} without {missing}: {found}");
            let kinds = match missing {
                "+lpos" => "fair lacks",
                "+decr" => "latch lacks",
                _ => "mutex",
            };
            assert!(found.says.contains(kinds), "{flavor:?} without {missing}: {found}");
        }
        // Locks work without these, but not as well.
        for missing in ["+client|info", "+client|kill"] {
            let rules: Vec<String> = all.iter().filter(|rule| *rule != missing).cloned().collect();
            let report = examine_as(&server.user_with("lk", &rules), "app:").await;
            assert_eq!(bad(&report), [("client_kill", Level::Warning)], "{flavor:?}:\n{report}");
            let found = of(&report, "client_kill");
            assert!(found.says.ends_with(missing), "{flavor:?} without {missing}: {found}");
            assert!(found.change.contains(missing), "{flavor:?} without {missing}: {found}");
        }
        for missing in ["~redisson_lock_queue:{app:*", "&redisson_sc:{app:*", "~app:*"] {
            let rules: Vec<String> = all.iter().filter(|rule| *rule != missing).cloned().collect();
            let url = server.user_with("lk", &rules);
            let report = examine_as(&url, "app:").await;
            let found = of(&report, "acl");
            assert!(
                found.level == Level::Fault && found.says.contains(missing),
                "{flavor:?}: {found}"
            );
        }
        assert_eq!(server.keys("*").await, [] as [String; 0], "it leaves nothing");
    }
}

/// One who uses some kinds is not told of what others need.
#[tokio::test]
async fn only_the_kinds_that_are_used_must_work() {
    use distlock::Locks;
    use distlock::doctor::Acl;
    use distlock::store::Kind;

    let server = sound(Flavor::Redis).await;
    for kinds in [&[Kind::Simple, Kind::Spin][..], &[Kind::Latch], &[Kind::Mutex, Kind::Fair]] {
        let url = server.user_with("lk", &Acl::new("app:").kinds(kinds).rules());
        let locks = Locks::builder().url(&url).prefix("app:").connect().await.unwrap();
        let report = locks.doctor().kinds(kinds).await;
        assert_eq!(bad(&report), [], "{kinds:?}:\n{report}");
        assert!(bad(&locks.doctor().await).contains(&("acl", Level::Fault)), "{kinds:?}");
    }
}

/// One who may do nothing but locks gets no wrong answers, only fewer.
#[tokio::test]
async fn what_may_not_be_looked_at_is_a_note() {
    for flavor in Flavor::ALL {
        let server = sound(flavor).await;
        server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
        let report = examine_as(&server.least_privilege("app:"), "app:").await;
        assert_eq!(bad(&report), [], "{flavor:?}:\n{report}");
        for subject in ["eviction", "persistence", "role", "idle_timeout"] {
            let found = of(&report, subject);
            assert_eq!(found.level, Level::Note, "{found}");
            assert!(found.says.contains("lacks +"), "{found}");
        }
        // Under names that are not its own it cannot say what is allowed.
        let report = examine(&server.least_privilege("app:")).await;
        assert_eq!(of(&report, "acl").level, Level::Note, "{flavor:?}:\n{report}");
    }
}
