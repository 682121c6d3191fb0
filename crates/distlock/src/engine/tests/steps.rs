//! Steps of one process that meet each other.

use super::*;

/// An attempt that got no answer is taken back while a renewal of the holder's is under way. By the time the store hears of
/// that, the owner has come back.
#[tokio::test(start_paused = true)]
async fn what_is_taken_back_late_is_not_what_its_owner_got_since() {
    let scene = Scene::new("forgets").await;
    let holder = scene.locks.mutex("k").lock().await.unwrap();
    let owner = scene.locks.owner();
    scene.store.whims.renews_late.store(true, Ordering::Relaxed);
    scene.store.whims.remembers.store(true, Ordering::Relaxed);
    scene.store.be(Mood::Mute);
    sleep(LONG / 3 - Duration::from_millis(500)).await; // the renewal is due during the attempt
    let failed = scene.locks.mutex("k").try_lock().owner(&owner).await;
    scene.store.wait_at_the_gate().await;
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Indeterminate);
    drop(holder);
    scene.store.be(Mood::Well);
    scene.store.gate.add_permits(1);
    let again = tokio::spawn(scene.locks.mutex("k").try_lock().owner(&owner).into_future());
    sleep(Duration::from_millis(600)).await; // longer than the pause before it is told again
    scene.store.whims.remembers.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(1)).await;
    let again = again.await.unwrap().unwrap().expect("nobody else wants it");
    assert!(scene.is_locked().await, "taken from under its owner");
    again.unlock().await.unwrap();
}
