//! A request for a lock: built by the kinds, finished by `.await` or `.blocking()`.

use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::config;
use crate::engine::{self, Ask, Engine, Hold, Wait};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::owner::Owner;
use crate::store::{Kind, What};

/// The lock must be had: not getting it in time is an error.
#[derive(Debug)]
pub enum Must {}

/// The lock may be had: not getting it in time is `None`.
#[derive(Debug)]
pub enum May {}

/// A request that has not been made yet: set options, then `.await` it or call [`blocking`](Acquire::blocking).
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::time::Duration;
/// let locks = distlock::Locks::memory();
/// let guard = locks.mutex("k").lock().wait(Duration::from_secs(2)).await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[must_use = "a request does nothing until it is awaited or finished with `.blocking()`"]
pub struct Acquire<G, Ending> {
    engine: Arc<Engine>,
    name: Result<Arc<str>>,
    kind: Kind,
    what: What,
    owner: Option<Owner>,
    wait: Option<Duration>,
    lease: Option<Duration>,
    ending: PhantomData<fn() -> (G, Ending)>,
}

impl<G, Ending> Acquire<G, Ending> {
    pub(crate) fn new(
        engine: Arc<Engine>,
        name: Result<Arc<str>>,
        kind: Kind,
        what: What,
    ) -> Acquire<G, Ending> {
        let (owner, wait, lease, ending) = (None, None, None, PhantomData);
        Acquire { engine, name, kind, what, owner, wait, lease, ending }
    }

    /// Waits at most this long; zero means one attempt.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Holds the lock for at most this long and leaves it to the lease: the watchdog does not renew it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Acquires as this owner. One that holds the lock already goes one level deeper; this never shortens what
    /// it had.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(*owner);
        self
    }

    /// Checks everything that can be checked before anything is sent.
    fn ask(self, default_wait: Wait) -> Result<(Arc<Engine>, Ask)> {
        let name = self.name?;
        let wait = match self.wait {
            None => default_wait,
            Some(Duration::ZERO) => Wait::Once,
            Some(wait) => Wait::For(wait.min(config::LONGEST)),
        };
        let lease =
            self.lease.map(check_lease).transpose().map_err(|e| e.about(self.kind, &name))?;
        let owner = self.owner.or_else(Owner::of_scope);
        let explicit = owner.is_some();
        let owner = owner.unwrap_or_else(|| self.engine.mint_owner());
        let ask = Ask { name, kind: self.kind, what: self.what, owner, explicit, lease, wait };
        Ok((self.engine, ask))
    }
}

/// A lease in whole milliseconds, rounded up: stores count in these, and zero would mean an instantly dead lock.
pub(crate) fn check_lease(lease: Duration) -> Result<Duration> {
    if lease.is_zero() || lease > config::LONGEST {
        let text = format!("a lease of {lease:?} cannot be kept: use 1 ms to 10 years");
        return Err(Error::new(ErrorKind::InvalidDuration, text));
    }
    let part = lease.subsec_nanos() % 1_000_000;
    let up = if part == 0 { 0 } else { u64::from(1_000_000 - part) };
    Ok(lease + Duration::from_nanos(up))
}

async fn must<G: From<Hold>>(engine: Arc<Engine>, ask: Ask) -> Result<G> {
    if let Some(hold) = engine::acquire(&engine, &ask).await? {
        return Ok(G::from(hold));
    }
    let error = Box::pin(too_late(&engine, &ask)).await;
    Err(error.about(ask.kind, &ask.name))
}

/// Why there is no lock after the whole wait: who holds it, or that the store cannot even be asked that.
async fn too_late(engine: &Engine, ask: &Ask) -> Error {
    let waited = match ask.wait {
        Wait::For(wait) => wait,
        _ => Duration::ZERO,
    };
    let seen = tokio::select! {
        seen = engine.inspect(&ask.name) => seen,
        () = engine.env.sleep_until(engine.env.now().after(config::REPLY_TIMEOUT)) => {
            let text = format!("no answer in time, after a wait of {waited:?} for a busy lock");
            return Error::new(ErrorKind::Unavailable, text);
        }
    };
    let holder = match seen {
        Ok(seen) if seen.is_held() => format!(
            "held by {} for at most {:?} more",
            seen.holders[0].owner,
            seen.ttl.unwrap_or_default()
        ),
        Ok(_) => "free by now".to_owned(),
        Err(e) if e.is_retryable() => return e,
        Err(_) => "who holds it may not be asked".to_owned(),
    };
    Error::new(ErrorKind::WaitTimeout, format!("still busy after {waited:?}; {holder}"))
}

async fn may<G: From<Hold>>(engine: Arc<Engine>, ask: Ask) -> Result<Option<G>> {
    Ok(engine::acquire(&engine, &ask).await?.map(G::from))
}

impl<G: From<Hold> + Send + 'static> IntoFuture for Acquire<G, Must> {
    type Output = Result<G>;
    type IntoFuture = BoxFuture<'static, Result<G>>;

    fn into_future(self) -> BoxFuture<'static, Result<G>> {
        match self.ask(Wait::Forever) {
            Ok((engine, ask)) => Box::pin(must(engine, ask)),
            Err(e) => Box::pin(std::future::ready(Err(e))),
        }
    }
}

impl<G: From<Hold> + Send + 'static> IntoFuture for Acquire<G, May> {
    type Output = Result<Option<G>>;
    type IntoFuture = BoxFuture<'static, Result<Option<G>>>;

    fn into_future(self) -> BoxFuture<'static, Result<Option<G>>> {
        match self.ask(Wait::Once) {
            Ok((engine, ask)) => Box::pin(may(engine, ask)),
            Err(e) => Box::pin(std::future::ready(Err(e))),
        }
    }
}

impl<G, Ending, T> Acquire<G, Ending>
where
    Self: IntoFuture<Output = Result<T>, IntoFuture = BoxFuture<'static, Result<T>>>,
    T: Send + 'static,
{
    /// Acquires and blocks the calling thread meanwhile; no runtime is needed. Not for use inside async code, where it
    /// would stop the other tasks of the thread.
    ///
    /// ```
    /// let locks = distlock::Locks::memory();
    /// let guard = locks.mutex("k").lock().blocking()?;
    /// guard.unlock_blocking()?;
    /// # Ok::<(), distlock::Error>(())
    /// ```
    pub fn blocking(self) -> Result<T> {
        let env = self.engine.env.clone();
        engine::block_on(&*env, self.into_future())
    }
}

impl<G, Ending> fmt::Debug for Acquire<G, Ending> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acquire")
            .field("kind", &self.kind)
            .field("name", &self.name.as_deref().unwrap_or_default())
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("owner", &self.owner)
            .finish()
    }
}
