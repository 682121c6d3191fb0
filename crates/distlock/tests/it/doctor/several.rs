//! Clusters and sentinels: everybody is looked at.

use std::time::Duration;

use distlock::doctor::{Acl, Channels, Level, Report};
use distlock_testkit::{Cluster, Flavor, SentinelSet};

use crate::doctor::report::{CANARY, bad, examine, examine_as, of, sound, until};

/// How many servers something was said of.
fn places(report: &Report, subject: &str) -> usize {
    let mut places: Vec<&str> =
        report.findings().iter().filter(|f| f.subject == subject).map(|f| &*f.place).collect();
    places.sort();
    places.dedup();
    places.len()
}

const SOUND: [&str; 2] = ["--appendonly", "yes"];

async fn cluster(flavor: Flavor) {
    let cluster = Cluster::builder(flavor).replicas(1).password(CANARY).args(&SOUND).patient();
    let cluster = cluster.start().await;
    for primary in cluster.primaries().await {
        // A replica has everything before its primary takes note of that.
        until("a primary has its replica", async || {
            primary.info_field("slave0").await.is_some_and(|line| line.contains("online"))
        })
        .await;
    }
    let url = cluster.url("auto");
    let report = examine(&url).await;
    assert_eq!(bad(&report), [], "{flavor:?}:\n{report}");
    assert_eq!(places(&report, "role"), 6, "{report}");
    assert_eq!(places(&report, "replicas"), 3, "{report}");
    assert_eq!(places(&report, "pubsub"), 3, "{report}");
    assert_eq!(of(&report, "clocks").level, Level::Ok, "{report}");

    // One of the servers is badly configured: the finding says which.
    let replica = cluster.replica_of(&*cluster.primary_of("k").await).await;
    replica.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let report = examine(&url).await;
    assert_eq!(bad(&report), [("eviction", Level::Warning)], "{report}");
    assert_eq!(of(&report, "eviction").place, replica.addr().to_string());
    replica.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).await;

    // Behind the URL of a single server it is a fault, whichever it is.
    let single = cluster.nodes()[0].url();
    let report = examine(&single).await;
    assert_eq!(of(&report, "role").level, Level::Fault, "{report}");

    // A user that only some servers know, and one that lacks something.
    let channels = if flavor == Flavor::Redis62 { Channels::Classic } else { Channels::Sharded };
    let rules = Acl::new("app:").cluster(channels).doctor().rules();
    for node in cluster.nodes() {
        node.user_with("lk", &rules);
    }
    let by_user = cluster.nodes()[0].user_with("lk", &rules);
    let user = by_user.split_once("://").unwrap().1.split_once('@').unwrap().0;
    let by_user = url.replacen(&format!(":{CANARY}"), user, 1);
    let report = examine_as(&by_user, "app:").await;
    assert_eq!(bad(&report), [], "{flavor:?}:\n{report}");
    replica.cli(&["ACL", "DELUSER", "lk"]).await;
    let primary = cluster.primary_of("k").await;
    let most: Vec<String> = rules
        .iter()
        .filter(|rule| !["+asking", "+hset"].contains(&rule.as_str()))
        .cloned()
        .collect();
    primary.user_with("lk", &most);
    let report = examine_as(&by_user, "app:").await;
    assert_eq!(bad(&report), [("acl", Level::Fault), ("login", Level::Fault)], "{report}");
    assert_eq!(of(&report, "login").place, replica.addr().to_string());
    let acl = of(&report, "acl");
    assert_eq!(acl.place, primary.addr().to_string());
    assert!(acl.says.contains("+asking") && acl.says.contains("+hset"), "{acl}");

    // One who cannot ask for sharded channels would not be heard by those who can.
    if flavor != Flavor::Redis62 {
        let deaf: Vec<String> = Acl::new("app:").cluster(Channels::Classic).doctor().rules();
        for node in cluster.nodes() {
            node.user_with("lk", &deaf);
        }
        let report = examine_as(&by_user, "app:").await;
        assert_eq!(bad(&report), [("channels", Level::Fault)], "{report}");
        let said = by_user.replace("pubsub=auto", "pubsub=classic");
        let report = examine_as(&said, "app:").await;
        assert_eq!(bad(&report), [], "{report}");
    }

    // A replica that dies: it is missed, and so is its primary's.
    replica.kill();
    until("its primary notices", async || {
        primary.info_field("connected_slaves").await.as_deref() == Some("0")
    })
    .await;
    let report = examine(&url).await;
    let found = bad(&report);
    assert!(found.contains(&("replicas", Level::Warning)), "{report}");

    // Slots that nobody serves.
    let slot = cluster.slot_of("k").await.to_string();
    primary.cli(&["CLUSTER", "DELSLOTS", &slot]).await;
    until("a slot is missed", async || {
        let info: String = primary.ask(&["CLUSTER", "INFO"]).await;
        info.contains("cluster_slots_ok:16383")
    })
    .await;
    let report = examine(&url).await;
    assert!(bad(&report).contains(&("cluster", Level::Fault)), "{report}");
}

