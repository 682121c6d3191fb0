mod boots;
mod codes;
mod dirs;
mod leftovers;
mod listen;
mod lives;
mod torn;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use uuid::Uuid;

use super::name::Place;
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

    /// The names of all files.
    fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.0)
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn state_file(&self, name: &str) -> PathBuf {
        self.0.join(format!("locks-{:02}", Place::of(name).stripe))
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        // The thread that hears may be at work there just now.
        let gone = (0..100).any(|_| fs::remove_dir_all(&self.0).is_ok());
        assert!(gone || std::thread::panicking(), "{} stays", self.0.display());
    }
}

/// A store, and the directory that goes with it.
#[cfg(feature = "redis")]
pub(crate) fn passing_store() -> (Box<dyn std::any::Any>, Arc<FileStore>) {
    let temp = Temp::new();
    let store = temp.store();
    (Box::new(temp), store)
}

fn claim(name: &str) -> Claim {
    Claim {
        name: name.into(),
        owner: Owner::mint(Uuid::new_v4()),
        lease: LEASE,
        depth: 1,
        heir_of: None,
        kind: ClaimKind::Exclusive,
        info: None,
    }
}

const HOUR: Duration = Duration::from_secs(3600);

/// One that does not end while a test runs.
fn for_an_hour(claim: Claim) -> Claim {
    Claim { lease: HOUR, ..claim }
}

fn at_depth(claim: &Claim, depth: u32) -> Claim {
    Claim { depth, ..claim.clone() }
}

/// Ends a lock. Closing alone would not do: a child that another test starts in this moment has the file open until it runs
/// its program.
fn unlock(file: fs::File) {
    rustix::fs::flock(&file, rustix::fs::FlockOperation::Unlock).unwrap();
    drop(file);
}

async fn renewed(store: &FileStore, claim: &Claim) -> bool {
    store.renew(std::slice::from_ref(claim)).await.remove(0).unwrap().is_held()
}

const LEASE: Duration = Duration::from_secs(30);
const ACQUIRED: Attempt = Attempt::Acquired { token: None, lease: LEASE };
const ACQUIRED_FOR_AN_HOUR: Attempt = Attempt::Acquired { token: None, lease: HOUR };

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
    assert!(ttl > Duration::from_secs(10) && ttl <= Duration::from_secs(30), "{ttl:?}");
    assert_eq!(two.inspect(ClaimKind::Exclusive, "k").await.unwrap().depth_of(&a.owner), 1);

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
        assert_eq!(
            store.inspect(ClaimKind::Exclusive, "k").await.unwrap().depth_of(&a.owner),
            depth
        );
    }
    for _ in 0..2 {
        assert_eq!(store.release(&at_depth(&a, 1)).await.unwrap(), Released::StillHeld);
        assert_eq!(store.inspect(ClaimKind::Exclusive, "k").await.unwrap().depth_of(&a.owner), 1);
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
    let answers: Vec<bool> = answers.into_iter().map(|answer| answer.unwrap().is_held()).collect();
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
    assert!(!store.inspect(ClaimKind::Exclusive, "k").await.unwrap().is_held());
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
    assert_eq!(store.inspect(ClaimKind::Exclusive, "k").await.unwrap().depth_of(&b.owner), 1);
}

#[tokio::test]
async fn force_frees_and_tells_what_stood_there() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let before = store.force(ClaimKind::Exclusive, "k").await.unwrap();
    assert_eq!(before.depth_of(&a.owner), 1);
    assert!(!store.force(ClaimKind::Exclusive, "k").await.unwrap().is_held());
    assert!(!renewed(&store, &a).await);
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
}

#[tokio::test]
async fn a_free_lock_leaves_nothing_behind() {
    let temp = Temp::new();
    let store = temp.store();
    for number in 0..200 {
        let a = claim(&format!("order:{number}"));
        store.acquire(&a).await.unwrap();
        store.release(&at_depth(&a, 0)).await.unwrap();
    }
    for file in temp.files().iter().filter(|file| file.starts_with("locks-")) {
        let stripe = file["locks-".len()..].parse().unwrap();
        assert_eq!(store.hub.try_read(stripe).unwrap().unwrap(), [], "{file}");
    }
    drop(store);
    assert_eq!(temp.files(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_held_outlives_its_store_and_not_its_state_file() {
    let temp = Temp::new();
    let a = claim("k");
    temp.store().acquire(&a).await.unwrap();
    assert!(is_busy(&temp.store().acquire(&claim("k")).await.unwrap()), "it is held");
    // Somebody has cleared up too much.
    let store = temp.store();
    assert!(renewed(&store, &a).await);
    fs::remove_file(temp.state_file("k")).unwrap();
    assert!(!renewed(&store, &a).await);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    fs::remove_file(temp.state_file("k")).unwrap();
}

#[tokio::test]
async fn many_names_and_long_ones_fit() {
    let temp = Temp::new();
    let store = temp.store();
    let names = (0..3000).map(|number| format!("{number}:{}", "x".repeat(number % 50)));
    let names = names.chain(["\0ä/..".repeat(500)]);
    let claims: Vec<Claim> = names.map(|name| for_an_hour(claim(&name))).collect();
    for claim in &claims {
        assert_eq!(store.acquire(claim).await.unwrap(), ACQUIRED_FOR_AN_HOUR);
    }
    assert_eq!(store.list("").await.unwrap().len(), claims.len());
    let largest = |temp: &Temp| {
        let files = temp.files().into_iter().filter(|file| file.starts_with("locks-"));
        files.map(|file| fs::metadata(temp.0.join(file)).unwrap().len()).max().unwrap()
    };
    assert!(largest(&temp) > 8192);
    for claim in &claims {
        assert!(matches!(store.release(&at_depth(claim, 0)).await, Ok(Released::Freed { .. })));
    }
    assert!(largest(&temp) <= 4096, "files become smaller again");
    drop(store);
    assert_eq!(temp.files(), Vec::<String>::new());
}

#[tokio::test]
async fn list_shows_held_locks_by_prefix_whatever_else_lies_there() {
    let temp = Temp::new();
    let store = temp.store();
    for name in ["job:b", "job:a", "other", "job:../x"] {
        store.acquire(&claim(name)).await.unwrap();
    }
    store.acquire(&Claim { lease: Duration::ZERO, ..claim("job:dead") }).await.unwrap();
    let free =
        (0..64).map(|stripe| temp.0.join(format!("locks-{stripe:02}"))).find(|path| !path.exists());
    fs::write(free.unwrap(), "not ours").unwrap();
    fs::write(temp.0.join("life-foreign"), "not ours").unwrap();
    let names: Vec<_> =
        store.list("job:").await.unwrap().into_iter().map(|lock| lock.name.to_string()).collect();
    assert_eq!(names, ["job:../x", "job:a", "job:b"]);
    assert_eq!(store.list("").await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_stopped_process_inside_costs_a_bounded_wait() {
    let temp = Temp::new();
    let store = temp.store();
    store.acquire(&claim("other")).await.unwrap();
    let path = temp.state_file("k");
    let other = fs::File::options().create(true).append(true).open(path).unwrap();
    rustix::fs::flock(&other, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let began = std::time::Instant::now();
    let error = store.acquire(&claim("k")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(began.elapsed() >= REPLY_TIMEOUT);
    unlock(other);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}
