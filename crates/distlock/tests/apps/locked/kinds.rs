//! Every kind that the attribute can name.

use distlock::{Locks, Result, locked};

macro_rules! kinds {
    ($($name:ident($($option:tt)*))*) => {
        $(#[locked("k", via = locks, $($option)*)]
        async fn $name(locks: &Locks) -> Result<bool> {
            Ok(true)
        })*
    };
}

#[locked("k", kind = mutex, via = locks)]
async fn mutex(locks: &Locks) -> Result<bool> {
    locks.mutex("k").is_locked().await
}

#[locked("k", kind = rw, via = locks)]
async fn write(locks: &Locks) -> Result<bool> {
    Ok(locks.rw("k").try_read().await?.is_none())
}

#[locked("k", kind = rw, read, via = locks)]
async fn read(locks: &Locks) -> Result<bool> {
    Ok(locks.rw("k").try_read().await?.is_some())
}

#[locked("s", kind = semaphore, permits = 2, via = locks)]
async fn semaphore(locks: &Locks) -> Result<bool> {
    Ok(locks.semaphore("s").available().await? == 1)
}

#[locked("l", kind = leased_semaphore, lease = "1m", via = locks)]
async fn leased_semaphore(locks: &Locks) -> Result<bool> {
    Ok(locks.leased_semaphore("l").available().await? == 2)
}

#[locked(["k", "j"], kind = multi, or_skip, via = locks)]
async fn multi(locks: &Locks) -> Result<Option<bool>> {
    Ok(Some(locks.mutex("j").is_locked().await?))
}

kinds! {
    fair(kind = fair)
    fenced(kind = fenced, wait = "1s")
    spin(kind = spin, lease = "1s")
    simple(kind = simple,)
    quoted(kind = "fair", wait = "1s")
    quoted_write(kind = "rw")
    quoted_read(kind = "rw", read)
}

#[tokio::test]
async fn every_kind_can_be_named() {
    let locks = Locks::memory();
    assert!(mutex(&locks).await.unwrap());
    assert!(fair(&locks).await.unwrap());
    assert!(fenced(&locks).await.unwrap());
    assert!(spin(&locks).await.unwrap());
    assert!(simple(&locks).await.unwrap());
    assert!(quoted(&locks).await.unwrap());
    assert!(quoted_write(&locks).await.unwrap());
    assert!(quoted_read(&locks).await.unwrap());
    assert!(write(&locks).await.unwrap());
    assert!(read(&locks).await.unwrap());
    locks.semaphore("s").init(3).await.unwrap();
    assert!(semaphore(&locks).await.unwrap());
    locks.leased_semaphore("l").init(3).await.unwrap();
    assert!(leased_semaphore(&locks).await.unwrap());
    assert_eq!(multi(&locks).await.unwrap(), Some(true));
}
