//! What the test sets and the connections obey.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;

use super::Seen;
use super::rules::{Request, Rules, Strike};

/// What the test and the connections share.
#[derive(Debug)]
pub(super) struct Shared {
    settings: Mutex<Settings>,
    requests_blocked: watch::Sender<bool>,
    replies_blocked: watch::Sender<bool>,
}

#[derive(Debug)]
pub(super) struct Settings {
    pub(super) upstream: SocketAddr,
    pub(super) latency: Duration,
    /// How many bytes may still go to the clients before a connection is cut.
    pub(super) budget: Option<usize>,
    pub(super) rules: Rules,
    pub(super) seen: Seen,
    /// Set to true, it resets the connection; without receivers, the connection has ended.
    pub(super) links: BTreeMap<u64, watch::Sender<bool>>,
}

impl Shared {
    pub(super) fn new(upstream: SocketAddr) -> Self {
        let settings = Settings {
            upstream,
            latency: Duration::ZERO,
            budget: None,
            rules: Rules::default(),
            seen: Seen::new(),
            links: BTreeMap::new(),
        };
        Shared {
            settings: Mutex::new(settings),
            requests_blocked: watch::Sender::new(false),
            replies_blocked: watch::Sender::new(false),
        }
    }

    pub(super) fn block_requests(&self, on: bool) {
        self.requests_blocked.send_replace(on);
    }

    pub(super) fn block_replies(&self, on: bool) {
        self.replies_blocked.send_replace(on);
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().expect("nothing panics with the settings locked")
    }

    pub(super) fn upstream(&self) -> SocketAddr {
        self.settings().upstream
    }

    pub(super) fn latency(&self) -> Duration {
        self.settings().latency
    }

    /// See [`Rules::decide`].
    pub(super) fn decide(&self, request: &Request, broken: bool) -> Option<Strike> {
        self.settings().rules.decide(request, broken)
    }

    pub(super) fn count(&self, link: u64, command: &str) {
        let mut settings = self.settings();
        let commands = settings.seen.entry(link).or_default();
        *commands.entry(command.to_owned()).or_default() += 1;
    }

    /// How many of these bytes may go to a client.
    pub(super) fn spend(&self, bytes: usize) -> usize {
        let mut settings = self.settings();
        match settings.budget {
            None => bytes,
            Some(left) if left >= bytes => {
                settings.budget = Some(left - bytes);
                bytes
            }
            // It strikes once.
            Some(left) => {
                settings.budget = None;
                left
            }
        }
    }

    pub(super) async fn requests_flow(&self) {
        flow(&self.requests_blocked).await;
    }

    pub(super) async fn replies_flow(&self) {
        flow(&self.replies_blocked).await;
    }
}

async fn flow(blocked: &watch::Sender<bool>) {
    // Fails only when the sender is gone, and it is borrowed here.
    let _ = blocked.subscribe().wait_for(|blocked| !*blocked).await;
}
