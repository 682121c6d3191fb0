//! Nothing may be left behind.

use std::time::Duration;

use tokio::time::Instant;

use crate::Server;
use crate::looks::Looks;

/// How long what is on its way out may take, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(20);
/// What has no longer to live than this is on its way out.
const BRIEF: Duration = Duration::from_secs(2);

/// Waits, for at most 20 s, until the server has no key with `prefix` in its name and nobody is
/// subscribed to any channel. Keys with more than 2 s to live must be gone before these are over.
///
/// Names with the prefix *anywhere* count: the library's own keys carry the lock's name inside.
///
/// # Panics
/// When something is left, with a list of it.
pub async fn assert_clean(server: &Server, prefix: &str) {
    assert_clean_within(server, prefix, PATIENCE).await;
}

/// [`assert_clean`] with another limit.
///
/// # Panics
/// Like [`assert_clean`].
pub async fn assert_clean_within(server: &Server, prefix: &str, patience: Duration) {
    let mut limit = Limit::new(patience, BRIEF);
    let mut looks = Looks::default();
    loop {
        let left = left(server, prefix).await;
        if left.is_empty() {
            return;
        }
        for (_, lives) in &left {
            limit.must_go(*lives);
        }
        if limit.is_over() {
            let left: Vec<_> = left.into_iter().map(|(what, _)| what).collect();
            panic!("left behind on the server after {:?}:\n{}", limit.spent(), left.join("\n"));
        }
        looks.pause().await;
    }
}

/// Until when something must be gone: patience for whatever somebody is about to remove, but not so much that what was
/// forgotten goes by itself meanwhile.
#[derive(Debug)]
pub(crate) struct Limit {
    since: Instant,
    until: Instant,
    brief: Duration,
}

impl Limit {
    /// So much patience; what has no longer than `brief` to live may go by itself.
    pub(crate) fn new(patience: Duration, brief: Duration) -> Limit {
        let since = Instant::now();
        Limit { since, until: since + patience, brief }
    }

    /// Something is there that has so long to live; `None` for ever.
    pub(crate) fn must_go(&mut self, lives: Option<Duration>) {
        if let Some(lives) = lives.filter(|lives| *lives > self.brief) {
            // Looked for well before its end: not to be found any more means that it was removed.
            let before = Instant::now().checked_add(lives - lives / 20);
            self.until = before.map_or(self.until, |before| self.until.min(before));
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.until
    }

    pub(crate) fn spent(&self) -> Duration {
        self.since.elapsed()
    }
}

/// How long something has to live that a server says has so many milliseconds.
pub(crate) fn lives(pttl: i64) -> Option<Duration> {
    u64::try_from(pttl).ok().map(Duration::from_millis)
}

/// What is left, in words, and how long it has to live.
async fn left(server: &Server, prefix: &str) -> Vec<(String, Option<Duration>)> {
    let mut left = Vec::new();
    for key in server.keys(&format!("*{}*", literal(prefix))).await {
        let kind: String = server.ask(&["TYPE", &key]).await;
        let pttl = server.pttl(&key).await;
        left.push((format!("key {key} ({kind}, {pttl} ms left)"), lives(pttl)));
    }
    for channel in server.pubsub_channels().await {
        left.push((format!("subscription to {channel}"), None));
    }
    left
}

/// A pattern that matches just this text.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Patience with those who clear up is not patience with what nobody clears up.
    #[tokio::test(start_paused = true)]
    async fn what_would_go_by_itself_must_be_gone_before() {
        let mut limit = Limit::new(20 * SECOND, 2 * SECOND);
        limit.must_go(Some(10 * SECOND));
        tokio::time::sleep(9 * SECOND).await;
        // It has less to live by now, and must be gone no later.
        limit.must_go(Some(SECOND));
        limit.must_go(None);
        assert!(!limit.is_over());
        tokio::time::sleep(SECOND * 4 / 5).await;
        assert!(limit.is_over(), "it would have gone by itself");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_on_its_way_out_may_go_by_itself() {
        let mut limit = Limit::new(20 * SECOND, 2 * SECOND);
        limit.must_go(Some(2 * SECOND));
        limit.must_go(None);
        tokio::time::sleep(19 * SECOND).await;
        assert!(!limit.is_over());
        tokio::time::sleep(2 * SECOND).await;
        assert!(limit.is_over());
    }
}
