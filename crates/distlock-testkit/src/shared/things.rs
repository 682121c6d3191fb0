//! What the host has started so far.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::start;
use super::wanted::{Wanted, WantedPeer};
use crate::peer::Site;
use crate::{Cluster, Peer, SentinelSet, Server};

/// How many users of a thing are named when it is found dead.
const REMEMBERED: usize = 12;

/// Every thing that has been asked for.
#[derive(Debug, Default)]
pub(super) struct Things(Mutex<HashMap<Wanted, Arc<Slot>>>);

/// One thing, once it is started, and the last who asked for it.
#[derive(Debug, Default)]
pub(super) struct Slot {
    thing: OnceCell<Thing>,
    askers: Mutex<VecDeque<String>>,
}

#[derive(Debug)]
enum Thing {
    Server(Server),
    Sentinels(SentinelSet),
    Cluster(Cluster),
    Peer { peer: Arc<Peer>, server: Arc<Slot>, cluster: Option<Arc<Slot>> },
}

/// Why there is no such thing.
#[derive(Debug)]
pub(super) enum Refusal {
    /// Its program is not installed.
    Missing(String),
    /// It did not start, or has died.
    Failed(String),
}

type Started<'a> = Pin<Box<dyn Future<Output = Result<Arc<Slot>, Refusal>> + Send + 'a>>;

impl Things {
    /// The thing, started if this is the first to ask for it. Those who ask meanwhile wait for the one start.
    ///
    /// A thing that has died is an error for the one who finds it dead, which names those who used it; the next who asks
    /// receives a new one, so that one bad test does not fail all that follow.
    pub(super) fn get<'a>(&'a self, wanted: Wanted, by: &'a str) -> Started<'a> {
        // In a box: a JVM asks for its server in turn.
        Box::pin(async move {
            let slot = Arc::clone(locked(&self.0).entry(wanted).or_default());
            let thing = slot.thing.get_or_try_init(|| self.start(wanted, by)).await?;
            if let Some(trouble) = thing.trouble() {
                let askers = locked(&slot.askers).iter().cloned().collect::<Vec<_>>().join(", ");
                let mut all = locked(&self.0);
                if all.get(&wanted).is_some_and(|current| Arc::ptr_eq(current, &slot)) {
                    all.remove(&wanted);
                }
                let found = format!(
                    "{wanted} was broken by one of its users: {trouble}; the last who used it: {askers}"
                );
                return Err(Refusal::Failed(found));
            }
            let mut askers = locked(&slot.askers);
            askers.truncate(REMEMBERED - 1);
            askers.push_front(by.to_owned());
            drop(askers);
            Ok(slot)
        })
    }

    async fn start(&self, wanted: Wanted, by: &str) -> Result<Thing, Refusal> {
        if wanted.flavor().program().is_none() {
            return Err(Refusal::Missing(format!("no server for {:?}", wanted.flavor())));
        }
        match wanted {
            Wanted::Server(flavor) => {
                blocking(wanted, move || Thing::Server(start::plain(flavor))).await
            }
            Wanted::PairServer => {
                blocking(wanted, move || Thing::Server(start::plain(wanted.flavor()))).await
            }
            Wanted::Tls => blocking(wanted, || Thing::Server(start::tls())).await,
            Wanted::Sentinels(flavor) => {
                blocking(wanted, move || Thing::Sentinels(start::sentinel_set(flavor))).await
            }
            Wanted::Cluster(flavor) => {
                let start = move || Thing::Cluster(start::cluster_with_replicas(flavor));
                blocking(wanted, start).await
            }
            Wanted::PairCluster(flavor) => {
                let builder = start::pair_cluster(flavor);
                blocking(wanted, move || Thing::Cluster(builder.start_blocking())).await
            }
            Wanted::Peer(peer) => self.start_peer(peer, by).await,
        }
    }

