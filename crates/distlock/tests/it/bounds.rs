//! What may cross threads, outlive its maker and be moved: checked by the compiler.

use std::fmt::{Debug, Display};
use std::future::{Future, IntoFuture};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use distlock::env::{Moment, System, Virtual};
use distlock::store::{Attempt, Claim, Holder, Listener, Released, Snapshot, Topic};
use distlock::{
    Acquire, Builder, Error, ErrorKind, Event, Guard, Locks, May, Must, Mutex, Owner, State,
    Subject, Tracing,
};

fn anywhere<T: Send + Sync + Unpin + 'static>() {}
fn said<T: Debug>() {}
fn plain<T: Copy + Eq + Send + Sync + Unpin + 'static>() {}

#[test]
fn public_types_go_anywhere() {
    anywhere::<Locks>();
    anywhere::<Builder>();
    anywhere::<Mutex>();
    anywhere::<Guard>();
    anywhere::<Error>();
    anywhere::<Acquire<Guard, Must>>();
    anywhere::<Acquire<Guard, May>>();
    anywhere::<Claim>();
    anywhere::<Snapshot>();
    anywhere::<Holder>();
    anywhere::<Topic>();
    anywhere::<Listener>();
    anywhere::<Virtual>();
    anywhere::<Tracing>();
}

#[test]
fn plain_values_are_copied() {
    plain::<Owner>();
    plain::<State>();
    plain::<ErrorKind>();
    plain::<Event>();
    plain::<Subject<'static>>();
    plain::<Attempt>();
    plain::<Released>();
    plain::<Moment>();
}

#[test]
fn everything_can_be_printed() {
    said::<Locks>();
    said::<Builder>();
    said::<Mutex>();
    said::<Guard>();
    said::<Acquire<Guard, Must>>();
    said::<Acquire<Guard, May>>();
    said::<Must>();
    said::<May>();
    said::<Owner>();
    said::<System>();
    fn read_and_written<T: Display + std::str::FromStr + std::hash::Hash>() {}
    read_and_written::<Owner>();
}

#[test]
fn an_error_is_an_error() {
    fn error<T: std::error::Error + Clone + Send + Sync + 'static>() {}
    error::<Error>();
    fn question_mark() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Err(Error::new(ErrorKind::Config, "no"))?
    }
    assert!(question_mark().is_err());
}

#[test]
fn handles_survive_a_caught_panic() {
    fn calm<T: UnwindSafe + RefUnwindSafe>() {}
    calm::<Owner>();
    calm::<ErrorKind>();
    calm::<State>();
}

fn spawnable<F: Future + Send + 'static>(work: F) -> F {
    work
}

fn sendable<F: Future + Send>(work: F) -> F {
    work
}

/// Futures that a server moves between threads: none of them borrows its handle, except where a guard lends itself.
#[tokio::test]
async fn futures_are_send_and_requests_outlive_their_handle() {
    let request = {
        let locks = Locks::memory();
        let mutex = locks.mutex(String::from("k"));
        mutex
            .lock()
            .wait(Duration::from_secs(1))
            .lease(Duration::from_secs(9))
            .owner(&locks.owner())
    };
    let guard = spawnable(request.into_future()).await.unwrap();
    drop(spawnable(guard.lost()));
    sendable(guard.extend(Duration::from_secs(10))).await.unwrap();
    assert_eq!(sendable(guard.while_held(async { 7 })).await.unwrap(), 7);
    spawnable(guard.unlock()).await.unwrap();

    let locks = Locks::memory();
    let mutex = locks.mutex("k");
    assert!(spawnable(mutex.try_lock().into_future()).await.unwrap().is_some());
    sendable(mutex.is_locked()).await.unwrap();
    sendable(mutex.inspect()).await.unwrap();
    sendable(mutex.force_unlock()).await.unwrap();
    sendable(mutex.unlock(&locks.owner())).await.unwrap_err();
    sendable(locks.list("")).await.unwrap();
    spawnable(Locks::connect("memory:")).await.unwrap();
    spawnable(Locks::builder().url("memory:").connect()).await.unwrap();
    sendable(Owner::scope(async {})).await;
    sendable(locks.close()).await;
}

/// The work under a lock is the caller's own affair: it may borrow, and need not be `Send`.
#[tokio::test]
async fn work_under_a_lock_may_borrow() {
    let locks = Locks::memory();
    let guard = locks.mutex("k").lock().await.unwrap();
    let mut count = 0;
    let shared = std::rc::Rc::new(3);
    guard.while_held(async { count += *shared }).await.unwrap();
    assert_eq!(count, 3);
}

/// Small things are passed around a lot.
#[test]
fn handles_stay_small() {
    assert!(size_of::<Owner>() <= 24);
    assert!(size_of::<Error>() <= 8);
    assert!(size_of::<Guard>() <= 16);
    assert!(size_of::<Mutex>() <= 32);
    assert!(size_of::<Locks>() <= 48);
}
