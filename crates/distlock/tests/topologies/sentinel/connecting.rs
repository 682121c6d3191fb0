//! Finding the primary, and saying what is wrong if that fails.

use distlock::{ErrorKind, Locks, RedLock};
use distlock_testkit::server::SentinelBuilder;
use distlock_testkit::{Flavor, SentinelSet};

use crate::sentinel::LONG;
use crate::sentinel::strikes::set_up;

/// Nobody listens there: below the range of the testkit, and not a port of anything usual.
const NOBODY: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

/// A set in which nobody is taken for dead because the machine is busy.
fn calm(flavor: Flavor) -> SentinelBuilder {
    SentinelSet::builder(flavor).down_after(LONG)
}

/// A lock can be taken and released there.
async fn serves(url: &str) {
    let locks = Locks::connect(url).await.unwrap_or_else(|error| panic!("{url}: {error}"));
    locks.mutex("k").lock().await.expect("free").unlock().await.expect("held");
}

/// Refused, without a word about passwords.
async fn refused(url: &str, kind: ErrorKind) -> String {
    let error = Locks::connect(url).await.expect_err(url);
    assert_eq!(error.kind(), kind, "{url}: {error}");
    let said = format!("{error} {error:?}");
    assert!(!said.contains("canary"), "{said}");
    said
}

#[tokio::test]
async fn the_primary_is_found_in_every_way() {
    for flavor in Flavor::installed() {
        let since = std::time::Instant::now();
        let set = calm(flavor).start().await;
        println!("{flavor:?} started in {:?}", since.elapsed());
        serves(&set.url()).await;
        serves(&set.replicated_url()).await;
        // The dead one is asked first.
        let url = set.url().replacen("://", &format!("://{},", NOBODY[0]), 1);
        serves(&url).await;
        let url = set.replicated_url().replacen("://", &format!("://{},", NOBODY[0]), 1);
        serves(&url).await;
        set.assert_clean("").await;
    }
}

#[tokio::test]
async fn databases_are_apart() {
    let set = calm(Flavor::Redis).start().await;
    let other = Locks::connect(&set.url_by(set.sentinels(), "mm/3")).await.expect("db 3");
    let guard = other.mutex("k").lock().await.expect("free");
    serves(&set.url()).await;
    serves(&format!("{}/2", set.replicated_url())).await;
    assert_eq!(set.primary().await.ask::<Vec<String>>(&["KEYS", "*"]).await, [""; 0]);
    guard.unlock().await.expect("held");
    let said = refused(&set.url_by(set.sentinels(), "mm/99"), ErrorKind::Config).await;
    assert!(said.contains("database"), "{said}");
}

#[tokio::test]
async fn a_name_that_nobody_watches_is_said_to_be_wrong() {
    let set = calm(Flavor::Redis).start().await;
    let said = refused(&set.url_by(set.sentinels(), "other"), ErrorKind::Config).await;
    assert!(said.contains("watch no primary called \"other\""), "{said}");
    // The answer of one is enough.
    let url = set.url_by(&set.sentinels()[..1], "other");
    refused(&url.replacen("://", &format!("://{},", NOBODY[0]), 1), ErrorKind::Config).await;
}

#[tokio::test]
async fn if_nobody_answers_all_are_named() {
    for kind in ["sentinel", "replicated"] {
        let path = if kind == "sentinel" { "/mm?sentinel_pass=canary" } else { "" };
        let url = format!("redis+{kind}://:canary@{}{path}", NOBODY.join(","));
        let said = refused(&url, ErrorKind::Unavailable).await;
        assert!(NOBODY.iter().all(|address| said.contains(address)), "{said}");
        let locks = Locks::builder().url(&url).lazy().connect().await.expect("asks nobody");
        assert!(!format!("{locks:?}").contains("canary"), "{locks:?}");
        let error = locks.mutex("k").try_lock().await.expect_err("nobody there");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    }
}

#[tokio::test]
async fn whoever_takes_a_server_for_a_sentinel_or_the_other_way_round_is_told() {
    let set = calm(Flavor::Redis).start().await;
    let said = refused(&set.url_by(set.servers(), "mm"), ErrorKind::Config).await;
    assert!(said.contains("is not a sentinel"), "{said}");
    let hosts: Vec<String> = set.sentinels().iter().map(|one| one.addr().to_string()).collect();
    let said = refused(&format!("redis+replicated://{}", hosts.join(",")), ErrorKind::Config).await;
    assert!(said.contains("redis+sentinel://"), "{said}");
    // A replica alone is no primary.
    let replica = set.replica().await.addr();
    let said = refused(&format!("redis+replicated://{replica}"), ErrorKind::Unavailable).await;
    assert!(said.contains("is a replica"), "{said}");
}

