//! Finding the cluster, and saying what is wrong if that fails.

use distlock::{ErrorKind, Locks};
use distlock_testkit::suites::{Ground, Site, eventually};
use distlock_testkit::{Cluster, Flavor, Server};

use crate::cluster::{LONG, waiting};

/// Nobody listens there: below the range of the testkit, and not a port of anything usual.
const NOBODY: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

#[tokio::test]
async fn a_server_by_itself_is_no_cluster() {
    let server = Server::redis().await;
    let url = format!("redis+cluster://{}", server.addr());
    let error = Locks::connect(&url).await.expect_err("no cluster");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("write redis://"), "{error}");
    assert!(error.to_string().contains(&server.addr().to_string()), "{error}");
}

#[tokio::test]
async fn if_nobody_answers_all_are_named() {
    let url = format!("redis+cluster://:hunter2@{}", NOBODY.join(","));
    let error = Locks::connect(&url).await.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let said = error.to_string();
    assert!(NOBODY.iter().all(|address| said.contains(address)), "{said}");
    assert!(!format!("{said} {error:?}").contains("hunter2"), "{said}");
}

#[tokio::test]
async fn one_server_that_answers_is_enough() {
    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let known = ground.cluster().expect("a cluster").nodes()[1].addr();
    let url = format!("redis+cluster://{},{known},{}", NOBODY[0], NOBODY[1]);
    let locks = Locks::connect(&url).await.expect("one answers");
    // Names of every server.
    for at in 0..20 {
        let name = ground.name(&at.to_string());
        locks.mutex(&name).lock().await.expect("free").unlock().await.expect("held");
    }
    ground.assert_clean().await;
}

#[tokio::test]
async fn a_lazy_one_finds_the_cluster_when_it_is_asked_for_a_lock() {
    let url = format!("redis+cluster://{}", NOBODY.join(","));
    let locks = Locks::builder().url(url).lazy().connect().await.expect("asks nobody");
    let error = locks.mutex("k").try_lock().await.expect_err("nobody there");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let locks = ground.builder().lazy().connect().await.expect("asks nobody");
    let name = ground.name("k");
    locks.mutex(&name).lock().await.expect("free").unlock().await.expect("held");
    ground.assert_clean().await;
}

#[tokio::test]
async fn whoever_takes_one_server_for_all_is_told() {
    let Some(ground) = Ground::at(Site::Cluster(Flavor::Redis, "auto")) else { return };
    let name = ground.name("k");
    let other = ground.cluster().expect("a cluster").other_primary(&name).await;
    let locks = Locks::connect(&other.url()).await.expect("a server");
    let error = locks.mutex(&name).lock().await.expect_err("somebody else's slot");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.to_string().contains("redis+cluster://"), "{error}");
}

#[tokio::test]
async fn everybody_asks_for_the_password() {
    let cluster = Cluster::builder(Flavor::Redis).password("hunter2").patient().start().await;
    let locks = Locks::connect(&cluster.url("auto")).await.expect("the password is right");
    for at in 0..20 {
        let name = at.to_string();
        locks.mutex(&name).lock().await.expect("free").unlock().await.expect("held");
    }
    let url = cluster.url("auto").replace("hunter2", "hunter3");
    let error = Locks::connect(&url).await.expect_err("the password is wrong");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter"), "{error}");
    cluster.assert_clean("").await;
}

#[tokio::test]
async fn everybody_speaks_tls() {
    let cluster = Cluster::builder(Flavor::Redis).replicas(1).tls().patient().start().await;
    let url = cluster.url("auto");
    let locks = Locks::connect(&url).await.expect("the authority is trusted");
    for at in 0..20 {
        let name = at.to_string();
        locks.mutex(&name).lock().await.expect("free").unlock().await.expect("held");
    }
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    let waiter = waiting(&url, "k").await;
    cluster.fail_over(&*cluster.primary_of("k").await).await;
    guard.unlock().await.expect("held");
    waiter.enters().await;
    // Its authority is nobody's whom the system trusts.
    let (hosts, _) = url.split_once('?').expect("options");
    let error = Locks::connect(hosts).await.expect_err("an unknown authority");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    cluster.assert_clean("").await;
}

/// Those who wait are subscribed to as many plain and sharded channels as that.
async fn assert_channels(url: &str, cluster: &Cluster, flavor: Flavor, wanted: (usize, usize)) {
    let locks = Locks::connect(url).await.expect("a cluster");
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    let waiter = waiting(url, "k").await;
    let primary = cluster.primary_of("k").await;
    let count = async |which: &'static str| -> usize {
        match (flavor, which) {
            (Flavor::Redis62, "SHARDCHANNELS") => 0,
            _ => primary.ask::<Vec<String>>(&["PUBSUB", which]).await.len(),
        }
    };
    // Each of the two by a connection of its own.
    eventually("somebody is subscribed", || async {
        count("CHANNELS").await + count("SHARDCHANNELS").await >= wanted.0 + wanted.1
    })
    .await;
    assert_eq!((count("CHANNELS").await, count("SHARDCHANNELS").await), wanted, "{url}");
    guard.unlock().await.expect("held");
    waiter.enters().await;
    // Nobody is subscribed any more who would be counted next time.
    cluster.assert_clean("").await;
}

#[tokio::test]
async fn channels_are_sharded_where_servers_can_unless_the_url_says_otherwise() {
    for flavor in Flavor::installed() {
        let cluster = Cluster::builder(flavor).patient().start().await;
        let sharded = if flavor == Flavor::Redis62 { (1, 0) } else { (0, 1) };
        assert_channels(&cluster.url("auto"), &cluster, flavor, sharded).await;
        assert_channels(&cluster.url("classic"), &cluster, flavor, (1, 0)).await;
        if flavor == Flavor::Redis62 {
            let refused = Locks::connect(&cluster.url("sharded")).await.expect_err("6.2");
            assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        } else {
            assert_channels(&cluster.url("both"), &cluster, flavor, (1, 1)).await;
        }
    }
}
