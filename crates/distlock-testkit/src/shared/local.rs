//! What the tests of one process share: theirs, or the host's.

use std::sync::{Arc, Mutex, Weak};

use super::{Lender, start};
use crate::{Cluster, Flavor, SentinelSet, Server};

/// The server of that flavour; `None`, and a line on the test's output, if it is not installed.
pub(crate) fn server(flavor: Flavor) -> Option<Arc<Server>> {
    static SHARED: Shared<Server> = Shared::new();
    SHARED.get(flavor, Lender::server, start::plain)
}

/// The server with TLS.
pub(crate) fn tls_server() -> Option<Arc<Server>> {
    static SHARED: Shared<Server> = Shared::new();
    SHARED.get(Flavor::Redis, |lender, _| lender.tls_server(), |_| start::tls())
}

/// The Sentinel set of that flavour.
pub(crate) fn sentinels(flavor: Flavor) -> Option<Arc<SentinelSet>> {
    static SHARED: Shared<SentinelSet> = Shared::new();
    SHARED.get(flavor, Lender::sentinels, start::sentinel_set)
}

/// The cluster of that flavour.
pub(crate) fn cluster(flavor: Flavor) -> Option<Arc<Cluster>> {
    static SHARED: Shared<Cluster> = Shared::new();
    SHARED.get(flavor, Lender::cluster, start::cluster_with_replicas)
}

/// Servers, or clusters of them: started or borrowed for the first test, stopped or given back after the last.
struct Shared<T>(Mutex<Vec<(Flavor, Weak<T>)>>);

impl<T: Send + Sync + 'static> Shared<T> {
    const fn new() -> Shared<T> {
        Shared(Mutex::new(Vec::new()))
    }

    /// The one of that flavour: the host's where there is a host, or else one that this process starts.
    fn get(
        &self,
        flavor: Flavor,
        borrow: fn(&Lender, Flavor) -> Option<T>,
        start: fn(Flavor) -> T,
    ) -> Option<Arc<T>> {
        if flavor.program().is_none() {
            eprintln!("SKIPPED: no server for {flavor:?}");
            return None;
        }
        let mut shared = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let known = shared.iter().position(|(of, _)| *of == flavor);
        if let Some(one) = known.and_then(|at| shared[at].1.upgrade()) {
            return Some(one);
        }
        let get = move || match Lender::from_env() {
            Some(lender) => borrow(&lender, flavor),
            None => Some(start(flavor)),
        };
        // On a thread of its own: the caller may be inside a runtime.
        let one = match std::thread::spawn(get).join() {
            Ok(one) => Arc::new(one?),
            Err(panic) => std::panic::resume_unwind(panic),
        };
        shared.retain(|(of, _)| *of != flavor);
        shared.push((flavor, Arc::downgrade(&one)));
        Some(one)
    }
}
