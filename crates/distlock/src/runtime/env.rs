//! The clock, the tasks and the random numbers that the library uses.
//!
//! Everything in `engine` and in the stores reads the clock, sleeps, spawns and draws random numbers through
//! [`Env`], so a simulation can run the very same code on virtual time. Programs never need this module:
//! [`System`] is the default. Tests on virtual time use [`Virtual`], which needs tokio's feature `test-util` in the program's
//! dev-dependencies.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::runtime::{Builder, Handle, RuntimeFlavor};

/// An owned, sendable future, as every operation of a [`Store`](crate::store::Store) returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A point on an [`Env`]'s clock, counted from an origin that is the same for the whole process.
///
/// ```
/// use std::time::Duration;
/// use distlock::env::{Env, System};
///
/// let now = System.now();
/// assert_eq!(now.after(Duration::from_secs(2)).since(now), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(NonZeroU64);

impl Moment {
    /// A moment that never comes.
    pub const NEVER: Moment = Moment(NonZeroU64::MAX);

    /// Returns the moment this long after the clock's origin.
    pub fn from_origin(d: Duration) -> Moment {
        Moment::from_nanos(nanos(d))
    }

    /// Returns this moment plus `d`; [`Moment::NEVER`] instead of an overflow.
    #[must_use]
    pub fn after(self, d: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(d)))
    }

    /// Returns this moment minus `d`; the origin instead of an underflow.
    #[must_use]
    pub fn before(self, d: Duration) -> Moment {
        Moment::from_nanos(self.0.get().saturating_sub(nanos(d)))
    }

    /// Returns the time since `earlier`; zero if it is not later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }

    /// Returns the nanoseconds since the origin, to keep a moment in an atomic.
    pub fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// Returns the moment of this number: the inverse of [`Moment::as_nanos`].
    pub fn from_nanos(nanos: u64) -> Moment {
        // The origin itself is a nanosecond late, so that an optional moment is no larger than a moment.
        Moment(NonZeroU64::new(nanos).unwrap_or(NonZeroU64::MIN))
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Moment::NEVER => f.write_str("never"),
            Moment(n) => write!(f, "{:?}", Duration::from_nanos(n.get())),
        }
    }
}

/// The source of time, tasks and random numbers for the library.
///
/// ```
/// use distlock::{Locks, env::Virtual};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() -> distlock::Result<()> {
/// let locks = Locks::builder().url("memory:").env(Virtual::new()).connect().await?; // on tokio's clock
/// # locks.mutex("k").lock().await?.unlock().await }
/// ```
pub trait Env: fmt::Debug + Send + Sync + 'static {
    /// Returns the present, on a clock that never steps back. For [`System`] it runs through suspend on Linux and Android; on other
    /// systems it is `Instant`, which may stop while the machine is suspended.
    fn now(&self) -> Moment;

    /// Returns the time of day, which may step: for scheduled jobs and the times that people read, never for leases.
    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    /// Returns a future that completes at `at`. It is polled inside a task that this same [`Env`] or the caller's runtime runs.
    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()>;

    /// As [`Env::sleep_until`], for work that continues on another thread when the caller's runtime has ended.
    fn sleep_in_background(&self, at: Moment) -> BoxFuture<'static, ()> {
        self.sleep_until(at)
    }

    /// Runs `work` beside the caller: on the caller's runtime if that has threads of its own, else as
    /// [`Env::spawn_background`].
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Runs `work` where no shutdown of a caller's runtime can end it.
    fn spawn_background(&self, work: BoxFuture<'static, ()>);

    /// Returns whether [`Env::spawn_background`] runs work on another thread, even while the calling one is blocked: then a caller
    /// may block its thread until the work is done.
    fn has_background_thread(&self) -> bool {
        false
    }

    /// Returns whether the calling thread is the one on which [`Env::spawn_background`] runs work: what is begun there goes on there.
    fn is_background_thread(&self) -> bool {
        false
    }

    /// Runs the watchdog: where neither the caller's tasks nor the library's other tasks can delay it.
    fn spawn_watchdog(&self, work: BoxFuture<'static, ()>);

    /// Returns sixty-four random bits, for jitter; never for identity.
    fn random(&self) -> u64;
}

/// The default [`Env`]: the system's clock, tokio, and two threads of the library's own.
///
/// The clock is `CLOCK_BOOTTIME` on Linux and Android, which runs through suspend. On other systems it is `Instant`, which may stop
/// while the machine is suspended: a lease that ended meanwhile is then noticed late.
///
/// ```
/// use distlock::env::{Env, System};
/// assert!(System.now() <= System.now());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Env for System {
    fn now(&self) -> Moment {
        boot_time()
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        let sleep = at.since(self.now());
        if Handle::try_current().is_ok() {
            return Box::pin(tokio::time::sleep(sleep));
        }
        // Under another executor, or outside any: our own thread keeps the time.
        self.sleep_in_background(at)
    }

    fn sleep_in_background(&self, at: Moment) -> BoxFuture<'static, ()> {
        match background() {
            // A timer belongs to the runtime it was made on, and panics when it is polled after that has ended.
            Some(own) => {
                let _inside = own.enter();
                Box::pin(tokio::time::sleep(at.since(self.now())))
            }
            None => Box::pin(std::future::pending()),
        }
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        match Handle::try_current() {
            // A runtime without threads of its own runs only while a thread blocks on it, and that may be never again.
            Ok(here) if here.runtime_flavor() == RuntimeFlavor::MultiThread => {
                drop(here.spawn(work));
            }
            _ => self.spawn_background(work),
        }
    }

    fn spawn_background(&self, work: BoxFuture<'static, ()>) {
        spawn_on(background(), work);
    }

    fn has_background_thread(&self) -> bool {
        background().is_some()
    }

    fn is_background_thread(&self) -> bool {
        let here = Handle::try_current().ok();
        here.zip(background().as_ref()).is_some_and(|(here, own)| here.id() == own.id())
    }

    fn spawn_watchdog(&self, work: BoxFuture<'static, ()>) {
        static WATCHDOG: OnceLock<Option<Handle>> = OnceLock::new();
        spawn_on(WATCHDOG.get_or_init(|| own_thread("distlock-watchdog")), work);
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}

