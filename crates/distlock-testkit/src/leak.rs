//! Nothing may be left behind.

use std::time::{Duration, Instant};

use crate::Server;

/// How long what is on its way out may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at the server.
const LOOK: Duration = Duration::from_millis(5);

/// Waits, for at most 2 s, until the server has no key with `prefix` in its name and nobody is
/// subscribed to any channel.
///
/// Names with the prefix *anywhere* count: the library's own keys carry the lock's name inside.
///
/// # Panics
/// When something is left, with a list of it.
pub async fn assert_clean(server: &Server, prefix: &str) {
    if let Some(left) = left_after_patience(server, prefix).await {
        panic!("left behind on the server after {PATIENCE:?}:\n{left}");
    }
}

async fn left_after_patience(server: &Server, prefix: &str) -> Option<String> {
    let since = Instant::now();
    loop {
        let left = left(server, prefix).await;
        if left.is_empty() || since.elapsed() > PATIENCE {
            return (!left.is_empty()).then(|| left.join("\n"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn left(server: &Server, prefix: &str) -> Vec<String> {
    let mut left = Vec::new();
    for key in server.keys(&format!("*{}*", literal(prefix))).await {
        let kind: String = server.ask(&["TYPE", &key]).await;
        let pttl = server.pttl(&key).await;
        left.push(format!("key {key} ({kind}, {pttl} ms left)"));
    }
    for channel in server.pubsub_channels().await {
        left.push(format!("subscription to {channel}"));
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

    #[tokio::test]
    async fn what_is_left_is_named() {
        let server = Server::redis().await;
        assert_clean(&server, "a*").await;
        server.cli(&["SET", "x:{a*}:y", "1", "PX", "60000"]).await;
        server.cli(&["SET", "x:{ab}:y", "1"]).await;
        let left = left(&server, "a*").await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert!(left[0].starts_with("key x:{a*}:y (string, "), "{left:?}");
    }

    #[tokio::test]
    async fn what_expires_in_time_is_not_left() {
        let server = Server::redis().await;
        server.cli(&["SET", "gone", "1", "PX", "50"]).await;
        assert_clean(&server, "gone").await;
    }

    #[tokio::test]
    #[should_panic(expected = "key stays (string, -1 ms left)")]
    async fn what_stays_is_reported() {
        let server = Server::redis().await;
        server.cli(&["SET", "stays", "1"]).await;
        assert_clean(&server, "stays").await;
    }
}
