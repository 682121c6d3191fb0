//! A limit on the time that an operation may take.

use std::pin::pin;
use std::time::Duration;

use super::env::Env;

/// Returns the output of `work`, or `None` if it is not ready within `limit` on the clock of `env`.
pub(crate) async fn timeout<T>(
    env: &dyn Env,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    in_halves(limit, work, |half| env.sleep_until(env.now().after(half))).await
}

/// [`timeout`] on tokio's own clock and without an allocation, for the replies of a server. Must run inside a tokio runtime.
#[cfg(feature = "redis")]
pub(crate) async fn timeout_in_tokio<T>(
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    in_halves(limit, work, tokio::time::sleep).await
}

/// Waits in two halves: a process that was kept from running all through the first, stopped or out of its share of the machine, reads in
/// the second what arrived meanwhile. With a single limit it would take a healthy server for one that does not reply, and every operation
/// in flight would be in doubt.
async fn in_halves<T, S: Future<Output = ()>>(
    limit: Duration,
    work: impl Future<Output = T>,
    sleep: impl Fn(Duration) -> S,
) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..2 {
        tokio::select! {
            biased; // output that is ready counts, however late it is
            done = &mut work => return Some(done),
            () = sleep(limit / 2) => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance, sleep};

    use super::*;
    use crate::env::Virtual;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn work_that_is_never_ready_ends_at_the_limit() {
        let since = Instant::now();
        assert_eq!(timeout(&Virtual::new(), LIMIT, std::future::pending::<()>()).await, None);
        assert_eq!(since.elapsed().as_millis(), LIMIT.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_came_while_the_process_stood_still_counts() {
        let (sender, reply) = tokio::sync::oneshot::channel();
        let env = Virtual::new();
        let waiting = tokio::spawn(async move { timeout(&env, LIMIT, reply).await });
        tokio::task::yield_now().await; // now it waits
        advance(LIMIT * 10).await;
        sleep(LIMIT / 4).await; // the task that reads the socket runs after it
        sender.send(7).expect("it is waited for");
        assert_eq!(waiting.await.expect("no panic"), Some(Ok(7)));
    }

    #[cfg(feature = "redis")]
    #[tokio::test(start_paused = true)]
    async fn both_clocks_have_the_same_limit() {
        let since = Instant::now();
        assert_eq!(timeout_in_tokio(LIMIT, std::future::pending::<()>()).await, None);
        assert_eq!(since.elapsed().as_millis(), LIMIT.as_millis());

        let (sender, reply) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(timeout_in_tokio(LIMIT, reply));
        tokio::task::yield_now().await;
        advance(LIMIT * 10).await;
        sleep(LIMIT / 4).await;
        sender.send(7).expect("it is waited for");
        assert_eq!(waiting.await.expect("no panic"), Some(Ok(7)));
    }
}
