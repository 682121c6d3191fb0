//! What stays behind, and what must not.

use rustix::fs::{CWD, FlockOperation, Mode};

use super::lives::{take_as, write_dead, write_life};
use super::*;
use crate::store::LatchOp;

#[tokio::test]
async fn what_was_left_half_done_is_cleared_away() {
    let temp = Temp::new();
    let path = |name: String| temp.0.join(name);
    let fresh = |id: Uuid| path(format!("life-{}.new", id.simple()));
    let bell = |id: Uuid| path(format!("bell-{}", id.simple()));
    let ids = [(); 5].map(|()| Uuid::new_v4());
    // Killed before it was seen again; and one that is about to be.
    fs::write(fresh(ids[0]), "").unwrap();
    fs::write(fresh(ids[1]), "").unwrap();
    let locked = fs::File::open(fresh(ids[1])).unwrap();
    rustix::fs::flock(&locked, FlockOperation::LockExclusive).unwrap();
    // Nobody hears it; somebody does; it is no bell.
    let hang = |id| rustix::fs::mkfifoat(CWD, bell(id), Mode::RWXU).unwrap();
    hang(ids[2]);
    hang(ids[3]);
    let reader = fs::File::options().read(true).write(true).open(bell(ids[3])).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(bell(ids[4])).unwrap();
    // Its process is known: it goes with that, once what that held is free.
    let known = write_dead(&temp);
    hang(known);
    let other = path("life-what.new".to_owned());
    fs::write(&other, "not ours").unwrap();
    let unusable = path("locks-63".to_owned());
    fs::write(&unusable, "not ours").unwrap();
    let store = temp.store();
    assert!(!fresh(ids[0]).exists() && fresh(ids[1]).exists());
    assert!(!bell(ids[2]).exists() && bell(ids[3]).exists() && bell(ids[4]).exists());
    assert!(bell(known).exists() && other.exists());
    drop((store, locked, reader, socket));
}

#[tokio::test]
async fn whoever_died_of_being_born_is_cleared_away_at_once() {
    let temp = Temp::new();
    write_life(&temp, "");
    let _store = temp.store();
    assert_eq!(temp.files(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_no_name_of_whoever_leaves() {
    let temp = Temp::new();
    fs::write(temp.state_file("bad"), "not ours").unwrap();
    let store = temp.store();
    let a = claim("good");
    assert_ne!(temp.state_file("good"), temp.state_file("bad"));
    store.acquire(&a).await.unwrap();
    store.release(&at_depth(&a, 0)).await.unwrap();
    drop(store);
    let left = temp.files();
    assert!(!left.iter().any(|file| file.starts_with("life-")), "{left:?}");
    // What is held keeps it.
    let store = temp.store();
    store.acquire(&a).await.unwrap();
    drop(store);
    assert!(temp.files().iter().any(|file| file.starts_with("life-")));
}

#[tokio::test]
async fn a_latch_that_was_counted_down_leaves_nothing_behind() {
    let temp = Temp::new();
    let store = temp.store();
    let request = claim("latch").owner;
    let latch = async |op| store.admin("latch", &Admin::Latch(op)).await.unwrap();
    assert_eq!(latch(LatchOp::Init(1)).await, 1);
    assert_eq!(latch(LatchOp::CountDown { request }).await, 0);
    assert_eq!(latch(LatchOp::CountDown { request }).await, 0);
    assert_eq!(latch(LatchOp::Forget { request }).await, 1);
    assert_eq!(latch(LatchOp::Count).await, 0);
    drop(store);
    assert_eq!(temp.files(), Vec::<String>::new());
}

/// The first look left a place in line: whoever hears that it is busy gives that back.
#[tokio::test(start_paused = true)]
async fn whoever_may_stand_in_line_is_not_told_that_nothing_was_done() {
    let temp = Temp::new();
    let store = temp.store_in_virtual_time();
    let patience = Some(Duration::from_secs(300));
    let fair = || Claim { kind: ClaimKind::Fair { patience }, ..claim("k") };
    let dead = write_dead(&temp);
    take_as(&store, &fair(), dead).await;
    let mine = fair();
    let mut attempt = std::pin::pin!(store.acquire(&mine));
    // It has looked, and waits before it takes what the dead had.
    let early = tokio::time::timeout(sweep::GRACE / 2, attempt.as_mut()).await;
    assert!(early.is_err(), "{early:?}");
    let seen = store.hub.try_read(Place::of("k").stripe).unwrap().unwrap();
    assert!(seen[0].1.people.iter().any(|person| person.owner == mine.owner), "{seen:?}");
    // Somebody else sweeps it meanwhile, and then one is inside who is stopped.
    fs::remove_file(temp.0.join(format!("life-{}", dead.simple()))).unwrap();
    let other = fs::File::open(temp.state_file("k")).unwrap();
    rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
    assert!(is_busy(&attempt.await.unwrap()));
    // Nothing was done before: that is what is said.
    let error = store.acquire(&fair()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    unlock(other);
    store.give_up(&mine).await.unwrap();
}
