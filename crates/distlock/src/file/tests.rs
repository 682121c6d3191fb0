mod listen;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

use super::*;
use crate::env::{System, Virtual};
use crate::owner::Owner;

/// A directory that is gone when the test is.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Temp {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("distlock-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    fn store(&self) -> Arc<FileStore> {
        FileStore::open(&self.0, Arc::new(System)).unwrap()
    }

    /// A store on tokio's clock, which the test has paused.
    fn store_in_virtual_time(&self) -> Arc<FileStore> {
        FileStore::open(&self.0, Arc::new(Virtual::new())).unwrap()
    }

    fn state_files(&self) -> Vec<String> {
        Dir::open(&self.0).unwrap().names().unwrap()
    }

    fn state_file(&self, name: &str) -> PathBuf {
        self.0.join(Place::of(name).file)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

fn claim(name: &str) -> Claim {
    Claim {
        name: name.into(),
        owner: Owner::mint(Uuid::new_v4()),
        lease: Duration::from_secs(30),
        depth: 1,
        heir_of: None,
        what: What::Exclusive,
        info: None,
    }
}

fn at_depth(claim: &Claim, depth: u32) -> Claim {
    Claim { depth, ..claim.clone() }
}

async fn renewed(store: &FileStore, claim: &Claim) -> bool {
    store.renew(std::slice::from_ref(claim)).await.remove(0).unwrap()
}

const ACQUIRED: Attempt = Attempt::Acquired { token: None };

fn is_busy(attempt: &Attempt) -> bool {
    matches!(attempt, Attempt::Busy { .. })
}

#[tokio::test]
async fn two_stores_on_one_directory_exclude_each_other() {
    let temp = Temp::new();
    let (one, two) = (temp.store(), temp.store());
    let (a, b) = (claim("k"), claim("k"));
    assert_eq!(one.acquire(&a).await.unwrap(), ACQUIRED);
    let Attempt::Busy { ttl } = two.acquire(&b).await.unwrap() else { panic!("both hold it") };
    assert!(ttl > Duration::from_secs(29) && ttl <= Duration::from_secs(30), "{ttl:?}");
    assert_eq!(two.inspect(What::Exclusive, "k").await.unwrap().depth_of(&a.owner), 1);

    let freed = one.release(&at_depth(&a, 0)).await.unwrap();
    assert!(matches!(freed, Released::Freed { .. }));
    assert_eq!(two.acquire(&b).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn steps_done_twice_change_nothing_more() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    for depth in [1, 1, 2, 2] {
        assert_eq!(store.acquire(&at_depth(&a, depth)).await.unwrap(), ACQUIRED);
        assert_eq!(store.inspect(What::Exclusive, "k").await.unwrap().depth_of(&a.owner), depth);
    }
    for _ in 0..2 {
        assert_eq!(store.release(&at_depth(&a, 1)).await.unwrap(), Released::StillHeld);
        assert_eq!(store.inspect(What::Exclusive, "k").await.unwrap().depth_of(&a.owner), 1);
    }
    assert!(matches!(store.release(&at_depth(&a, 0)).await.unwrap(), Released::Freed { .. }));
    assert_eq!(store.release(&at_depth(&a, 0)).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn strangers_can_neither_release_nor_renew() {
    let temp = Temp::new();
    let store = temp.store();
    let (a, b) = (claim("k"), claim("k"));
    store.acquire(&a).await.unwrap();
    assert_eq!(store.release(&at_depth(&b, 0)).await.unwrap(), Released::NotHeld);
    let answers = store.renew(&[b.clone(), a.clone(), claim("free")]).await;
    let answers: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(answers, [false, true, false]);
    assert!(is_busy(&store.acquire(&b).await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_by_itself_and_a_renewal_moves_its_end() {
    let temp = Temp::new();
    let store = temp.store_in_virtual_time();
    let (a, b) = (claim("k"), claim("k"));
    store.acquire(&a).await.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert!(renewed(&store, &a).await);
    tokio::time::advance(Duration::from_secs(29)).await;
    assert!(is_busy(&store.acquire(&b).await.unwrap()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!store.inspect(What::Exclusive, "k").await.unwrap().is_held());
    assert!(!renewed(&store, &a).await);
    assert_eq!(store.release(&at_depth(&a, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.acquire(&b).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn a_hold_passes_to_its_heir_and_to_nobody_else() {
    let temp = Temp::new();
    let store = temp.store();
    let (a, b) = (claim("k"), claim("k"));
    store.acquire(&a).await.unwrap();
    let wrong = Claim { heir_of: Some(claim("k").owner), ..b.clone() };
    assert!(is_busy(&store.acquire(&wrong).await.unwrap()));
    let heir = Claim { heir_of: Some(a.owner), ..b.clone() };
    assert_eq!(store.acquire(&heir).await.unwrap(), ACQUIRED);
    assert_eq!(store.release(&at_depth(&a, 0)).await.unwrap(), Released::NotHeld);
    assert_eq!(store.inspect(What::Exclusive, "k").await.unwrap().depth_of(&b.owner), 1);
}

#[tokio::test]
async fn a_free_lock_leaves_no_state_behind() {
    let temp = Temp::new();
    let store = temp.store();
    for number in 0..200 {
        let a = claim(&format!("order:{number}"));
        store.acquire(&a).await.unwrap();
        store.release(&at_depth(&a, 0)).await.unwrap();
    }
    assert_eq!(temp.state_files(), Vec::<String>::new());
    assert!(fs::read_dir(&temp.0).unwrap().count() <= 64, "only the lock files stay");
}

#[tokio::test]
async fn a_hold_of_another_boot_has_expired() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let text = fs::read_to_string(temp.state_file("k")).unwrap();
    fs::write(temp.state_file("k"), text.replace(&store.boot, "another-boot")).unwrap();
    assert!(!store.inspect(What::Exclusive, "k").await.unwrap().is_held());
    assert!(!renewed(&store, &a).await);
    assert_eq!(temp.state_files(), Vec::<String>::new());
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_a_conflict_and_stays_untouched() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let good = fs::read(temp.state_file("k")).unwrap();
    let other_name = String::from_utf8(good.clone()).unwrap().replace("name k", "name l");
    let newer = String::from_utf8(good.clone()).unwrap().replace("distlock 1", "distlock 2");
    let mut bad: Vec<Vec<u8>> = (0..good.len()).map(|end| good[..end].to_vec()).collect();
    bad.extend([other_name.into(), newer.into(), b"\xff\xfe".to_vec(), vec![b'x'; 100_000]]);
    for text in bad {
        fs::write(temp.state_file("k"), &text).unwrap();
        let errors = [
            store.acquire(&claim("k")).await.unwrap_err(),
            store.release(&at_depth(&a, 0)).await.unwrap_err(),
            store.renew(std::slice::from_ref(&a)).await.remove(0).unwrap_err(),
            store.inspect(What::Exclusive, "k").await.unwrap_err(),
            store.force(What::Exclusive, "k").await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let path = temp.state_file("k").canonicalize().unwrap();
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(fs::read(temp.state_file("k")).unwrap(), text);
    }
}

#[tokio::test]
async fn a_directory_or_a_link_in_the_way_is_a_conflict() {
    let temp = Temp::new();
    let store = temp.store();
    fs::create_dir(temp.state_file("dir")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", temp.state_file("link")).unwrap();
    for name in ["dir", "link"] {
        let error = store.acquire(&claim(name)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
}

#[tokio::test]
async fn what_crashes_leave_does_not_stand_in_the_way() {
    let temp = Temp::new();
    let draft = temp.0.join(Place::of("k").draft_file());
    fs::write(&draft, "distlock 1\nname").unwrap(); // its writer was killed
    let emptied = fs::File::create(temp.state_file("k")).unwrap(); // by a power cut
    emptied.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(temp.store().acquire(&claim("k")).await.unwrap(), ACQUIRED);
    assert!(!draft.exists());
}

#[tokio::test]
async fn force_frees_and_tells_what_stood_there() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let before = store.force(What::Exclusive, "k").await.unwrap();
    assert_eq!(before.depth_of(&a.owner), 1);
    assert!(!store.force(What::Exclusive, "k").await.unwrap().is_held());
    assert!(!renewed(&store, &a).await);
}

#[tokio::test]
async fn list_shows_held_locks_by_prefix_whatever_else_lies_there() {
    let temp = Temp::new();
    let store = temp.store();
    for name in ["job:b", "job:a", "other", "job:../x"] {
        store.acquire(&claim(name)).await.unwrap();
    }
    store.acquire(&Claim { lease: Duration::ZERO, ..claim("job:dead") }).await.unwrap();
    fs::write(temp.0.join("job%3Aforeign"), "not ours").unwrap();
    let names: Vec<_> =
        store.list("job:").await.unwrap().into_iter().map(|lock| lock.name.to_string()).collect();
    assert_eq!(names, ["job:../x", "job:a", "job:b"]);
    assert!(!temp.state_file("job:dead").exists(), "what a dead holder left is swept");
    assert_eq!(store.list("").await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_stopped_process_inside_costs_a_bounded_wait() {
    let temp = Temp::new();
    let (store, other) = (temp.store(), temp.store());
    let place = Place::of("k");
    let inside = other.dir.try_enter(&place).unwrap().unwrap();
    let began = std::time::Instant::now();
    let error = store.acquire(&claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() >= REPLY_TIMEOUT && began.elapsed() < 3 * REPLY_TIMEOUT);
    drop(inside);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_storm_of_claims_has_one_winner_at_a_time() {
    let temp = Temp::new();
    let inside = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, inside) = (temp.store(), inside.clone());
            tokio::spawn(async move {
                let mine = claim("k");
                let mut wins = 0;
                while wins < 20 {
                    if is_busy(&store.acquire(&mine).await.unwrap()) {
                        tokio::task::yield_now().await;
                        continue;
                    }
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    store.release(&at_depth(&mine, 0)).await.unwrap();
                    wins += 1;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(temp.state_files(), Vec::<String>::new());
}

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
