//! [`Scope`]: the lock as the work under it sees it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::{self, State, Vitals};
use crate::env::Env;
use crate::error::Result;
use crate::guard::Guard;
use crate::guard::loss::any_lost;
use crate::owner::Owner;
use crate::store::{ClaimKind, Kind};

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
    holds: Arc<[ScopedHold]>,
    env: Arc<dyn Env>,
}

struct ScopedHold {
    kind: Kind,
    name: Arc<str>,
    owner: Owner,
    token: Option<u64>,
    vitals: Arc<Vitals>,
}

impl Scope {
    /// Returns the scope of these guards; there must be at least one.
    pub(crate) fn of(guards: &[&Guard]) -> Scope {
        let holds = guards.iter().map(|guard| {
            let tenure = &guard.hold.tenure;
            ScopedHold {
                kind: tenure.kind,
                name: tenure.name().clone(),
                owner: tenure.owner,
                token: (tenure.what == ClaimKind::Fenced).then(|| tenure.token()),
                vitals: tenure.vitals.clone(),
            }
        });
        Scope { holds: holds.collect(), env: guards[0].hold.tenure.engine.env.clone() }
    }

    /// Returns the owner that holds the lock; pass it on to re-enter.
    pub fn owner(&self) -> &Owner {
        &self.holds[0].owner
    }

    /// Returns the full name of the lock, prefix included; of several, that of the first that was acquired.
    pub fn name(&self) -> &str {
        &self.holds[0].name
    }

    /// Returns the fencing token, of several locks the highest; `None` for kinds that have none.
    pub fn token(&self) -> Option<u64> {
        self.holds.iter().filter_map(|hold| hold.token).max()
    }

    /// Returns the time until the deadline if the lock is not renewed; zero once it is lost.
    pub fn remaining(&self) -> Duration {
        let now = self.env.now();
        let each = self.holds.iter().map(|hold| hold.vitals.remaining(now));
        each.min().unwrap_or_default()
    }

    /// Returns the state of the lock: held, suspect or lost; of several locks, the worst. After the end of the run it is `Lost`.
    pub fn state(&self) -> State {
        let now = self.env.now();
        State::worst(self.holds.iter().map(|hold| hold.vitals.state(now)))
    }

    /// Returns whether the lock is lost, or the run over.
    pub fn is_lost(&self) -> bool {
        self.state() == State::Lost
    }

    /// Returns a future that completes when the lock is lost, and never if it is released. As [`Guard::lost`].
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let each = self.holds.iter().map(|hold| hold.vitals.clone()).collect();
        any_lost(each, self.env.clone())
    }

    /// Returns `Ok` until the loss of the lock is noticed: for work that cannot be stopped, before each action that cannot be undone.
    ///
    /// # Errors
    /// `Lost` once the loss is noticed, or the run over.
    pub fn ensure(&self) -> Result<()> {
        let now = self.env.now();
        let lost = self.holds.iter().find(|hold| hold.vitals.state(now) == State::Lost);
        lost.map_or(Ok(()), |hold| Err(engine::lost().about(hold.kind, &hold.name)))
    }

    /// Returns a token that is cancelled when the lock is lost. As [`Guard::cancellation_token`].
    #[cfg(feature = "tokio-util")]
    pub fn cancellation_token(&self) -> tokio_util::sync::CancellationToken {
        let each = self.holds.iter().map(|hold| hold.vitals.clone()).collect();
        crate::acquire::cancel::token(each, &self.env)
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
