//! tokio-util's `CancellationToken`: a lock that is lost cancels one, and one that is cancelled ends a wait.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::engine::Vitals;
use crate::env::Env;
use crate::guard::Guard;
use crate::kinds::MultiGuard;
use crate::request::Acquire;
use crate::together;

/// A token that is cancelled when one of these is lost. However often one asks about a single hold, one task watches it.
pub(crate) fn token(each: Vec<Arc<Vitals>>, env: &Arc<dyn Env>) -> CancellationToken {
    match &each[..] {
        [one] => one.token.get_or_init(|| watched(each.clone(), env)).child_token(),
        _ => watched(each, env),
    }
}

fn watched(each: Vec<Arc<Vitals>>, env: &Arc<dyn Env>) -> CancellationToken {
    let token = CancellationToken::new();
    let (told, clock) = (token.clone(), env.clone());
    // Not on the caller's runtime: that may stand still, or end before the guard does.
    env.spawn_apart(Box::pin(async move {
        if together::first_over(each, clock).await {
            told.cancel();
        }
    }));
    token
}

impl Guard {
    /// A token that is cancelled when the lock is lost, to hand to whatever is done under it. Never cancelled if the lock is
    /// released first; cancelling it does nothing to the lock. What watches for it ends with the hold.
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
    /// A token that is cancelled when one of the members is lost. As [`Guard::cancellation_token`], but each is watched for by
    /// itself: ask once and clone it.
    pub fn cancellation_token(&self) -> CancellationToken {
        let each = self.guards().iter().map(|guard| guard.hold.tenure.vitals.clone()).collect();
        token(each, &self.guards()[0].hold.tenure.engine.env)
    }
}

impl<G, Ending> Acquire<G, Ending> {
    /// Stops waiting when `token` is cancelled, as when the program shuts down: a lock that must be had is `Cancelled` then,
    /// one that may be had is `None`. Nothing is asked for if it is cancelled already. A lock that is had stays.
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
