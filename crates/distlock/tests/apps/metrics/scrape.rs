//! Asking as Prometheus does, and reading what it would.

use std::collections::HashMap;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(20);

/// One answer.
pub(crate) struct Scrape {
    text: String,
    samples: HashMap<String, f64>,
}

impl Scrape {
    /// Asks over HTTP.
    pub(crate) async fn now(port: u16) -> Scrape {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let question = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(question.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let sample = |line: &str| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        };
        let samples = lines.filter_map(sample).collect();
        Scrape { text: text.to_owned(), samples }
    }

    /// Asks again and again until it is so.
    pub(crate) async fn until(port: u16, what: &str, so: impl Fn(&Scrape) -> bool) {
        let asking = async {
            while !so(&Scrape::now(port).await) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.unwrap_or_else(|_| panic!("not: {what}"));
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The figure of this kind; 0 if there is none.
    pub(crate) fn get(&self, name: &str, kind: &str) -> f64 {
        self.sample(&format!("{name}{{kind=\"{kind}\"}}"))
    }

    /// The figure of this kind with this outcome.
    pub(crate) fn of(&self, name: &str, kind: &str, outcome: &str) -> f64 {
        self.sample(&format!("{name}{{kind=\"{kind}\",outcome=\"{outcome}\"}}"))
    }

    /// The figures of this kind with any outcome.
    pub(crate) fn sum(&self, name: &str, kind: &str) -> f64 {
        let begin = format!("{name}{{kind=\"{kind}\"");
        self.samples.iter().filter(|(series, _)| series.starts_with(&begin)).map(|(_, v)| v).sum()
    }

    /// Names of locks would make as many series as there are locks.
    pub(crate) fn says_no_name(&self, name: &str) {
        assert!(!self.text.contains(name), "{}", self.text);
    }

    fn sample(&self, series: &str) -> f64 {
        self.samples.get(series).copied().unwrap_or_default()
    }
}
