//! A future that is polled once and then neither polled nor dropped keeps nobody else out.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use distlock::{Guard, Locks, Mutex, State};
use tokio::time::{sleep, timeout};

use crate::late::poll_once;
use crate::late::shaky::Shaky;

const SECOND: Duration = Duration::from_secs(1);
const WATCHDOG: Duration = Duration::from_secs(3);
/// Several watchdog time-outs: by then a hold that nobody renews is over, and one that nobody takes has passed on.
const LONG: Duration = Duration::from_secs(30);

/// Two processes on one store.
async fn processes() -> (Shaky, Locks, Locks) {
    let way = Shaky::new();
    let (here, elsewhere) = (way.open(WATCHDOG).await, way.elsewhere().open(WATCHDOG).await);
    (way, here, elsewhere)
}

/// Others get in in time, in this process and in another one.
async fn others_get_in(name: &str, here: &Locks, elsewhere: &Locks) {
    for (who, mutex) in [("this", here.mutex(name)), ("another", elsewhere.mutex(name))] {
        let guard: Guard = match timeout(2 * LONG, mutex.lock().wait(LONG)).await {
            Ok(Ok(guard)) => guard,
            Ok(Err(error)) => panic!("a task of {who} process is kept out: {error:?}"),
            Err(_) => panic!("a task of {who} process is kept out, longer than it waits"),
        };
        guard.unlock().await.expect("a release");
    }
}

