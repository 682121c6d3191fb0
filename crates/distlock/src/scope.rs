//! The lock as the work under it sees it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{self, State, Vitals};
use crate::env::Env;
use crate::error::Result;
use crate::guard::Guard;
use crate::owner::Owner;
use crate::store::{Kind, What};
use crate::together;

/// Shows a lock to the work that runs under it: its state, owner and token. Unlike a [`Guard`] it cannot release the lock, and it
/// may outlive it. Cheap to clone; [`Mutex::run`](crate::Mutex::run) and the other `run` methods pass it to the work.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::{Error, Locks};
///
/// let locks = Locks::memory();
/// locks.fenced("disk:7").run(async |scope| {
///     let token = scope.token().expect("a fenced lock has one");
///     // write, and send the token along
///     # assert!(token > 0);
///     // Explicit re-entry: with the same owner.
///     let inner = locks.fenced("disk:7").lock().owner(scope.owner()).await?;
///     inner.unlock().await
/// })
/// .await?;
/// # Ok::<(), Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Scope {
    /// At least one.
    parts: Arc<[Part]>,
    env: Arc<dyn Env>,
}

struct Part {
    kind: Kind,
    name: Arc<str>,
    owner: Owner,
    token: Option<u64>,
    vitals: Arc<Vitals>,
}

impl Scope {
    /// Of what these guards hold, of which there is at least one.
    pub(crate) fn of(guards: &[&Guard]) -> Scope {
        let parts = guards.iter().map(|guard| {
            let tenure = &guard.hold.tenure;
            Part {
                kind: tenure.kind,
                name: tenure.name().clone(),
                owner: tenure.owner,
                token: (tenure.what == What::Fenced).then(|| tenure.token()),
                vitals: tenure.vitals.clone(),
            }
        });
        Scope { parts: parts.collect(), env: guards[0].hold.tenure.engine.env.clone() }
    }

    /// Returns the owner that holds the lock; pass it on to re-enter.
    pub fn owner(&self) -> &Owner {
        &self.parts[0].owner
    }

    /// Returns the full name of the lock, prefix included; of several, that of the first that was acquired.
    pub fn name(&self) -> &str {
        &self.parts[0].name
    }

    /// Returns the fencing token, of several locks the highest; `None` for kinds that have none.
    pub fn token(&self) -> Option<u64> {
        self.parts.iter().filter_map(|part| part.token).max()
    }

    /// Returns the time until the deadline if the lock is not renewed; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        let now = self.env.now();
        let each = self.parts.iter().map(|part| part.vitals.remaining(now));
        each.min().unwrap_or_default()
    }

    /// Returns the state of the lock: held, suspect or lost; of several locks, the worst. After the end of the run it is `Lost`.
    pub fn state(&self) -> State {
        let now = self.env.now();
        State::worst(self.parts.iter().map(|part| part.vitals.state(now)))
    }

    /// Returns whether the lock is lost, or the run over.
    pub fn is_lost(&self) -> bool {
        self.state() == State::Lost
    }

    /// Returns a future that completes when the lock is lost, and never if it is released. As [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let each = self.parts.iter().map(|part| part.vitals.clone()).collect();
        together::first_lost(each, self.env.clone())
    }

    /// Returns `Ok` until the loss of the lock is noticed: for work that cannot be stopped, before each action that cannot be undone.
    ///
    /// # Errors
    /// `Lost` once the loss is noticed, or the run over.
    pub fn ensure(&self) -> Result<()> {
        let now = self.env.now();
        let lost = self.parts.iter().find(|part| part.vitals.state(now) == State::Lost);
        lost.map_or(Ok(()), |part| Err(engine::lost().about(part.kind, &part.name)))
    }

    /// Returns a token that is cancelled when the lock is lost. As [`Guard::cancellation_token`].
    #[cfg(feature = "tokio-util")]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let each = self.parts.iter().map(|part| part.vitals.clone()).collect();
        crate::cancel::token(each, &self.env)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("name", &self.name())
            .field("owner", self.owner())
            .field("state", &self.state())
            .finish()
    }
}
