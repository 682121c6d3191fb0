//! What stays behind, and what must not.

use rustix::fs::{CWD, FlockOperation, Mode};

use super::lives::{write_dead, write_life};
use super::*;

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
