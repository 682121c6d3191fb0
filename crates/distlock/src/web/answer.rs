//! The response to a request that does not get its lock.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};

use crate::error::{Error, ErrorKind};
use crate::kinds::Mutex;
use crate::locks::Locks;
use crate::locks::config;

/// The status of the response while another request holds the lock.
///
/// ```
/// use distlock::Locks;
/// use distlock::web::{Busy, LockLayer};
/// use http::Request;
///
/// let by_path = |request: &Request<()>| Some(request.uri().path().to_owned());
/// let layer = LockLayer::new(&Locks::memory(), by_path).busy(Busy::Conflict);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Busy {
    /// `423 Locked`.
    #[default]
    Locked,
    /// `409 Conflict`, for clients and proxies that do not know 423.
    Conflict,
}

/// A status, and when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    retry_after: Option<u64>,
}

/// How long an outage lasts is unknown; a lost lock is free soon.
const SOON: Option<u64> = Some(1);

impl Answer {
    /// Another owner has the lock.
    pub(super) async fn busy(busy: Busy, locks: &Locks, mutex: &Mutex) -> Answer {
        let status = match busy {
            Busy::Locked => StatusCode::LOCKED,
            Busy::Conflict => StatusCode::CONFLICT,
        };
        let env = locks.engine().env.clone();
        let left = tokio::select! {
            left = mutex.ttl() => left.ok(),
            // The response is known except for its header: a store that stalls does not keep a client waiting.
            () = env.sleep_until(env.now().after(config::REPLY_TIMEOUT)) => None,
        };
        // It was busy, even if the store cannot tell for how long.
        let retry_after = left.map_or(SOON, |left| Some(seconds(left.unwrap_or_default())));
        Answer { status, retry_after }
    }

    /// The lock was not acquired, or was lost.
    pub(super) fn failed(error: &Error) -> Answer {
        let (status, retry_after) = match error.kind() {
            ErrorKind::WaitTimeout => {
                (StatusCode::LOCKED, Some(seconds(error.retry_after().unwrap_or_default())))
            }
            ErrorKind::InvalidName => (StatusCode::BAD_REQUEST, None),
            ErrorKind::Closed | ErrorKind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, SOON),
            _ if error.is_retryable() => (StatusCode::SERVICE_UNAVAILABLE, SOON),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
        };
        let code = status.as_u16();
        match error.kind() {
            // Contention is no trouble.
            ErrorKind::WaitTimeout => {
                tracing::debug!(target: "distlock", %error, status = code, "request refused");
            }
            _ => {
                tracing::warn!(target: "distlock", %error, status = code, "request refused")
            }
        }
        Answer { status, retry_after }
    }

    pub(super) fn response<B: Default>(self) -> Response<B> {
        let mut response = Response::new(B::default());
        *response.status_mut() = self.status;
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// Whole seconds, rounded up: a client that retries too early retries in vain.
fn seconds(left: Duration) -> u64 {
    let up = u64::from(left.subsec_nanos() > 0);
    left.as_secs().saturating_add(up).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_whole_and_at_least_one() {
        for (millis, whole) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (29_999, 30)] {
            assert_eq!(seconds(Duration::from_millis(millis)), whole, "{millis} ms");
        }
    }

    #[test]
    fn what_the_client_can_mend_what_passes_and_what_does_not() {
        let status = |kind| Answer::failed(&Error::new(kind, "")).status.as_u16();
        assert_eq!(status(ErrorKind::InvalidName), 400);
        assert_eq!(status(ErrorKind::WaitTimeout), 423);
        for passing in [ErrorKind::Unavailable, ErrorKind::Indeterminate, ErrorKind::Lost] {
            assert_eq!(status(passing), 503, "{passing:?}");
        }
        assert_eq!(status(ErrorKind::Closed), 503);
        for ours in [ErrorKind::Config, ErrorKind::Conflict, ErrorKind::Unsupported] {
            assert_eq!(status(ours), 500, "{ours:?}");
        }
    }
}
