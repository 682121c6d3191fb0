//! A reboot is believed in only if nobody lives who was there before it.

use super::lives::{life_text, lock_life, write_life};
use super::torn::{age, reboot};
use super::*;

/// One who lives, with a boot id of its own: as in a container.
fn stranger(temp: &Temp) -> fs::File {
    let id = write_life(temp, &life_text(Uuid::from_u128(7)));
    lock_life(temp, id)
}

fn assert_refused(error: &Error, temp: &Temp) {
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let text = error.to_string();
    assert!(text.contains("another boot id") && text.contains("systemd-nspawn"), "{text}");
    assert!(text.contains(temp.0.canonicalize().unwrap().to_str().unwrap()), "{text}");
}

#[tokio::test]
async fn what_somebody_with_another_boot_id_holds_is_not_over() {
    let temp = Temp::new();
    let store = temp.store();
    let a = claim("k");
    store.acquire(&a).await.unwrap();
    reboot(&temp, "k");
    let other = stranger(&temp);
    let held = fs::read(temp.state_file("k")).unwrap();
    let errors = [
        store.acquire(&claim("k")).await.unwrap_err(),
        store.release(&at_depth(&a, 0)).await.unwrap_err(),
        store.renew(std::slice::from_ref(&a)).await.remove(0).unwrap_err(),
        store.inspect(ClaimKind::Exclusive, "k").await.unwrap_err(),
        store.force(ClaimKind::Exclusive, "k").await.unwrap_err(),
        store.list("").await.unwrap_err(),
        FileStore::open(&temp.0, Arc::new(System)).unwrap_err(),
    ];
    errors.iter().for_each(|error| assert_refused(error, &temp));
    assert_eq!(fs::read(temp.state_file("k")).unwrap(), held);
    // It has ended.
    unlock(other);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn what_somebody_with_another_boot_id_may_hold_does_not_begin_anew() {
    let temp = Temp::new();
    let store = temp.store();
    store.acquire(&claim("k")).await.unwrap();
    reboot(&temp, "k");
    let path = temp.state_file("k");
    let mut damaged = fs::read(&path).unwrap();
    // The slot that counts is the second one.
    damaged[64 + (4096 - 64) / 2 + 5] ^= 1;
    let other = stranger(&temp);
    for content in [&damaged[..], b"distlock, but not all of it"] {
        fs::write(&path, content).unwrap();
        age(&path);
        assert_refused(&store.acquire(&claim("k")).await.unwrap_err(), &temp);
        assert_eq!(fs::read(&path).unwrap(), content);
        assert!(!path.with_extension("torn").exists());
    }
    unlock(other);
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
}

#[tokio::test]
async fn whoever_is_born_or_dead_is_no_stranger() {
    let temp = Temp::new();
    let store = temp.store();
    store.acquire(&claim("k")).await.unwrap();
    reboot(&temp, "k");
    write_life(&temp, &life_text(Uuid::from_u128(7)));
    let _newborn = lock_life(&temp, write_life(&temp, ""));
    let own_boot = super::super::life::boot_id().unwrap();
    let _native = lock_life(&temp, write_life(&temp, &life_text(own_boot)));
    assert_eq!(store.acquire(&claim("k")).await.unwrap(), ACQUIRED);
    temp.store();
}
