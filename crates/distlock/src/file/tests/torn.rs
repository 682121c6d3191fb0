//! A state file that was cut off, changed or written by somebody else: the state before, or a clear error.

use super::*;

async fn every_step_says_conflict(store: &FileStore, a: &Claim, path: &std::path::Path) {
    let errors = [
        store.acquire(&claim(&a.name)).await.unwrap_err(),
        store.release(&at_depth(a, 0)).await.unwrap_err(),
        store.renew(std::slice::from_ref(a)).await.remove(0).unwrap_err(),
        store.inspect(ClaimKind::Exclusive, &a.name).await.unwrap_err(),
        store.force(ClaimKind::Exclusive, &a.name).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        let path = path.canonicalize().unwrap();
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

/// Whatever byte is changed and wherever it is cut: nobody else gets in.
#[tokio::test]
async fn a_damaged_file_never_lets_two_in() {
    let temp = Temp::new();
    let store = temp.store();
    let a = for_an_hour(claim("k"));
    // Several steps, so that both slots are in use.
    for _ in 0..3 {
        store.acquire(&a).await.unwrap();
    }
    let path = temp.state_file("k");
    let good = fs::read(&path).unwrap();
    let used = good.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (mut refused, mut harmless) = (0, 0);
    let flips = (0..used).flat_map(|at| {
        let good = &good;
        [0x01_u8, 0x80, 0xff].map(move |bits| {
            let mut bad = good.clone();
            bad[at] ^= bits;
            bad
        })
    });
    let cuts = (1..used).map(|end| good[..end].to_vec());
    for bad in flips.chain(cuts) {
        fs::write(&path, &bad).unwrap();
        match store.acquire(&claim("k")).await {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
                assert_eq!(fs::read(&path).unwrap(), bad, "it stays as it was");
                refused += 1;
            }
            Ok(attempt) => {
                assert!(is_busy(&attempt), "two are in");
                harmless += 1;
            }
        }
    }
    println!("{refused} refused, {harmless} harmless");
    assert!(refused > 0 && harmless > 0);
    fs::write(&path, &good).unwrap();
    assert!(renewed(&store, &a).await, "the good one still holds");
}

/// A writer that is killed leaves the slot that does not count half-written, and the header as it was.
#[tokio::test]
async fn a_write_that_was_cut_off_did_not_happen() {
    let temp = Temp::new();
    let store = temp.store();
    let a = for_an_hour(claim("k"));
    store.acquire(&a).await.unwrap();
    let before = fs::read(temp.state_file("k")).unwrap();
    store.release(&at_depth(&a, 0)).await.unwrap();
    let after = fs::read(temp.state_file("k")).unwrap();
    for end in 64..after.len() {
        let mut cut = before.clone();
        cut[64..end].copy_from_slice(&after[64..end]);
        fs::write(temp.state_file("k"), &cut).unwrap();
        let seen = store.inspect(ClaimKind::Exclusive, "k").await.unwrap();
        assert_eq!(seen.depth_of(&a.owner), 1, "cut at {end}");
    }
    fs::write(temp.state_file("k"), &after).unwrap();
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn a_file_that_is_not_ours_is_a_conflict_and_stays_untouched() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    let path = temp.state_file("k");
    let mut newer = fs::read(&path).unwrap();
    newer[8] = 3;
    let strangers =
        [b"distlock 1\nname k\n".to_vec(), vec![b'x'; 100_000], b"\xff".to_vec(), newer];
    for text in strangers {
        fs::write(&path, &text).unwrap();
        every_step_says_conflict(&store, &a, &path).await;
        assert_eq!(fs::read(&path).unwrap(), text);
    }
    fs::remove_file(&path).unwrap();
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

/// Makes the state file one of another boot, as its header says.
pub(super) fn reboot(temp: &Temp, name: &str) {
    let path = temp.state_file(name);
    let mut bytes = fs::read(&path).unwrap();
    bytes[40] ^= 0xff;
    let own = super::super::header::sum(&bytes[..56]).to_le_bytes();
    bytes[56..64].copy_from_slice(&own);
    fs::write(&path, &bytes).unwrap();
}

#[tokio::test]
async fn what_is_held_ends_with_the_boot_and_what_is_counted_does_not() {
    use crate::store::{LatchOp, LeasedOp, PermitsOp};
    let temp = Temp::new();
    let store = temp.store();
    let hold = claim("mutex");
    let fenced = Claim { kind: ClaimKind::Fenced, ..claim("fenced") };
    let some =
        Claim { kind: ClaimKind::Permits { count: 2, initial: Some(5) }, ..claim("permits") };
    let leased =
        Claim { kind: ClaimKind::LeasedPermits { count: 2, initial: Some(5) }, ..claim("leased") };
    let Attempt::Acquired { token: Some(token), .. } = store.acquire(&fenced).await.unwrap() else {
        panic!("a token")
    };
    for claim in [&hold, &some, &leased] {
        assert_eq!(store.acquire(claim).await.unwrap(), ACQUIRED);
    }
    let latch = |op| Admin::Latch(op);
    store.admin("latch", &latch(LatchOp::Init(3))).await.unwrap();
    store.admin("gate", &Admin::Fence { token: 7 }).await.unwrap();
    for name in ["mutex", "fenced", "permits", "leased", "latch", "gate\0fence"] {
        reboot(&temp, name);
    }
    assert!(!renewed(&store, &hold).await);
    assert!(!store.inspect(ClaimKind::Exclusive, "mutex").await.unwrap().is_held());
    assert_eq!(store.acquire(&claim("mutex")).await.unwrap(), ACQUIRED);
    let Attempt::Acquired { token: Some(later), .. } =
        store.acquire(&Claim { kind: ClaimKind::Fenced, ..claim("fenced") }).await.unwrap()
    else {
        panic!("a token")
    };
    assert!(later > token);
    let available = Admin::Permits(PermitsOp::Available);
    assert_eq!(store.admin("permits", &available).await.unwrap(), 5);
    let available = Admin::Leased(LeasedOp::Available);
    assert_eq!(store.admin("leased", &available).await.unwrap(), 5);
    assert_eq!(store.admin("latch", &latch(LatchOp::Count)).await.unwrap(), 3);
    assert_eq!(store.admin("gate", &Admin::Fence { token: 6 }).await.unwrap(), -7);
}

#[tokio::test]
async fn what_a_power_cut_damaged_begins_anew_and_is_kept_for_inspection() {
    let temp = Temp::new();
    let store = temp.store();
    store.acquire(&claim("k")).await.unwrap();
    reboot(&temp, "k");
    let path = temp.state_file("k");
    let mut bytes = fs::read(&path).unwrap();
    // The slot that counts is the second one.
    let at = 64 + (4096 - 64) / 2 + 5;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    // Somebody would like us to write elsewhere.
    let (kept, elsewhere) = (path.with_extension("torn"), temp.0.join("elsewhere"));
    fs::write(&elsewhere, "precious").unwrap();
    std::os::unix::fs::symlink(&elsewhere, &kept).unwrap();
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    assert_eq!(fs::read(&elsewhere).unwrap(), b"precious");
    assert!(fs::symlink_metadata(&kept).unwrap().is_file());
    assert_eq!(fs::read(&kept).unwrap(), bytes);
    // The name without the content.
    for content in [vec![], vec![0; 4096]] {
        fs::write(&path, content).unwrap();
        assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    }
    fs::remove_file(&path).unwrap();
}

/// Makes it look as if it was last written before the boot.
pub(super) fn age(path: &std::path::Path) {
    fs::File::options()
        .write(true)
        .open(path)
        .unwrap()
        .set_modified(std::time::UNIX_EPOCH)
        .unwrap();
}

#[tokio::test]
async fn only_what_is_ours_begins_anew_after_a_boot() {
    let temp = Temp::new();
    let store = temp.store();
    store.acquire(&claim("k")).await.unwrap();
    let path = temp.state_file("k");
    let mut newer = fs::read(&path).unwrap();
    newer[8] = 3;
    let own = super::super::header::sum(&newer[..56]).to_le_bytes();
    newer[56..64].copy_from_slice(&own);
    let refused = async || {
        let error = store.acquire(&claim("k")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    };
    fs::write(&path, &newer).unwrap();
    age(&path);
    refused().await;
    assert_eq!(fs::read(&path).unwrap(), newer);
    // Somebody's file, by another name.
    fs::write(&path, "precious").unwrap();
    fs::hard_link(&path, temp.0.join("elsewhere")).unwrap();
    age(&path);
    refused().await;
    fs::remove_file(temp.0.join("elsewhere")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    age(&path);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    fs::remove_file(&path).unwrap();
}

/// A writer that is killed while it makes room leaves more of a file than counts.
#[tokio::test]
async fn what_grows_is_whole_at_every_point() {
    let temp = Temp::new();
    let store = temp.store();
    let path = temp.state_file("k");
    let reader = || Claim { kind: ClaimKind::Read, ..for_an_hour(claim("k")) };
    let (mut readers, mut before) = (0, Vec::new());
    loop {
        assert_eq!(store.acquire(&reader()).await.unwrap(), ACQUIRED_FOR_AN_HOUR);
        let after = fs::read(&path).unwrap();
        if readers > 0 && after.len() > before.len() {
            for end in (before.len()..after.len()).step_by(7) {
                // The new page is half there; the header is not.
                fs::write(&path, [&before[..], &after[before.len()..end]].concat()).unwrap();
                let seen = store.inspect(ClaimKind::Read, "k").await.unwrap();
                assert_eq!(seen.holders.len(), readers, "cut at {end}");
            }
            break fs::write(&path, &after).unwrap();
        }
        (readers, before) = (readers + 1, after);
    }
    for _ in 0..200 {
        assert_eq!(store.acquire(&reader()).await.unwrap(), ACQUIRED_FOR_AN_HOUR);
    }
    let seen = store.inspect(ClaimKind::Read, "k").await.unwrap();
    assert_eq!(seen.holders.len(), readers + 1 + 200);
}
