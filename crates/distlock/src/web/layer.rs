//! A layer that serves requests with the same key one after the other.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::Busy;
use super::answer::Answer;
use crate::error::Error;
use crate::kinds::Mutex;
use crate::locks::Locks;

/// A tower layer that serves requests with the same key one after the other, across every instance of the service that
/// uses the same locks.
///
/// The key is the name of a [`Mutex`]; requests for which the closure returns `None` need no lock. A request waits for at most
/// [`wait`](LockLayer::wait) (not at all unless set), then the response is that of [the table](crate::web).
///
/// # Guarantees
/// The lock is held from before the handler is called until it has returned its response: *the head*. A body that is still being
/// streamed by then is not protected; a handler that streams acquires its lock itself ([`Locked`](crate::web::Locked)) and moves the
/// guard into the stream. The response is sent after the release, so that a client that has it finds the lock free.
///
/// When the loss of the lock is noticed meanwhile, the handler's future is dropped at its next await, and the client receives a 503. What
/// the handler has done so far is not undone: lock outside, transaction inside.
///
/// # Cancel safety
/// When the client disconnects, or a timeout around the layer fires, the response future is dropped: that drops the handler and releases
/// the lock.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use axum::{Router, routing::post};
/// use distlock::{Locks, web::LockLayer};
///
/// let locks = Locks::memory();
/// let one_by_one = LockLayer::new(&locks, |request: &axum::http::Request<_>| {
///     let account = request.uri().path().strip_prefix("/pay/")?;
///     Some(format!("account:{account}"))
/// });
/// let app: Router = Router::new()
///     .route("/pay/{account}", post(async || "paid"))
///     .layer(one_by_one.wait(Duration::from_secs(2)));
/// ```
#[derive(Clone)]
pub struct LockLayer<F> {
    key: F,
    rules: Arc<Rules>,
}

#[derive(Clone)]
struct Rules {
    locks: Locks,
    wait: Duration,
    lease: Option<Duration>,
    busy: Busy,
}

impl<F> LockLayer<F> {
    /// Returns a layer that calls `key` for the name of a request's lock.
    pub fn new<B, N>(locks: &Locks, key: F) -> LockLayer<F>
    where
        F: Fn(&Request<B>) -> Option<N>,
        N: AsRef<str>,
    {
        let locks = locks.clone();
        let rules = Rules { locks, wait: Duration::ZERO, lease: None, busy: Busy::default() };
        LockLayer { key, rules: Arc::new(rules) }
    }

    /// Sets how long a request waits for the lock.
    #[must_use]
    pub fn wait(self, wait: Duration) -> Self {
        self.with(|rules| rules.wait = wait)
    }

    /// Sets how long a request may hold its lock; after that its handler is dropped. Without a limit unless set: the watchdog
    /// renews the lock while the handler runs.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        self.with(|rules| rules.lease = Some(lease))
    }

    /// Sets the status of the response if the lock was not acquired in time; [`Busy::Locked`] unless set.
    #[must_use]
    pub fn busy(self, busy: Busy) -> Self {
        self.with(|rules| rules.busy = busy)
    }

    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(Arc::make_mut(&mut self.rules));
        self
    }
}

impl<S, F: Clone> Layer<S> for LockLayer<F> {
    type Service = LockService<S, F>;

    fn layer(&self, inner: S) -> LockService<S, F> {
        LockService { inner, layer: self.clone() }
    }
}

/// The service that a [`LockLayer`] wraps around another one.
#[derive(Clone)]
pub struct LockService<S, F> {
    inner: S,
    layer: LockLayer<F>,
}

impl<S, F, N, Body, Answered> Service<Request<Body>> for LockService<S, F>
where
    S: Service<Request<Body>, Response = Response<Answered>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(&Request<Body>) -> Option<N>,
    N: AsRef<str>,
    Body: Send + 'static,
    Answered: Default + Send,
{
    type Response = Response<Answered>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Answered>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The one that said it is ready is called; its clone may not be.
        let clone = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, clone);
        let Some(name) = (self.layer.key)(&request) else {
            return Box::pin(inner.call(request));
        };
        let rules = self.layer.rules.clone();
        let mutex = rules.locks.mutex(name);
        Box::pin(async move {
            match rules.serve(&mutex, async move |_| judged(inner.call(request).await)).await {
                Ok(Some(response)) => Ok(response),
                Ok(None) => Ok(Answer::busy(rules.busy, &rules.locks, &mutex).await.response()),
                Err(Trouble::Lock(error)) => Ok(Answer::failed(&error).response()),
                Err(Trouble::Said(response)) => Ok(response),
                Err(Trouble::Inner(error)) => Err(error),
            }
        })
    }
}

impl Rules {
    async fn serve<R, E>(
        &self,
        mutex: &Mutex,
        work: impl AsyncFnOnce(crate::Scope) -> Result<R, Trouble<R, E>>,
    ) -> Result<Option<R>, Trouble<R, E>> {
        let request = mutex.try_lock().wait(self.wait);
        match self.lease {
            Some(lease) => request.lease(lease).run(work).await,
            None => request.run(work).await,
        }
    }
}

/// Why there is no response that reports success.
enum Trouble<R, E> {
    Lock(Error),
    /// The handler refused: its response counts, even if the lock was lost.
    Said(R),
    Inner(E),
}

impl<R, E> From<Error> for Trouble<R, E> {
    fn from(error: Error) -> Self {
        Trouble::Lock(error)
    }
}

/// A response that reports success is worth nothing without the lock; one that reports failure is.
fn judged<B, E>(response: Result<Response<B>, E>) -> Result<Response<B>, Trouble<Response<B>, E>> {
    let response = response.map_err(Trouble::Inner)?;
    match response.status() {
        status if status.is_client_error() || status.is_server_error() => {
            Err(Trouble::Said(response))
        }
        _ => Ok(response),
    }
}

impl<F> fmt::Debug for LockLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer")
            .field("locks", &self.rules.locks)
            .field("wait", &self.rules.wait)
            .field("lease", &self.rules.lease)
            .field("busy", &self.rules.busy)
            .finish_non_exhaustive()
    }
}

impl<S: fmt::Debug, F> fmt::Debug for LockService<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockService")
            .field("inner", &self.inner)
            .field("layer", &self.layer)
            .finish()
    }
}
