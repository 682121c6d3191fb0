//! What a promise watches with.

use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use distlock::{Event, Observer, Subject};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::looks::Looks;

/// How long something that must happen may take. Less than what any hold has left that nobody renews any more, unless a test
/// sets another watchdog's timeout: what is free in time was released.
const PATIENCE: Duration = Duration::from_secs(18);
/// How long renewals may take.
const RENEWALS_PATIENCE: Duration = Duration::from_secs(60);
/// How long a crowd may take.
const CROWDS_PATIENCE: Duration = Duration::from_secs(180);

/// Waits until `holds` does.
///
/// # Panics
/// When it does not within 18 s; `what` says what was expected.
pub async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    within(PATIENCE, what, &mut holds).await;
}

async fn within<F: Future<Output = bool>>(
    limit: Duration,
    what: &str,
    mut holds: impl FnMut() -> F,
) {
    let until = Instant::now() + limit;
    let mut looks = Looks::default();
    while !holds().await {
        assert!(Instant::now() < until, "never came true within {limit:?}: {what}");
        looks.pause().await;
    }
}

/// Waits until all of a crowd are through.
///
/// # Panics
/// When somebody panicked, or is not through in time.
pub(crate) async fn everybody(mut tasks: JoinSet<()>) {
    let every = async {
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no task panics");
        }
    };
    timeout(CROWDS_PATIENCE, every).await.expect("everybody gets in in time");
}

/// An observer that keeps every event with the lock's name.
#[derive(Debug, Default)]
pub struct Recorder {
    seen: Mutex<Vec<(String, Event)>>,
}

impl Recorder {
    /// A recorder to share with a `Locks`.
    pub fn new() -> Arc<Recorder> {
        Arc::default()
    }

    /// The events of one lock so far, in order.
    pub fn of(&self, name: &str) -> Vec<Event> {
        let seen = self.seen.lock().expect("nothing panics with the events locked");
        seen.iter().filter(|(of, _)| of == name).map(|(_, event)| *event).collect()
    }

    /// The words for the events of one lock so far, renewals left out.
    pub fn words(&self, name: &str) -> Vec<&'static str> {
        let told = |event: &Event| *event != Event::Renewed && !is_account(*event);
        self.of(name).into_iter().filter(told).map(word).collect()
    }

    /// All that happened to one lock, with what accounts are made of, but for renewals.
    pub fn accounts(&self, name: &str) -> Vec<&'static str> {
        let words = self.of(name).into_iter().filter(|event| *event != Event::Renewed);
        words.map(word).collect()
    }

    /// Waits until one lock was renewed so often in all.
    ///
    /// # Panics
    /// When it is not within a minute.
    pub async fn renewed(&self, name: &str, times: usize) {
        let enough = || async { self.count(name, "renewed") >= times };
        within(RENEWALS_PATIENCE, &format!("{name} is renewed {times} times"), enough).await;
    }

    /// How many events of one lock are called `wanted`.
    pub fn count(&self, name: &str, wanted: &str) -> usize {
        self.of(name).into_iter().filter(|event| word(*event) == wanted).count()
    }
}

impl Observer for Recorder {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        let mut seen = self.seen.lock().expect("nothing panics with the events locked");
        seen.push((lock.name.to_owned(), event));
    }
}

/// Of requests and holds as a whole, beside what happens in them.
fn is_account(event: Event) -> bool {
    matches!(event, Event::Asked | Event::Answered { .. } | Event::Entered)
}

fn word(event: Event) -> &'static str {
    match event {
        Event::Asked => "asked",
        Event::Answered { outcome, .. } => outcome.as_str(),
        Event::Entered => "entered",
        Event::Leaked => "leaked",
        Event::Revoked => "revoked",
        Event::Attempted => "attempted",
        Event::Acquired { .. } => "acquired",
        Event::GaveUp { .. } => "gave up",
        Event::NotDurable => "not durable",
        Event::Released { .. } => "released",
        Event::SlowHold { .. } => "slow",
        Event::Renewed => "renewed",
        Event::Suspect => "suspect",
        Event::Lost => "lost",
        Event::Reconnected => "reconnected",
        _ => "unknown",
    }
}

/// A critical section that notices when two are inside.
#[derive(Debug, Default)]
pub struct Section {
    inside: AtomicU32,
    entries: AtomicU64,
}

impl Section {
    /// A section to share between tasks.
    pub fn new() -> Arc<Section> {
        Arc::default()
    }

    /// Goes in, lets others run, and leaves.
    ///
    /// # Panics
    /// When somebody else is inside.
    pub async fn visit(&self) {
        self.enter();
        tokio::task::yield_now().await;
        self.leave();
    }

    /// Goes in.
    ///
    /// # Panics
    /// When somebody else is inside.
    pub fn enter(&self) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two are inside at once");
        // Read and written apart on purpose: without exclusion, entries get lost.
        let entries = self.entries.load(Ordering::Relaxed);
        self.entries.store(entries + 1, Ordering::Relaxed);
    }

    /// Leaves.
    ///
    /// # Panics
    /// When somebody else is inside.
    pub fn leave(&self) {
        assert_eq!(self.inside.fetch_sub(1, Ordering::SeqCst), 1, "two are inside at once");
    }

    /// How often it was entered.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::SeqCst)
    }
}