#[tokio::test]
async fn sentinels_and_servers_ask_for_passwords_of_their_own() {
    let set = calm(Flavor::Redis).password("canary1").sentinel_password("canary2").start().await;
    let url = set.url();
    serves(&url).await;
    serves(&set.replicated_url()).await;
    // As a user of its own, who may do no more than it takes.
    for server in set.servers() {
        let user = "ACL SETUSER lk on >canary3 ~* &* +@all -@admin -@dangerous +role";
        server.cli(&user.split(' ').collect::<Vec<_>>()).await;
    }
    for sentinel in set.sentinels() {
        let user = "ACL SETUSER watch on >canary4 -@all +hello +sentinel|get-master-addr-by-name";
        sentinel.cli(&user.split(' ').collect::<Vec<_>>()).await;
    }
    let by_user = url
        .replace(":canary1@", "lk:canary3@")
        .replace("sentinel_pass=canary2", "sentinel_user=watch&sentinel_pass=canary4");
    serves(&by_user).await;
    let locks = Locks::connect(&by_user).await.expect("both are right");
    assert!(!format!("{locks:?}").contains("canary"), "{locks:?}");

    let wrong = url.replace("sentinel_pass=canary2", "sentinel_pass=canary5");
    let said = refused(&wrong, ErrorKind::Config).await;
    assert!(said.contains("sentinel_pass in the URL"), "{said}");
    let missing = url.replace("?sentinel_pass=canary2", "");
    let said = refused(&missing, ErrorKind::Config).await;
    assert!(said.contains("sentinel_pass in the URL"), "{said}");
    let said = refused(&url.replace("canary1", "canary5"), ErrorKind::Config).await;
    assert!(!said.contains("sentinel_pass in the URL"), "{said}");
    refused(&url.replace(":canary1@", ""), ErrorKind::Config).await;
    refused(&set.replicated_url().replace("canary1", "canary5"), ErrorKind::Config).await;
    // Whoever may not ask a server what it is, is told what is missing.
    for server in set.servers() {
        server.cli(&["ACL", "SETUSER", "lk", "-role"]).await;
    }
    let said = refused(&by_user, ErrorKind::Config).await;
    assert!(said.contains("+role"), "{said}");
    drop(locks);
    set.assert_clean("").await;
}

#[tokio::test]
async fn everybody_speaks_tls() {
    use distlock_testkit::suites::waiting;

    use crate::sentinel::strikes::served_by;

    let set = set_up(SentinelSet::builder(Flavor::Redis).password("canary").tls()).await;
    let url = set.url();
    serves(&url).await;
    serves(&set.replicated_url()).await;
    let locks = Locks::connect(&url).await.expect("the authority is trusted");
    let guard = locks.mutex("k").lock().lease(LONG).await.expect("free");
    let waiter = waiting(&url, "k").await;
    set.replicated().await;
    served_by(&*set.fail_over().await, &locks).await;
    guard.unlock().await.expect("held");
    waiter.enters().await;
    // Its authority is nobody's whom the system trusts, and it wants to see a certificate.
    let (hosts, options) = url.split_once('?').expect("options");
    refused(hosts, ErrorKind::Config).await;
    let (ca, _) = options.split_once('&').expect("options");
    let error = Locks::connect(&format!("{hosts}?{ca}")).await.expect_err("no certificate");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    let error = Locks::connect(&hosts.replace("rediss+", "redis+")).await.expect_err("plain text");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
    set.assert_clean("").await;
}

/// Two clients of one set see that they are: taken together, their locks are taken in one order.
#[tokio::test]
async fn one_set_is_one_place_whoever_is_primary() {
    let set = set_up(SentinelSet::builder(Flavor::Redis)).await;
    let one = Locks::connect(&set.url_by(&set.sentinels()[..1], "mm")).await.expect("a set");
    set.fail_over().await;
    let other = Locks::connect(&set.url_by(&set.sentinels()[1..], "mm")).await.expect("a set");
    let nodes = [one.clone(), other.clone()];
    let error = RedLock::new("k", &nodes).lock().await.expect_err("one server is no majority");
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}