    async fn start_peer(&self, wanted: WantedPeer, by: &str) -> Result<Thing, Refusal> {
        // Asked first: where there is no Redisson, no server is started for it.
        let find = move || wanted.version.find();
        let found =
            tokio::task::spawn_blocking(find).await.expect("looking for files does no harm");
        found.map_err(Refusal::Missing)?;
        let cluster = match wanted.site {
            Site::One => None,
            Site::Cluster(flavor) => Some(self.get(Wanted::PairCluster(flavor), by).await?),
        };
        let server = self.get(Wanted::PairServer, by).await?;
        let nodes = cluster.as_ref().and_then(|slot| slot.cluster());
        let place = server.server().expect("BUG: the server of the JVMs is a server");
        let builder = start::peer_builder(wanted.version, nodes, place, wanted.watchdog);
        // In a task of its own: a JVM that does not come up panics.
        let peer = tokio::spawn(builder.start()).await;
        let peer = peer.map_err(|error| failed(Wanted::Peer(wanted), error))?;
        let peer = peer.ok_or_else(|| Refusal::Missing("no Redisson".to_owned()))?;
        Ok(Thing::Peer { peer: Arc::new(peer), server, cluster })
    }
}

impl Slot {
    /// What a test process must know of it.
    pub(super) fn description(&self) -> Option<Value> {
        Some(match self.thing.get()? {
            Thing::Server(server) => server.description(),
            Thing::Sentinels(set) => set.description(),
            Thing::Cluster(cluster) => cluster.description(),
            Thing::Peer { peer, server, cluster } => json!({
                "uuid": peer.uuid(),
                "server": server.description()?,
                "cluster": cluster.as_ref().and_then(|cluster| cluster.description()),
            }),
        })
    }

    /// The JVM, if it is one.
    pub(super) fn peer(&self) -> Option<Arc<Peer>> {
        match self.thing.get()? {
            Thing::Peer { peer, .. } => Some(Arc::clone(peer)),
            _ => None,
        }
    }

    fn server(&self) -> Option<&Server> {
        match self.thing.get()? {
            Thing::Server(server) => Some(server),
            _ => None,
        }
    }

    fn cluster(&self) -> Option<&Cluster> {
        match self.thing.get()? {
            Thing::Cluster(cluster) => Some(cluster),
            _ => None,
        }
    }

    fn trouble(&self) -> Option<String> {
        self.thing.get()?.trouble()
    }
}

impl Thing {
    /// What is wrong with it.
    fn trouble(&self) -> Option<String> {
        match self {
            Thing::Server(server) => server_trouble(server),
            Thing::Sentinels(set) => {
                let mut all = set.servers().iter().chain(set.sentinels());
                all.find_map(|server| server_trouble(server))
            }
            Thing::Cluster(cluster) => {
                cluster.nodes().iter().find_map(|server| server_trouble(server))
            }
            Thing::Peer { peer, server, cluster } => {
                let gone = (!peer.runs()).then(|| "the JVM has ended".to_owned());
                let theirs = || cluster.as_ref().and_then(|cluster| cluster.trouble());
                gone.or_else(|| server.trouble()).or_else(theirs)
            }
        }
    }
}

fn server_trouble(server: &Server) -> Option<String> {
    let what = match (server.runs(), server.is_stopped()) {
        (false, _) => "has ended",
        (true, true) => "is stopped",
        (true, false) => return None,
    };
    let log = server.log();
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let (port, pid) = (server.port(), server.pid());
    Some(format!("the server on port {port} (process {pid}) {what}, and logged last {last:?}"))
}

/// Starts a thing on a thread where it may block, and panic.
async fn blocking(
    wanted: Wanted,
    start: impl FnOnce() -> Thing + Send + 'static,
) -> Result<Thing, Refusal> {
    tokio::task::spawn_blocking(start).await.map_err(|error| failed(wanted, error))
}

fn failed(wanted: Wanted, error: tokio::task::JoinError) -> Refusal {
    let why = match error.try_into_panic() {
        Ok(panic) => match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
            (Some(why), _) => why.clone(),
            (None, Some(why)) => (*why).to_owned(),
            (None, None) => "it panicked".to_owned(),
        },
        Err(error) => error.to_string(),
    };
    Refusal::Failed(format!("{wanted} did not start: {why}"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
