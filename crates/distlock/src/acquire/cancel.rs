//! tokio-util's `CancellationToken`: the loss of a lock cancels one, and the cancellation of one ends a wait.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::acquire::Acquire;
use crate::engine::Vitals;
use crate::env::Env;
use crate::guard::Guard;
use crate::guard::loss::any_lost_or_all_released;
use crate::kinds::MultiGuard;

/// Returns a token that is cancelled when one of these holds is lost. A single hold has one task that watches it, however many tokens there
/// are.
pub(crate) fn token(each: Vec<Arc<Vitals>>, env: &Arc<dyn Env>) -> CancellationToken {
    match &each[..] {
        [one] => one.token.get_or_init(|| new_token(each.clone(), env)).child_token(),
        _ => new_token(each, env),
    }
}

fn new_token(each: Vec<Arc<Vitals>>, env: &Arc<dyn Env>) -> CancellationToken {
    let token = CancellationToken::new();
    let (watched, clock) = (token.clone(), env.clone());
    // Not on the caller's runtime, which may be blocked, or end before the guard does.
    env.spawn_background(Box::pin(async move {
        if any_lost_or_all_released(each, clock).await {
            watched.cancel();
        }
    }));
    token
}

impl Guard {
    /// Returns a token that is cancelled when the lock is lost, for the work under the lock. It is never cancelled if the lock is
    /// released first; cancelling it does not change the lock. The task that watches the hold ends with it.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// let locks = distlock::Locks::memory();
    /// let guard = locks.mutex("leader").lock().await?;
    /// let leading = guard.cancellation_token();
    /// let work = tokio::spawn(async move { leading.cancelled().await });
    ///
    /// locks.mutex("leader").force_unlock().await?; // an operator takes it away
    /// work.await.unwrap();
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn cancellation_token(&self) -> CancellationToken {
        let tenure = &self.hold.tenure;
        token(vec![tenure.vitals.clone()], &tenure.engine.env)
    }
}

impl MultiGuard {
    /// Returns a token that is cancelled when one of the members is lost. As [`Guard::cancellation_token`], but each call starts a task:
    /// call it once and clone the token.
    pub fn cancellation_token(&self) -> CancellationToken {
        let each = self.guards().iter().map(|guard| guard.hold.tenure.vitals.clone()).collect();
        token(each, &self.guards()[0].hold.tenure.engine.env)
    }
}

impl<G, Ending> Acquire<G, Ending> {
    /// Ends the wait when `token` is cancelled, for instance when the program shuts down: `lock` then returns `Cancelled`, `try_lock`
    /// `None`. If it is cancelled already, nothing is sent. A lock that has been acquired stays held.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::{ErrorKind, Locks};
    /// use tokio_util::sync::CancellationToken;
    ///
    /// let (locks, shutdown) = (Locks::memory(), CancellationToken::new());
    /// let _elsewhere = locks.mutex("k").lock().await?;
    /// let waiting = tokio::spawn(locks.mutex("k").lock().cancel_on(&shutdown).into_future());
    /// shutdown.cancel();
    /// let error = waiting.await.unwrap().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn cancel_on(mut self, token: &CancellationToken) -> Self {
        self.cancel = Some(token.clone());
        self
    }
}
