//! Somebody who waits while something happens to the servers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::Locks;
use tokio::task::JoinHandle;

use super::{Recorder, eventually};

/// Whoever is let in long before this was woken, and did not wait for a lease to end.
const LONG: Duration = Duration::from_secs(600);

/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);

/// Somebody elsewhere who waits for a mutex, and lets go of it at once.
#[derive(Debug)]
pub struct Waiter(JoinHandle<distlock::Result<()>>);

/// One who waits by now: it has found the lock busy and is subscribed. It does not look again by itself for minutes.
///
/// # Panics
/// When it does not come so far.
pub async fn waiting(url: &str, name: &str) -> Waiter {
    // Nobody looks again by itself before a third of this.
    let builder = Locks::builder().url(url).watchdog(LONG);
    let seen = Recorder::new();
    let locks = builder.observer(seen.clone()).connect().await.expect("the store can be opened");
    let mutex = locks.mutex(name);
    let task = tokio::spawn(async move { mutex.lock().lease(LONG).await?.unlock().await });
    // Once, and again after it was subscribed.
    let asked = || async { seen.count(name, "attempted") >= 2 };
    eventually("somebody waits", asked).await;
    Waiter(task)
}

impl Waiter {
    /// It is let in.
    ///
    /// # Panics
    /// When it is not.
    pub async fn enters(self) {
        let entered = tokio::time::timeout(SOON, self.0).await.expect("woken");
        entered.expect("no panic").expect("a lock");
    }
}

/// Waits until so many are in the queue of a fair lock.
///
/// # Panics
/// When they are not.
pub async fn queued(locks: &Locks, name: &str, count: usize) {
    let queued =
        || async { locks.fair(name).inspect().await.is_ok_and(|seen| seen.queue.len() == count) };
    eventually("somebody is in the queue", queued).await;
}

/// Some who wait for a fair lock in the order of their numbers.
#[derive(Debug)]
pub struct Line {
    tasks: Vec<JoinHandle<distlock::Result<()>>>,
    entered: Arc<Mutex<Vec<usize>>>,
}

/// So many in line by now, each of them elsewhere.
///
/// # Panics
/// When they do not come so far.
pub async fn in_line(url: &str, name: &str, count: usize) -> Line {
    let mut line = Line { tasks: Vec::new(), entered: Arc::default() };
    for at in 0..count {
        let locks = Locks::connect(url).await.expect("the store can be opened");
        let (fair, entered) = (locks.fair(name), line.entered.clone());
        line.tasks.push(tokio::spawn(async move {
            let guard = fair.lock().lease(LONG).await?;
            entered.lock().expect("nothing panics with the order locked").push(at);
            guard.unlock().await
        }));
        queued(&locks, name, at + 1).await;
    }
    line
}

impl Line {
    /// All are let in, in their order.
    ///
    /// # Panics
    /// When they are not.
    pub async fn enters(self) {
        let count = self.tasks.len();
        for task in self.tasks {
            let entered = tokio::time::timeout(SOON, task).await.expect("woken");
            entered.expect("no panic").expect("a turn");
        }
        let entered = self.entered.lock().expect("nothing panics with the order locked").clone();
        assert_eq!(entered, Vec::from_iter(0..count));
    }
}
