//! An extractor that acquires a lock for a handler.

use std::fmt;
use std::time::Duration;

use axum_core::body::Body;
use axum_core::extract::{FromRef, FromRequestParts};
use axum_core::response::{IntoResponse, Response};
use http::request::Parts;

use super::Busy;
use super::answer::Answer;
use crate::error::Error;
use crate::guard::Guard;
use crate::locks::Locks;

/// Names the lock of a request. It is an extractor itself, so the name can come from a path, a query or a header.
///
/// See [`Locked`].
pub trait LockKey {
    /// How long a request waits for the lock; by default not at all.
    const WAIT: Duration = Duration::ZERO;
    /// How long a request may hold the lock; by default without a limit.
    const LEASE: Option<Duration> = None;
    /// The status of the response if the lock was not acquired in time.
    const BUSY: Busy = Busy::Locked;

    /// Returns the name of the lock.
    fn lock_name(&self) -> String;
}

/// An axum extractor that acquires the lock that `K` names, and passes `K` and the guard to the handler.
///
/// The [`Locks`] come from the state. The handler owns the guard: it holds until it is dropped or
/// [unlocked](Guard::unlock), [`while_held`](Guard::while_held) drops work when the loss of the lock is noticed, and a handler that streams
/// can move it into the stream. If the lock is not acquired, the response is that of [the table](crate::web).
///
/// Extractors run in the order of the arguments: put it after those that authenticate the client.
///
/// # Cancel safety
/// When the client disconnects while the request waits, an in-flight acquire is rolled back in the background; later, the guard is
/// dropped, which releases the lock.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use axum::{Router, extract::{FromRequestParts, Path}, http::request::Parts, routing::post};
/// use distlock::{Locks, web::{LockKey, Locked}};
///
/// struct Account(u64);
///
/// impl<S: Send + Sync> FromRequestParts<S> for Account {
///     type Rejection = axum::extract::rejection::PathRejection;
///
///     async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Account, Self::Rejection> {
///         let Path(number) = Path::from_request_parts(parts, state).await?;
///         Ok(Account(number))
///     }
/// }
///
/// impl LockKey for Account {
///     const WAIT: Duration = Duration::from_secs(2);
///
///     fn lock_name(&self) -> String {
///         format!("account:{}", self.0)
///     }
/// }
///
/// async fn pay(Locked { key: Account(number), guard }: Locked<Account>) -> String {
///     // lock outside, transaction inside
///     # drop(guard);
///     format!("paid from {number}")
/// }
///
/// let app: Router = Router::new().route("/pay/{account}", post(pay)).with_state(Locks::memory());
/// ```
#[derive(Debug)]
#[must_use = "dropping it releases the lock immediately"]
pub struct Locked<K> {
    /// The key that named the lock.
    pub key: K,
    /// The guard of the lock.
    pub guard: Guard,
}

impl<S, K> FromRequestParts<S> for Locked<K>
where
    S: Send + Sync,
    Locks: FromRef<S>,
    K: LockKey + FromRequestParts<S> + Send,
{
    type Rejection = Refused<K::Rejection>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let key = K::from_request_parts(parts, state).await.map_err(|e| Refused(Why::Key(e)))?;
        let locks = Locks::from_ref(state);
        let mutex = locks.mutex(key.lock_name());
        let request = mutex.try_lock().wait(K::WAIT);
        let guard = match K::LEASE {
            Some(lease) => request.lease(lease).await,
            None => request.await,
        };
        match guard {
            Ok(Some(guard)) => Ok(Locked { key, guard }),
            Ok(None) => Err(Refused(Why::Lock(Answer::busy(K::BUSY, &locks, &mutex).await))),
            Err(error) => Err(Refused(Why::Lock(Answer::failed(&error)))),
        }
    }
}

/// Lets a handler return `Result<_, distlock::Error>`, and acquire with `?`. The status is that of [the table](crate::web); the body is
/// empty, and the message of the error is logged (`tracing`, target `distlock`): it may name locks and servers.
///
/// ```
/// use std::time::Duration;
/// use axum::{Router, extract::State, routing::post};
/// use distlock::Locks;
///
/// /// 423 while another request pays, 503 while the store cannot be reached.
/// async fn pay(State(locks): State<Locks>) -> distlock::Result<&'static str> {
///     locks.mutex("account:7").lock().wait(Duration::from_secs(2)).run(async |_| Ok("paid")).await
/// }
///
/// let app: Router = Router::new().route("/pay", post(pay)).with_state(Locks::memory());
/// ```
impl IntoResponse for Error {
    fn into_response(self) -> Response {
        Answer::failed(&self).response::<Body>()
    }
}

/// Why a handler with a [`Locked`] argument was not called.
pub struct Refused<R>(Why<R>);

enum Why<R> {
    /// The key could not be made from the request.
    Key(R),
    Lock(Answer),
}

impl<R: IntoResponse> IntoResponse for Refused<R> {
    fn into_response(self) -> Response {
        match self.0 {
            Why::Key(rejection) => rejection.into_response(),
            Why::Lock(answer) => answer.response::<Body>(),
        }
    }
}

impl<R> fmt::Debug for Refused<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Why::Key(_) => f.write_str("Refused(the key's extractor)"),
            Why::Lock(answer) => write!(f, "Refused({})", answer.status),
        }
    }
}
