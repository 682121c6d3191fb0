//! The writer that waits, and the readers that stand behind it.

use std::time::Duration;

use super::super::server::{Server, owner, promptly};
use super::{ACQUIRED, LEFT, Messages, WAITING, busy_for, claim, is_busy, read, write};
use crate::store::{ClaimKind, Released, Store};

const SIDE: &str = "{k}:distlock_writer";

/// Readers stand behind a writer for no more than seconds: what takes longer than this may have outlasted that.
const PROMPT: Duration = Duration::from_millis(400);

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn new_readers_stand_behind_a_writer_that_waits() {
    promptly(PROMPT, readers_behind_a_writer).await;
}

async fn readers_behind_a_writer() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (reader, writer, late) = (owner(), owner(), owner());
    store.acquire(&read(reader, 1)).await.unwrap();

    let comes_again = busy_for(store.acquire(&claim(WAITING, writer, 1)).await.unwrap());
    assert!(comes_again <= 1_000, "{comes_again}");
    assert_eq!(raw.run::<String>(&format!("GET {SIDE}")).await, writer.to_string());
    let stands = raw.ttl(SIDE).await;
    assert!(stands > 2_000 && stands <= 2_500, "{stands}");

    assert!(busy_for(store.acquire(&read(late, 1)).await.unwrap()) <= 1_000);
    // Whoever is inside may go deeper, come again after a lost reply, and leave.
    assert_eq!(store.acquire(&read(reader, 2)).await.unwrap(), ACQUIRED);
    assert_eq!(store.acquire(&read(reader, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(store.release(&read(reader, 0)).await.unwrap(), LEFT);
    // Free as it is, the lock is the writer's.
    assert!(is_busy(&store.acquire(&read(late, 1)).await.unwrap()));
    assert_eq!(store.acquire(&claim(WAITING, writer, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.all_keys().await, ["k"]);
    store.release(&write(writer, 0)).await.unwrap();
    assert_eq!(store.acquire(&read(late, 1)).await.unwrap(), ACQUIRED);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_writer_that_comes_again_is_stood_behind_for_longer() {
    promptly(PROMPT, a_writer_comes_again).await;
}

async fn a_writer_comes_again() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (first, second) = (owner(), owner());
    store.acquire(&read(owner(), 1)).await.unwrap();
    store.acquire(&claim(WAITING, first, 1)).await.unwrap();
    raw.run::<()>(&format!("PEXPIRE {SIDE} 1500")).await;
    // A second one does not push it aside, nor keep its place for it.
    store.acquire(&claim(WAITING, second, 1)).await.unwrap();
    assert_eq!(raw.run::<String>(&format!("GET {SIDE}")).await, first.to_string());
    assert!(raw.ttl(SIDE).await <= 1_500);
    store.acquire(&claim(WAITING, first, 1)).await.unwrap();
    assert!(raw.ttl(SIDE).await > 2_000);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn nobody_stands_behind_a_single_try_or_a_writer_that_cannot_get_in() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (me, other) = (owner(), owner());
    store.acquire(&read(me, 1)).await.unwrap();
    assert!(is_busy(&store.acquire(&write(other, 1)).await.unwrap()));
    // One that reads itself would wait for ever.
    assert!(is_busy(&store.acquire(&claim(WAITING, me, 1)).await.unwrap()));
    // A hold that was lost cannot be re-entered.
    assert!(is_busy(&store.acquire(&claim(WAITING, other, 2)).await.unwrap()));
    assert!(!raw.run::<bool>(&format!("EXISTS {SIDE}")).await);
    store.release(&read(me, 0)).await.unwrap();
    // Behind a writer everybody is equal.
    store.acquire(&write(me, 1)).await.unwrap();
    assert!(busy_for(store.acquire(&claim(WAITING, other, 1)).await.unwrap()) > 20_000);
    assert!(!raw.run::<bool>(&format!("EXISTS {SIDE}")).await);
}

/// Or readers would stand behind it once more when its lease has ended.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_writer_that_waited_and_enters_by_a_single_try_waits_no_longer() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (reader, writer) = (owner(), owner());
    store.acquire(&read(reader, 1)).await.unwrap();
    assert!(is_busy(&store.acquire(&claim(WAITING, writer, 1)).await.unwrap()));
    assert_eq!(store.release(&read(reader, 0)).await.unwrap(), LEFT);
    assert_eq!(store.acquire(&write(writer, 1)).await.unwrap(), ACQUIRED);
    assert_eq!(raw.all_keys().await, ["k"]);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_writer_that_gives_up_lets_the_readers_behind_it_in() {
    promptly(PROMPT, a_writer_gives_up).await;
}

async fn a_writer_gives_up() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let (writer, other) = (owner(), owner());
    let channel = "redisson_rwlock:{k}";
    let mut messages = Messages::of(&server, channel).await;
    store.acquire(&read(owner(), 1)).await.unwrap();
    store.acquire(&claim(WAITING, writer, 1)).await.unwrap();

    // Somebody else's end changes nothing.
    store.give_up(&claim(WAITING, other, 0)).await.unwrap();
    assert_eq!(store.release(&claim(WAITING, other, 0)).await.unwrap(), Released::NotHeld);
    assert!(raw.run::<bool>(&format!("EXISTS {SIDE}")).await);

    for _ in 0..2 {
        store.give_up(&claim(WAITING, writer, 1)).await.unwrap();
    }
    assert_eq!(messages.next(channel).await, "1");
    assert!(!raw.run::<bool>(&format!("EXISTS {SIDE}")).await);
    assert_eq!(store.acquire(&read(other, 1)).await.unwrap(), ACQUIRED);

    // An acquisition whose answer was lost is taken back by a release.
    store.acquire(&claim(WAITING, writer, 1)).await.unwrap();
    assert_eq!(store.release(&claim(WAITING, writer, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(messages.next(channel).await, "1");
    assert!(!raw.run::<bool>(&format!("EXISTS {SIDE}")).await);
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_writer_that_has_the_lock_loses_it_when_it_gives_up() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    let me = owner();
    store.acquire(&claim(WAITING, me, 1)).await.unwrap();
    store.acquire(&claim(WAITING, me, 2)).await.unwrap();
    store.give_up(&claim(WAITING, me, 1)).await.unwrap();
    assert!(raw.all_keys().await.is_empty());
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test"]
async fn a_forced_release_ends_the_standing_as_well() {
    let server = Server::start().await;
    let (store, mut raw) = (server.store().await, server.raw().await);
    store.acquire(&read(owner(), 1)).await.unwrap();
    store.acquire(&claim(WAITING, owner(), 1)).await.unwrap();
    store.force(ClaimKind::Read, "k").await.unwrap();
    assert!(raw.all_keys().await.is_empty());
}