#[tokio::test]
async fn every_server_of_a_cluster_is_looked_at_on_redis() {
    cluster(Flavor::Redis).await;
}

#[tokio::test]
async fn every_server_of_a_cluster_is_looked_at_on_valkey() {
    cluster(Flavor::Valkey).await;
}

#[tokio::test]
async fn every_server_of_a_cluster_is_looked_at_on_redis62() {
    cluster(Flavor::Redis62).await;
}

#[tokio::test]
async fn sentinels_and_their_servers_are_looked_at() {
    // So long that a machine that does other things is no reason to fail over.
    let patient = Duration::from_secs(30);
    let set = SentinelSet::builder(Flavor::Redis).password(CANARY).args(&SOUND);
    let set = set.down_after(patient).start().await;
    let report = examine(&set.url()).await;
    // The guard against two primaries is not set there.
    assert_eq!(bad(&report), [("min_replicas", Level::Warning)], "{report}");
    assert_eq!(places(&report, "role"), 2, "{report}");
    assert_eq!(places(&report, "sentinels"), 3, "{report}");

    let report = examine(&set.replicated_url()).await;
    assert_eq!(bad(&report), [("min_replicas", Level::Warning)], "{report}");
    assert_eq!(places(&report, "role"), 2, "{report}");

    // One of them behind the URL of a server.
    let report = examine(&set.sentinels()[0].url()).await;
    assert_eq!(of(&report, "role").level, Level::Fault, "{report}");

    for sentinel in set.sentinels() {
        sentinel.cli(&["SENTINEL", "SET", set.name(), "quorum", "1"]).await;
        sentinel.cli(&["SENTINEL", "SET", set.name(), "down-after-milliseconds", "90000"]).await;
    }
    set.sentinels()[2].kill();
    let report = examine(&set.url()).await;
    let expected = [
        ("down_after", Level::Warning),
        ("min_replicas", Level::Warning),
        ("reachable", Level::Warning),
        ("sentinels", Level::Warning),
    ];
    assert_eq!(bad(&report), expected, "{report}");
}

#[tokio::test]
async fn two_primaries_are_one_too_many() {
    let (one, two) = (sound(Flavor::Valkey).await, sound(Flavor::Valkey).await);
    let url = format!("redis+replicated://:{CANARY}@{},{}", one.addr(), two.addr());
    let report = examine(&url).await;
    let expected = [("primaries", Level::Fault), ("replicas", Level::Warning)];
    assert_eq!(bad(&report), expected, "{report}");
}

/// Where it cannot be made out who serves what, the servers are looked at all the same.
#[tokio::test]
async fn a_url_of_another_kind_is_a_finding() {
    let server = sound(Flavor::Redis).await;
    let addr = server.addr();
    for url in [
        format!("redis+cluster://:{CANARY}@{addr}"),
        format!("redis+sentinel://:{CANARY}@{addr}/mm?sentinel_pass={CANARY}"),
    ] {
        let report = examine(&url).await;
        assert_eq!(of(&report, "topology").level, Level::Fault, "{report}");
        assert_eq!(places(&report, "round_trip"), 1, "{report}");
        assert!(report.is_reached());
    }
    server.kill();
    for url in [
        format!("redis+cluster://:{CANARY}@{addr}"),
        format!("redis+sentinel://:{CANARY}@{addr}/mm"),
        format!("redis+replicated://:{CANARY}@{addr},127.0.0.1:1"),
    ] {
        let report = examine(&url).await;
        assert!(!report.is_reached() && report.worst() == Level::Fault, "{report}");
    }
}
