//! Names, durations, URLs and foreign data that a careless or hostile caller may bring.

mod data;
mod names;

use std::error::Error as _;
use std::time::Duration;

use distlock::{Error, ErrorKind, Locks};
use distlock_testkit::suites::{Ground, Site};
use distlock_testkit::{Flavor, Server};
use tokio::time::timeout;

const HOUR: Duration = Duration::from_secs(3600);

/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);

/// Names that are odd, but names.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        " ",
        "a\r\nb",
        "\r\nFLUSHALL\r\n",
        "*1\r\n$8\r\nFLUSHALL\r\n",
        "$-1\r\n",
        "nul\0nul",
        "\0",
        "ключ",
        "🔒",
        "e\u{301}",
        "é",
        "\u{202e}drawkcab",
        "'); redis.call('flushall')--",
        "\"]] redis.call('flushall') --[[",
        "%s%n%d",
        "*",
        "?",
        "[a-z]",
        "\\",
        "{}",
        "x{y",
        "{a",
        "a}b",
        "{a}{b}",
        "a{b}c",
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a%2fb",
        "CON",
        "-rf",
        "A",
        "a",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(4096));
    names.push("я".repeat(2048));
    names
}

/// Two processes on each store. The second does not look again by itself when it waits: if it gets in, it was woken.
async fn grounds() -> Vec<(String, Locks, Locks, Option<Server>, Option<Ground>)> {
    let mut all = Vec::new();
    for site in [Site::Memory, Site::File] {
        let ground = Ground::at(site).unwrap();
        let (here, elsewhere) = (ground.open().await, ground.open_with_watchdog(HOUR).await);
        all.push((format!("{site:?}"), here, elsewhere, None, Some(ground)));
    }
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let here = Locks::connect(&server.url()).await.unwrap();
        let elsewhere = Locks::builder().url(server.url()).watchdog(HOUR).connect().await.unwrap();
        all.push((format!("{flavor:?}"), here, elsewhere, Some(server), None));
    }
    all
}

fn is_invalid_name(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::InvalidName, "{error}");
    assert!(!error.is_retryable());
    assert!(error.to_string().len() < 500, "the error repeats a long name");
}

/// Everything about a key, as a client could see it.
async fn dump(server: &Server, key: &str) -> Vec<u8> {
    server.ask::<Option<Vec<u8>>>(&["DUMP", key]).await.unwrap_or_default()
}

const CANARY: &str = "canary4f1c9";

/// Everything an error says, its causes included, in both notations.
fn everything_said(error: &Error) -> String {
    let mut said = format!("{error} {error:?} {error:#?}");
    let mut cause = error.source();
    while let Some(error) = cause {
        said += &format!(" {error} {error:?} {error:#?}");
        cause = error.source();
    }
    said
}

fn keeps_the_secret(text: &str) {
    assert!(!text.contains(CANARY) && !text.contains("anary4f1"), "{text}");
}
