//! How long a reply is waited for.

use std::io;
use std::pin::pin;
use std::time::Duration;

use redis::RedisResult;

/// Waits for a reply, in two halves: a process that was kept from running all through the first, stopped or out of its share of the
/// machine, finds in the second what came meanwhile. Otherwise every step under way would be in doubt, and its server healthy.
pub(super) async fn in_time<T>(
    limit: Duration,
    reply: impl Future<Output = RedisResult<T>>,
) -> RedisResult<T> {
    let mut reply = pin!(reply);
    for _ in 0..2 {
        if let Ok(reply) = tokio::time::timeout(limit / 2, &mut reply).await {
            return reply;
        }
    }
    Err(io::Error::from(io::ErrorKind::TimedOut).into())
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, advance, sleep};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn no_reply_is_waited_for_until_the_limit() {
        let since = Instant::now();
        let never = std::future::pending::<RedisResult<()>>();
        let why = in_time(LIMIT, never).await.expect_err("there is none");
        assert!(why.is_timeout(), "{why}");
        assert_eq!(since.elapsed().as_millis(), LIMIT.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_came_while_the_process_stood_still_counts() {
        let (replies, replied) = tokio::sync::oneshot::channel();
        let reply = tokio::spawn(in_time(LIMIT, async { Ok(replied.await.is_ok()) }));
        tokio::task::yield_now().await; // now it waits
        advance(LIMIT * 10).await;
        sleep(LIMIT / 4).await; // whoever moves the bytes gets to run after it
        replies.send(()).expect("it is waited for");
        assert!(reply.await.expect("no panic").expect("there is a reply"));
    }
}
