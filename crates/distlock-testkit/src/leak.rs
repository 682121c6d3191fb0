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
    let since = Instant::now();
    loop {
        let left = left(server, prefix).await;
        if left.is_empty() {
            return;
        }
        if since.elapsed() > PATIENCE {
            panic!("left behind on the server after {PATIENCE:?}:\n{}", left.join("\n"));
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
