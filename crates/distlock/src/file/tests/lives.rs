//! Who counts as dead, and what becomes of what they had.

use std::os::fd::AsFd;

use rustix::fs::FlockOperation;

use super::super::life::{Lives, State, boot_id};
use super::super::record::Ear;
use super::*;

/// A file that says that there was such a process.
pub(super) fn write_life(temp: &Temp, text: &str) -> Uuid {
    let id = Uuid::new_v4();
    fs::write(temp.0.join(format!("life-{}", id.simple())), text).unwrap();
    id
}

/// The file of one that is dead.
pub(super) fn write_dead(temp: &Temp) -> Uuid {
    write_life(temp, &life_text(boot_id().unwrap()))
}

/// What a process writes there that this one cannot see.
pub(super) fn life_text(boot: Uuid) -> String {
    format!("distlock 2\npid 7\nstart 7\nnamespace 7\nboot {boot}\nend\n")
}

/// Locks the file of a process, which lives for as long as the result does.
pub(super) fn lock_life(temp: &Temp, id: Uuid) -> fs::File {
    let path = temp.0.join(format!("life-{}", id.simple()));
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    // Whoever looked at it may have started a child in that moment, which lets go of it when it runs its program.
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    file
}

fn own_life(temp: &Temp) -> String {
    let store = temp.store();
    let id = store.hub.id().unwrap();
    fs::read_to_string(temp.0.join(format!("life-{}", id.simple()))).unwrap()
}

fn state(temp: &Temp, id: Uuid) -> State {
    let dir = super::super::dir::Dir::open(&temp.0).unwrap();
    Lives::new(boot_id().unwrap()).state(&dir, id)
}

fn with(text: &str, key: &str, value: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(' ') {
        Some((known, _)) if known == key => format!("{key} {value}\n"),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

#[test]
fn two_witnesses_have_to_agree_that_a_process_is_dead() {
    let temp = Temp::new();
    let own = own_life(&temp);
    // Its lock is free, but a process with that pid and start time runs: this one.
    assert_eq!(state(&temp, write_life(&temp, &own)), State::Alive);
    // The pid is another process's now.
    assert_eq!(state(&temp, write_life(&temp, &with(&own, "start", "1"))), State::Dead);
    assert_eq!(state(&temp, write_life(&temp, &with(&own, "pid", "2147483647"))), State::Dead);
    assert_eq!(
        state(&temp, write_life(&temp, &with(&own, "boot", &Uuid::nil().to_string()))),
        State::Dead
    );
    // It died before it had written all of it.
    assert_eq!(state(&temp, write_life(&temp, "distlock 2\npid")), State::Dead);
    // It died before it had written anything, or is about to.
    assert_eq!(state(&temp, write_life(&temp, "")), State::Unborn);
    // From another pid namespace only the lock can be seen.
    let elsewhere = with(&own, "namespace", "7");
    let id = write_life(&temp, &elsewhere);
    assert_eq!(state(&temp, id), State::Dead);
    let _locked = lock_life(&temp, id);
    assert_eq!(state(&temp, id), State::Alive);
    // Who has left no trace may be alive.
    assert_eq!(state(&temp, Uuid::new_v4()), State::Unknown);
}

#[test]
fn what_is_not_a_process_s_file_is_not_waited_for() {
    let temp = Temp::new();
    let (pipe, link) = (Uuid::new_v4(), Uuid::new_v4());
    let path = |id: Uuid| temp.0.join(format!("life-{}", id.simple()));
    rustix::fs::mkfifoat(rustix::fs::CWD, path(pipe), rustix::fs::Mode::RWXU).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path(link)).unwrap();
    let _store = temp.store();
    let dir = super::super::dir::Dir::open(&temp.0).unwrap();
    for id in [pipe, link] {
        assert_eq!(state(&temp, id), State::Unknown);
        assert!(Lives::new(boot_id().unwrap()).end_of(&dir, id).is_none());
        assert!(path(id).symlink_metadata().is_ok(), "it stays");
    }
}

/// Takes it as a process that is dead now.
pub(super) async fn take_as(store: &FileStore, claim: &Claim, process: Uuid) {
    assert_eq!(store.acquire(claim).await.unwrap(), ACQUIRED);
    disown(store, &claim.name, process);
}

fn disown(store: &FileStore, name: &str, process: Uuid) {
    let mut work = Some(|turn: &mut Turn<'_>| {
        turn.record.people.iter_mut().for_each(|person| person.process = process);
        Ok(())
    });
    store.hub.try_step(name, &|| store.env.now(), &mut work).unwrap().unwrap();
}

