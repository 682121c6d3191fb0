//! Futures that are dropped at a moment of the test's choice.

use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use distlock::Locks;

use crate::suites::{Ground, Recorder, Site};

/// Long enough that nothing ends because a lease does while a future is swept: what is free again was released.
const WATCHDOG: Duration = Duration::from_secs(600);

/// Two processes on one store: in one of them futures are dropped, the other one looks at what they left.
#[derive(Debug)]
pub struct Scene {
    /// The store.
    pub ground: Ground,
    /// Where futures are dropped.
    pub here: Locks,
    /// The other process.
    pub elsewhere: Locks,
    /// What the first one was told.
    pub seen: Arc<Recorder>,
    /// The name of a lock.
    pub name: String,
}

impl Scene {
    /// A scene on that store; `None` if it is not installed.
    ///
    /// # Panics
    /// When the store cannot be opened.
    pub async fn set(site: Site) -> Option<Scene> {
        let ground = Ground::at(site)?;
        let seen = Recorder::new();
        let here = ground.builder().watchdog(WATCHDOG).observer(seen.clone()).connect().await;
        let (here, elsewhere) = (here.expect("the store can be opened"), ground.open().await);
        let name = ground.name("k");
        Some(Scene { ground, here, elsewhere, seen, name })
    }

    /// Nobody is told that it lost something, and the store is empty.
    ///
    /// # Panics
    /// When that is not so; `what` says what was done.
    pub async fn assert_clean(&self, what: &str) {
        self.ground.assert_clean().await;
        assert_eq!(self.seen.count(&self.name, "lost"), 0, "{what}");
    }
}

/// A request that cannot be served, because somebody else has what it asks for. For a sweep: it must not end.
///
/// # Panics
/// When it does.
pub async fn in_vain<T: Debug>(request: impl Future<Output = T>) {
    panic!("two are inside: {:?}", request.await);
}

/// How a future that was polled a number of times ended.
#[derive(Debug)]
pub enum Cut<T> {
    /// It was ready within that many polls.
    Done(T),
    /// It was dropped after its last poll.
    Dropped,
    /// It was dropped because it had not been woken for a while: more polls would find nothing new.
    Asleep,
}

/// How long a future may go without being woken before it counts as asleep.
const ASLEEP: Duration = Duration::from_millis(150);

/// Polls `work` at most `polls` times, each time it is woken, then drops it.
///
/// Between two polls the runtime runs whatever else there is to run. A sweep goes over `polls` from 0 until the
/// answer is not [`Cut::Dropped`]: then the future has been dropped once at every place where it can be.
pub async fn poll_times<T>(work: impl Future<Output = T>, polls: usize) -> Cut<T> {
    let mut work = pin!(work);
    let mut left = polls;
    let cut = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(Cut::Dropped);
        }
        left -= 1;
        match work.as_mut().poll(cx) {
            Poll::Ready(value) => Poll::Ready(Cut::Done(value)),
            Poll::Pending if left == 0 => Poll::Ready(Cut::Dropped),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(ASLEEP, cut).await.unwrap_or(Cut::Asleep)
}

/// Polls `work` once; true if it is ready. For a waiter that must have taken its place before the test goes on.
///
/// # Panics
/// When it is ready: it was meant to wait.
pub async fn poll_once(work: &mut (impl Future + Unpin)) {
    let ready = poll_fn(|cx| Poll::Ready(Pin::new(&mut *work).poll(cx).is_ready())).await;
    assert!(!ready, "a future that was meant to wait is ready at once");
}

/// More polls than any future under test takes.
const MOST_POLLS: usize = 80;

/// Drops a future after 0, 1, 2 … polls, until it is done or sleeps: once at every place where it can be dropped.
///
/// `prepare` sets each round up, `check` takes what else it made, and `nothing_left` looks at what the round left; it gets
/// words that say which round it was.
///
/// # Panics
/// When the future never ends.
pub async fn sweep<T, F: Future<Output = T>, G>(
    what: &str,
    mut nothing_left: impl AsyncFnMut(&str),
    mut prepare: impl AsyncFnMut() -> (F, G),
    mut check: impl AsyncFnMut(G),
) {
    for polls in 0..MOST_POLLS {
        let (work, rest) = prepare().await;
        let cut = poll_times(work, polls).await;
        let over = !matches!(cut, Cut::Dropped);
        drop(cut); // a guard that was won goes here
        check(rest).await;
        nothing_left(&format!("{what} after {polls} polls")).await;
        if over {
            assert!(polls > 0, "{what}: nothing was swept");
            return;
        }
    }
    panic!("{what}: still not over after {MOST_POLLS} polls");
}

/// [`sweep`] in fine steps of time: between a question and its answer.
pub async fn sweep_time<T, F, G>(
    what: &str,
    mut nothing_left: impl AsyncFnMut(&str),
    mut prepare: impl AsyncFnMut() -> (F, G),
    mut check: impl AsyncFnMut(G),
) where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    for step in 0..25 {
        let (work, rest) = prepare().await;
        let task = tokio::spawn(work);
        let since = std::time::Instant::now();
        while since.elapsed() < Duration::from_micros(80 * step) {
            tokio::task::yield_now().await;
        }
        task.abort();
        drop(task.await);
        check(rest).await;
        nothing_left(&format!("{what} after {} µs", 80 * step)).await;
    }
}