/// `CLOCK_BOOTTIME` counts while a laptop or a virtual machine is suspended; `Instant` does not, and after a resume a holder would count on a
/// lease that ended long ago.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn boot_time() -> Moment {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment::from_origin(Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn boot_time() -> Moment {
    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    Moment::from_origin(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
}

/// The library's own thread for everything but the watchdog.
pub(crate) fn background() -> &'static Option<Handle> {
    static BACKGROUND: OnceLock<Option<Handle>> = OnceLock::new();
    BACKGROUND.get_or_init(|| own_thread("distlock"))
}

/// Returns a runtime of one thread that lives as long as the process; `None` if the system starts no thread.
fn own_thread(name: &str) -> Option<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build().ok()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))
        .ok()?;
    Some(handle)
}

/// Spawns on the library's own thread, or without one on the caller's runtime.
fn spawn_on(own: &Option<Handle>, work: BoxFuture<'static, ()>) {
    match own.clone().or_else(|| Handle::try_current().ok()) {
        Some(handle) => drop(handle.spawn(work)),
        None => tracing::error!(
            "distlock: the system starts no thread for background work, and there is no tokio runtime: locks are neither renewed nor \
             released before their leases end; raise the limit on threads, or call the library inside a tokio runtime"
        ),
    }
}

/// An [`Env`] for tests: tokio's clock, which a test can pause, one runtime for all tasks, and random numbers from a seed. On a runtime of
/// one thread with a paused clock, the same test with the same seed gets the same pauses.
///
/// Only tokio's feature `test-util` can pause the clock (`start_paused`, `tokio::time::pause`), and this crate does not turn it on.
/// Add it to the dev-dependencies: `tokio = { version = "1", features = ["full", "test-util"] }`. Without a paused clock this type
/// runs in real time.
///
/// ```
/// use std::time::Duration;
/// use distlock::{Locks, env::Virtual};
///
/// let rt = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
/// rt.block_on(async {
///     let locks = Locks::builder().url("memory:").env(Virtual::new()).connect().await?;
///     let hour = Duration::from_secs(3600);
///     let guard = locks.mutex("k").lock().lease(hour).await?;
///     guard.lost().await; // an hour of virtual time, no time at all in the test
///     assert!(guard.is_lost());
///     Ok::<(), distlock::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Virtual {
    origin: tokio::time::Instant,
    began: SystemTime,
    runtime: Handle,
    rng: Arc<Mutex<fastrand::Rng>>,
}

impl Virtual {
    /// Returns an `Env` on the runtime it is called in, with the seed 0.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Virtual {
        Virtual::seeded(0)
    }

    /// Returns an `Env` on the runtime it is called in, with this seed. Clones draw from the same sequence of random numbers.
    ///
    /// ```
    /// use distlock::env::{Env, Virtual};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
    /// let (one, same, other) = (Virtual::seeded(7), Virtual::seeded(7), Virtual::seeded(8));
    /// let first = one.random();
    /// assert_eq!(same.random(), first);
    /// assert_ne!(other.random(), first);
    /// # }
    /// ```
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn seeded(seed: u64) -> Virtual {
        let (origin, began) = (tokio::time::Instant::now(), SystemTime::now());
        let rng = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
        Virtual { origin, began, runtime: Handle::current(), rng }
    }
}

impl Env for Virtual {
    fn now(&self) -> Moment {
        let _inside = self.runtime.enter();
        Moment::from_origin(self.origin.elapsed())
    }

    /// The time of day at which it was made, plus the time that has passed on its clock.
    fn time_of_day(&self) -> SystemTime {
        let _inside = self.runtime.enter();
        self.began + self.origin.elapsed()
    }

    fn sleep_until(&self, at: Moment) -> BoxFuture<'static, ()> {
        let _inside = self.runtime.enter();
        Box::pin(tokio::time::sleep(at.since(self.now())))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        thread_local! {
            static SPAWNING: Cell<bool> = const { Cell::new(false) };
        }
        // A runtime that has shut down drops spawned work, and work of this library that is dropped half-done spawns
        // its rest: without another runtime that would recurse for ever.
        if SPAWNING.replace(true) {
            return std::mem::forget(work);
        }
        drop(self.runtime.spawn(work));
        SPAWNING.set(false);
    }

    fn spawn_background(&self, work: BoxFuture<'static, ()>) {
        self.spawn(work);
    }

    fn spawn_watchdog(&self, work: BoxFuture<'static, ()>) {
        self.spawn(work);
    }

    fn random(&self) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).u64(..)
    }
}