#[tokio::test]
async fn whatever_the_dead_had_is_free() {
    let temp = Temp::new();
    let store = temp.store();
    let dead = write_dead(&temp);
    let kinds = [
        ClaimKind::Exclusive,
        ClaimKind::Fair { patience: None },
        ClaimKind::Read,
        ClaimKind::Write { waits: false },
        ClaimKind::Simple,
        ClaimKind::Permits { count: 3, initial: Some(3) },
        ClaimKind::LeasedPermits { count: 3, initial: Some(3) },
    ];
    for (number, what) in kinds.into_iter().enumerate() {
        take_as(&store, &Claim { kind: what, ..claim(&format!("k{number}")) }, dead).await;
    }
    for (number, what) in kinds.into_iter().enumerate() {
        let other = match what {
            ClaimKind::Read => ClaimKind::Write { waits: false },
            other => other,
        };
        let next = Claim { kind: other, ..claim(&format!("k{number}")) };
        assert_eq!(store.acquire(&next).await.unwrap(), ACQUIRED, "{what:?}");
    }
    assert!(!temp.0.join(format!("life-{}", dead.simple())).exists(), "nobody needs it any more");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_keeps_nothing_in_the_others() {
    let temp = Temp::new();
    let store = temp.store();
    let dead = write_dead(&temp);
    let names = ["k0", "k1", "k2"].map(|name| (Place::of(name).stripe, name));
    let (_, bad) = names.into_iter().min().unwrap();
    let (_, good) = names.into_iter().max().unwrap();
    for name in [bad, good] {
        take_as(&store, &claim(name), dead).await;
    }
    let held = fs::read(temp.state_file(bad)).unwrap();
    fs::write(temp.state_file(bad), "not ours").unwrap();
    assert_eq!(store.acquire(&claim(good)).await.unwrap(), ACQUIRED);
    // It is not forgotten before all of it is free.
    fs::write(temp.state_file(bad), held).unwrap();
    assert_eq!(store.acquire(&claim(bad)).await.unwrap(), ACQUIRED);
    assert!(!temp.0.join(format!("life-{}", dead.simple())).exists());
}

#[tokio::test(start_paused = true)]
async fn the_places_and_marks_of_the_dead_are_free() {
    let temp = Temp::new();
    let store = temp.store_in_virtual_time();
    let dead = write_dead(&temp);
    // First in line, and it listens no more.
    let patience = Some(Duration::from_secs(300));
    let fair = |name| Claim { kind: ClaimKind::Fair { patience }, ..claim(name) };
    let (holder, waiter, next) = (fair("fair"), fair("fair"), fair("fair"));
    assert_eq!(store.acquire(&holder).await.unwrap(), ACQUIRED);
    assert!(is_busy(&store.acquire(&waiter).await.unwrap()));
    let mut work = Some(|turn: &mut Turn<'_>| {
        let place = turn.record.people.iter_mut().find(|person| person.owner == waiter.owner);
        place.unwrap().process = dead;
        turn.record.ears.push(Ear { process: dead, waiter: Some(waiter.owner), calls: 0 });
        Ok(())
    });
    store.hub.try_step("fair", &|| store.env.now(), &mut work).unwrap().unwrap();
    store.release(&at_depth(&holder, 0)).await.unwrap();
    assert_eq!(store.acquire(&next).await.unwrap(), ACQUIRED);
    // A writer that waits, behind which readers stand.
    let reader = Claim { kind: ClaimKind::Read, ..claim("rw") };
    assert_eq!(store.acquire(&reader).await.unwrap(), ACQUIRED);
    let dead = write_dead(&temp);
    let writer = Claim { kind: ClaimKind::Write { waits: true }, ..claim("rw") };
    assert!(is_busy(&store.acquire(&writer).await.unwrap()));
    let late = Claim { kind: ClaimKind::Read, ..claim("rw") };
    assert!(is_busy(&store.acquire(&late).await.unwrap()));
    let mut work = Some(|turn: &mut Turn<'_>| {
        let mark = turn.record.people.iter_mut().find(|person| person.owner == writer.owner);
        mark.unwrap().process = dead;
        Ok(())
    });
    store.hub.try_step("rw", &|| store.env.now(), &mut work).unwrap().unwrap();
    assert_eq!(store.acquire(&late).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn nobody_who_may_be_alive_is_swept() {
    let temp = Temp::new();
    let store = temp.store();
    let alive = write_life(&temp, &own_life(&temp));
    take_as(&store, &claim("k"), alive).await;
    take_as(&store, &claim("l"), Uuid::new_v4()).await; // unknown
    for name in ["k", "l"] {
        assert!(is_busy(&store.acquire(&claim(name)).await.unwrap()), "{name}");
    }
}

/// It has made its file, and is slow to lock it: a sweep that has begun by then must not take what it gets.
#[tokio::test(start_paused = true)]
async fn whoever_is_being_born_is_not_swept() {
    let temp = Temp::new();
    let store = temp.store_in_virtual_time();
    let newborn = write_life(&temp, "");
    let names = ["k0", "k1", "k2"].map(|name| (Place::of(name).stripe, name));
    let (_, first) = names.into_iter().min().unwrap();
    let (_, last) = names.into_iter().max().unwrap();
    store.acquire(&claim(first)).await.unwrap();
    // A sweep comes this far and waits.
    let other = fs::File::open(temp.state_file(first)).unwrap();
    rustix::fs::flock(&other, FlockOperation::LockExclusive).unwrap();
    let processes = [newborn];
    let mut sweep = std::pin::pin!(store.sweep_dead(&processes));
    let swept = tokio::time::timeout(Duration::from_secs(1), sweep.as_mut()).await;
    let mut life = lock_life(&temp, newborn);
    std::io::Write::write_all(&mut life, life_text(boot_id().unwrap()).as_bytes()).unwrap();
    let held = claim(last);
    take_as(&store, &held, newborn).await;
    unlock(other);
    if swept.is_err() {
        sweep.await;
    }
    assert!(renewed(&store, &held).await, "it was taken away from one who lives");
}

#[test]
fn whoever_is_buried_while_it_is_being_born_is_born_again() {
    use super::super::life::{breathe, bury};
    let temp = Temp::new();
    let dir = super::super::dir::Dir::open(&temp.0).unwrap();
    let boot = boot_id().unwrap();
    let make = || {
        let id = Uuid::new_v4();
        let path = temp.0.join(format!("life-{}", id.simple()));
        (id, dir.create(&path, rustix::fs::OFlags::RDWR).unwrap(), path)
    };
    // All of it before it locks its file.
    let (id, file, path) = make();
    bury(&dir, id);
    assert!(breathe(file, &path, boot).unwrap().is_none());
    // Somebody looks at it in that moment, to bury it.
    let (_, file, path) = make();
    let other = fs::File::open(&path).unwrap();
    rustix::fs::flock(&other, FlockOperation::LockShared).unwrap();
    assert!(breathe(file, &path, boot).unwrap().is_none());
    assert_eq!(temp.files(), Vec::<String>::new());
    // Nobody buries one that lives.
    let (id, file, path) = make();
    let _lives = breathe(file, &path, boot).unwrap().unwrap();
    bury(&dir, id);
    assert_eq!(state(&temp, id), State::Alive);
}

#[tokio::test]
async fn what_holders_say_goes_with_them() {
    use crate::HolderInfo;
    let temp = Temp::new();
    let store = temp.store();
    let text = "host=web-3&pid=7&service=billing&at=1&waited=2";
    let info = Arc::new(HolderInfo::from_text(text).unwrap());
    let a = Claim { info: Some(info.clone()), ..claim("k") };
    store.acquire(&a).await.unwrap();
    let seen = store.inspect(ClaimKind::Exclusive, "k").await.unwrap();
    assert_eq!(seen.holders[0].info.as_ref(), Some(&*info));
    assert_eq!(store.list("").await.unwrap()[0].holders, seen.holders);
    let _ear = store.listen(&a).await.unwrap();
    assert_eq!(store.inspect(ClaimKind::Exclusive, "k").await.unwrap().waiters, Some(1));
    // Its heir says nothing of itself.
    let heir = Claim { heir_of: Some(a.owner), ..claim("k") };
    store.acquire(&heir).await.unwrap();
    let seen = store.inspect(ClaimKind::Exclusive, "k").await.unwrap();
    assert_eq!(seen.holders[0].info, None);
}

#[tokio::test]
async fn a_process_whose_file_was_removed_is_seen_again() {
    let temp = Temp::new();
    let store = temp.store();
    let id = store.hub.id().unwrap();
    let path = temp.0.join(format!("life-{}", id.simple()));
    let before = fs::read(&path).unwrap();
    store.acquire(&claim("k")).await.unwrap();
    for _ in 0..2 {
        fs::remove_file(&path).unwrap();
        assert_eq!(state(&temp, id), State::Unknown);
        store.acquire(&claim("l")).await.unwrap();
        assert_eq!(state(&temp, id), State::Alive);
        assert_eq!(fs::read(&path).unwrap(), before);
        let file = fs::File::open(&path).unwrap();
        let lock = rustix::fs::flock(file.as_fd(), FlockOperation::NonBlockingLockShared);
        assert!(lock.is_err(), "its lock is what others see from afar");
    }
    assert_eq!(temp.files().iter().filter(|file| file.starts_with("life-")).count(), 1);
}
