//! The directory: what becomes of it, and who may use what is in it.

use std::collections::HashSet;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};

use super::*;
use crate::file::dir::Dir;

#[test]
fn open_says_what_is_wrong_with_the_directory() {
    let temp = Temp::new();
    let file = temp.0.join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = FileStore::open(&path, Arc::new(System)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
    let nested = temp.0.join("a/b");
    FileStore::open(&nested, Arc::new(System)).unwrap();
    assert_eq!(fs::metadata(nested).unwrap().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn a_directory_that_was_moved_away_guards_nothing() {
    let temp = Temp::new();
    let dir = temp.0.join("locks");
    let store = FileStore::open(&dir, Arc::new(System)).unwrap();
    let a = claim("k");
    assert_eq!(store.acquire(&a).await.unwrap(), ACQUIRED);
    fs::rename(&dir, temp.0.join("old")).unwrap();
    fs::create_dir(&dir).unwrap();
    // As another process makes it.
    fs::write(dir.join(temp.state_file("k").file_name().unwrap()), "").unwrap();
    assert!(!renewed(&store, &a).await, "others lock another file");
    let b = claim("k");
    assert_eq!(store.acquire(&b).await.unwrap(), ACQUIRED);
    assert!(is_busy(&store.acquire(&claim("k")).await.unwrap()));
    let names = fs::read_dir(&dir).unwrap().map(|file| file.unwrap().file_name());
    let locks = names.filter(|name| name.to_str().unwrap().starts_with("locks-"));
    assert_eq!(locks.count(), 1);
    store.release(&at_depth(&b, 0)).await.unwrap();
}

#[tokio::test]
async fn whoever_may_write_to_the_directory_may_use_its_files() {
    let modes = [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660), (0o775, 0o660), (0o1777, 0o666)];
    for (dir, file) in modes {
        let temp = Temp::new();
        fs::set_permissions(&temp.0, fs::Permissions::from_mode(dir)).unwrap();
        let store = temp.store();
        let a = claim("k");
        store.acquire(&a).await.unwrap();
        let _ear = store.listen(&a).await.unwrap();
        assert_eq!(temp.files().len(), 3);
        for name in temp.files() {
            let mode = fs::metadata(temp.0.join(&name)).unwrap().mode();
            assert_eq!(mode & 0o777, file, "{name} in a directory of mode {dir:o}");
        }
    }
}

/// Gives it to somebody else; says so where that takes more than this user may do.
fn give(path: &Path, (user, group): (u32, u32)) -> bool {
    let given = chown(path, Some(user), Some(group)).is_ok();
    if !given {
        // Not by `eprintln!`, which nobody sees of a test that passes.
        let why = "SKIPPED: files of several users: this one cannot give any away";
        writeln!(std::io::stderr(), "{why}").unwrap();
    }
    given
}

#[tokio::test]
async fn what_root_makes_in_somebody_s_directory_is_that_one_s() {
    for (dir, file) in [(0o700, 0o600), (0o755, 0o600), (0o770, 0o660)] {
        let temp = Temp::new();
        fs::set_permissions(&temp.0, fs::Permissions::from_mode(dir)).unwrap();
        if !give(&temp.0, (65534, 65533)) {
            return;
        }
        // One that it made and was killed before it was shared.
        fs::write(temp.state_file("k"), "").unwrap();
        fs::set_permissions(temp.state_file("k"), fs::Permissions::from_mode(0o600)).unwrap();
        let store = temp.store();
        let a = claim("k");
        for a in [&a, &claim("l")] {
            assert_eq!(store.acquire(a).await.unwrap(), ACQUIRED);
        }
        let _ear = store.listen(&a).await.unwrap();
        assert_eq!(temp.files().len(), 4);
        for name in temp.files() {
            let meta = fs::metadata(temp.0.join(&name)).unwrap();
            assert_eq!((meta.uid(), meta.gid()), (65534, 65533), "{name}");
            assert_eq!(meta.mode() & 0o777, file, "{name} in a directory of mode {dir:o}");
        }
    }
}

#[tokio::test]
async fn what_is_another_s_stays_that_one_s() {
    let temp = Temp::new();
    let path = temp.state_file("k");
    fs::write(&path, "").unwrap();
    if !give(&temp.0, (65534, 65533)) || !give(&path, (65532, 65531)) {
        return;
    }
    assert_eq!(temp.store().acquire(&claim("k")).await.unwrap(), ACQUIRED);
    assert_eq!(fs::metadata(&path).unwrap().uid(), 65532);
}

#[tokio::test]
async fn a_file_whose_maker_was_killed_is_shared_by_the_next() {
    let temp = Temp::new();
    fs::set_permissions(&temp.0, fs::Permissions::from_mode(0o770)).unwrap();
    let path = temp.state_file("k");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let store = temp.store();
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o660);
}

/// Of another user, who is refused what is not shared, and told that it is for good.
#[cfg(target_os = "linux")]
#[test]
fn nobody_finds_a_file_that_is_not_shared_yet() {
    let temp = Temp::new();
    fs::set_permissions(&temp.0, fs::Permissions::from_mode(0o1777)).unwrap();
    let dir = Dir::open(&temp.0).unwrap();
    if rustix::fs::open(&temp.0, OFlags::RDWR | OFlags::TMPFILE, Mode::RUSR).is_err() {
        return; // not every file system can do it
    }
    let path = dir.file("k");
    let done = AtomicBool::new(false);
    std::thread::scope(|all| {
        let looks = all.spawn(|| {
            let mut modes = HashSet::new();
            while !done.load(Ordering::Acquire) {
                modes.extend(fs::metadata(&path).map(|meta| meta.mode() & 0o777));
            }
            modes
        });
        for _ in 0..5_000 {
            drop(dir.create(&path, OFlags::RDWR).unwrap());
            fs::remove_file(&path).unwrap();
        }
        done.store(true, Ordering::Release);
        let seen = looks.join().unwrap();
        assert!(!seen.contains(&0o600), "{seen:?}");
    });
    assert!(temp.files().is_empty());
}
