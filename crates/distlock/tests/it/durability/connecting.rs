//! What can be known before the first lock is.

use distlock::{Durability, ErrorKind, Locks};
use distlock_testkit::{Flavor, Replicas, Server};

use crate::durability::{acknowledged, with_acks};

pub(crate) async fn a_user_that_may_not_wait_is_unsupported(flavor: Flavor) {
    let set = Replicas::start(flavor, 1).await;
    let user = ["ACL", "SETUSER", "lk", "on", ">canary", "~*", "&*", "+@all", "-wait"];
    set.primary.cli(&user).await;
    let url = format!("redis://lk:canary@{}", set.primary.addr());
    let builder = || Locks::builder().url(&url).durability(Durability::Acks(1));
    let error = builder().connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(
        error.to_string().contains("+wait") && !error.to_string().contains("canary"),
        "{error}"
    );
    // One who does not look before finds out before anything is taken.
    let lazy = builder().lazy().connect().await.unwrap();
    let error = lazy.mutex("k").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(!set.primary.exists("k").await);
    // Given it, it works; and taken away under way, nothing stays.
    set.primary.cli(&["ACL", "SETUSER", "lk", "+wait"]).await;
    let locks = with_acks(&url, 1).await;
    let held = acknowledged(async || locks.mutex("k").lock().await).await;
    held.unlock().await.unwrap();
    set.primary.cli(&["ACL", "SETUSER", "lk", "-wait"]).await;
    let error = locks.mutex("k").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(!set.primary.exists("k").await);
}

/// A server that does not know the command at all: one that runs behind a proxy, or another make.
#[tokio::test]
async fn a_server_without_the_command_is_unsupported() {
    let server =
        Server::builder(Flavor::Redis).args(["--rename-command", "WAIT", "NEVER"]).start().await;
    let builder = Locks::builder().url(server.url()).durability(Durability::Acks(1));
    let error = builder.connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("Durability::Primary"), "{error}");
}

#[tokio::test]
async fn stores_without_replicas_are_unsupported() {
    let dir = std::env::temp_dir();
    for url in ["memory:", &format!("file:{}", dir.join("distlock-durability").display())] {
        let error = Locks::builder().url(url).durability(Durability::Acks(1)).connect().await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported, "{url}");
        let fine = Locks::builder().url(url).durability(Durability::Primary).connect().await;
        assert!(fine.is_ok(), "{url}");
    }
    let error = Locks::builder().url("memory:").durability(Durability::Acks(0)).connect().await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Config);
}
