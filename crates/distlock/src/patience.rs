//! Waiting for an answer for a limited time.

use std::pin::pin;
use std::time::Duration;

use crate::env::Env;

/// What `work` gives within `limit`. In two halves: a process that was kept from running all through the first, stopped or out of its
/// share of the machine, finds in the second what came meanwhile; with one limit it would take a healthy store for silent.
pub(crate) async fn within<T>(
    env: &dyn Env,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    for _ in 0..2 {
        tokio::select! {
            biased; // what is there counts, however late
            done = &mut work => return Some(done),
            () = env.sleep_until(env.now().after(limit / 2)) => {}
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
    async fn what_does_not_come_is_waited_for_until_the_limit() {
        let since = Instant::now();
        assert_eq!(within(&Virtual::new(), LIMIT, std::future::pending::<()>()).await, None);
        assert_eq!(since.elapsed().as_millis(), LIMIT.as_millis());
    }

    #[tokio::test(start_paused = true)]
    async fn what_came_while_the_process_stood_still_counts() {
        let (says, said) = tokio::sync::oneshot::channel();
        let env = Virtual::new();
        let heard = tokio::spawn(async move { within(&env, LIMIT, said).await });
        tokio::task::yield_now().await; // now it waits
        advance(LIMIT * 10).await;
        sleep(LIMIT / 4).await; // whoever moves the bytes gets to run after it
        says.send(7).expect("it is waited for");
        assert_eq!(heard.await.expect("no panic"), Some(Ok(7)));
    }
}