/// The future is polled once and stays as it is until the others are done.
async fn leave_alone<F: Future>(what: &str, future: F, meanwhile: impl Future<Output = ()>) {
    let mut future = pin!(future);
    assert!(poll_once(future.as_mut()).await.is_none(), "{what}: it was over at once");
    meanwhile.await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_acquire_of_a_free_lock_keeps_nobody_out_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let acquire = here.mutex("k").lock().into_future();
    leave_alone("lock", acquire, others_get_in("k", &here, &elsewhere)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_try_of_a_free_lock_keeps_nobody_out_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let acquire = here.mutex("k").try_lock().into_future();
    leave_alone("try_lock", acquire, others_get_in("k", &here, &elsewhere)).await;
}

/// Its attempt is on its way; the answer will be that the lock is busy.
#[tokio::test(start_paused = true)]
async fn an_unpolled_acquire_of_a_busy_lock_keeps_nobody_out() {
    let (_way, here, elsewhere) = processes().await;
    let holder = elsewhere.mutex("k").lock().await.unwrap();
    let acquire = here.mutex("k").lock().into_future();
    leave_alone("lock", acquire, async {
        sleep(SECOND).await;
        holder.unlock().await.unwrap();
        others_get_in("k", &here, &elsewhere).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_granted_the_lock_and_is_not_polled_keeps_nobody_out_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let holder = elsewhere.mutex("k").lock().await.unwrap();
    // Until it waits in the queue.
    let mut acquire = here.mutex("k").lock().into_future();
    assert!(timeout(SECOND, &mut acquire).await.is_err(), "the lock is held");
    holder.unlock().await.unwrap();
    others_get_in("k", &here, &elsewhere).await;
    drop(acquire);
}

/// The same where the holder is of the same process and the lock passes on in memory.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_inherited_the_lock_and_is_not_polled_keeps_nobody_out_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let holder = here.mutex("k").lock().await.unwrap();
    let acquire = here.mutex("k").lock().into_future();
    leave_alone("lock", acquire, async {
        holder.unlock().await.unwrap();
        others_get_in("k", &here, &elsewhere).await;
    })
    .await;
}

/// Whether a hold that the watchdog renews is still held after several of its time-outs.
async fn stays_held(way: &Shaky, guard: &Guard) {
    for _ in 0..10 {
        sleep(WATCHDOG / 2).await;
        assert_ne!(guard.state(), State::Lost, "a healthy hold is lost");
    }
    assert!(way.look("k").is_held(), "a healthy hold has ended in the store");
    assert_eq!(guard.state(), State::Held);
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_re_entry_does_not_end_the_renewals_of_its_outer_hold() {
    let (way, here, elsewhere) = processes().await;
    let (mutex, me) = (here.mutex("k"), here.owner());
    let outer = mutex.lock().owner(&me).await.unwrap();
    let inner = mutex.lock().owner(&me).into_future();
    leave_alone("a re-entry", inner, stays_held(&way, &outer)).await;
    outer.unlock().await.unwrap();
    others_get_in("k", &here, &elsewhere).await;
}

/// The outer guard goes while the re-entry is not polled: the level that nobody took is given back too.
#[tokio::test(start_paused = true)]
async fn an_unpolled_re_entry_does_not_keep_an_unlock_waiting() {
    let (_way, here, elsewhere) = processes().await;
    let (mutex, me): (Mutex, _) = (here.mutex("k"), here.owner());
    let outer = mutex.lock().owner(&me).await.unwrap();
    let inner = mutex.lock().owner(&me).into_future();
    leave_alone("a re-entry", inner, async {
        let unlocked = timeout(6 * SECOND, outer.unlock()).await.expect("it ends");
        unlocked.unwrap();
        others_get_in("k", &here, &elsewhere).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_unlock_frees_the_lock() {
    let (_way, here, elsewhere) = processes().await;
    let guard = here.mutex("k").lock().await.unwrap();
    leave_alone("unlock", guard.unlock(), others_get_in("k", &here, &elsewhere)).await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_unlock_of_an_inner_guard_keeps_the_outer_one_renewed() {
    let (way, here, elsewhere) = processes().await;
    let (mutex, me) = (here.mutex("k"), here.owner());
    let outer = mutex.lock().owner(&me).await.unwrap();
    let inner = mutex.lock().owner(&me).await.unwrap();
    leave_alone("unlock", inner.unlock(), stays_held(&way, &outer)).await;
    outer.unlock().await.unwrap();
    others_get_in("k", &here, &elsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_extension_does_not_end_the_renewals() {
    let (way, here, elsewhere) = processes().await;
    let guard = here.mutex("k").lock().await.unwrap();
    leave_alone("extend", guard.extend(2 * WATCHDOG), stays_held(&way, &guard)).await;
    guard.unlock().await.unwrap();
    others_get_in("k", &here, &elsewhere).await;
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_multi_lock_keeps_nobody_out_of_its_members_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let holder = elsewhere.mutex("b").lock().await.unwrap();
    let both = here.multi(["a", "b"]).lock().into_future();
    leave_alone("multi", both, async {
        others_get_in("a", &here, &elsewhere).await;
        holder.unlock().await.unwrap();
        others_get_in("b", &here, &elsewhere).await;
    })
    .await;
}

/// Left alone while it waits for a member that another process holds.
#[tokio::test(start_paused = true)]
async fn a_multi_lock_that_waits_and_is_not_polled_keeps_nobody_out_of_its_members_for_long() {
    let (_way, here, elsewhere) = processes().await;
    let holder = elsewhere.mutex("b").lock().await.unwrap();
    let mut both = here.multi(["a", "b"]).lock().into_future();
    assert!(timeout(SECOND, &mut both).await.is_err(), "a member is held");
    others_get_in("a", &here, &elsewhere).await;
    holder.unlock().await.unwrap();
    for name in ["a", "b"] {
        others_get_in(name, &here, &elsewhere).await;
    }
    drop(both);
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_a_future_that_nobody_polls() {
    let (_way, here, elsewhere) = processes().await;
    let acquire = here.mutex("k").lock().into_future();
    leave_alone("lock", acquire, async {
        timeout(LONG, here.close()).await.expect("it ends");
        let guard = elsewhere.mutex("k").lock().wait(LONG).await.unwrap();
        guard.unlock().await.unwrap();
    })
    .await;
}
