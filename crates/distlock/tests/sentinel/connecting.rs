//! Finding the primary, and saying what is wrong if that fails.

use distlock::{ErrorKind, Locks};
use distlock_testkit::{Flavor, SentinelSet, Server};

/// Nobody listens there: below the range of the testkit, and not a port of anything usual.
const NOBODY: [&str; 2] = ["127.0.0.1:1", "127.0.0.1:2"];

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
        let set = SentinelSet::builder(flavor).start().await;
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
