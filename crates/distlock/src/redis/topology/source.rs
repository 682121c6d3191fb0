//! Whom to ask who serves what, and what differs with it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::Value;

use super::map::Address;
use super::redirect::Redirect;
use super::replicated::Replicated;
use super::seeds::{PubSub, Seeds};
use super::sentinel::Watched;
use super::sentinels::Sentinels;
use super::several;
use super::slots;
use super::survey::{Answer, survey};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::Dial;
use crate::redis::node::Node;
use crate::redis::pubsub::Way;
use crate::redis::target::Target;
use crate::store::{ClaimKind, Command};

/// Between two looks at a cluster while nothing is in doubt and somebody listens.
const ROUND: Duration = Duration::from_secs(2);

/// Between two looks at a primary that moves, always: one that was away, and has been replaced meanwhile, goes on answering
/// renewals as if nothing had happened. Redisson's `scanInterval`.
const SCAN: Duration = Duration::from_secs(1);

/// Where the map comes from.
#[derive(Debug)]
pub(crate) enum Source {
    /// The servers of a cluster: each knows who serves which slot.
    Cluster(Seeds),
    /// Sentinels, who choose the one primary.
    Sentinel(Watched),
    /// The servers themselves, one of which says it is the primary.
    Replicated(Replicated),
}

/// What is known so far.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) epoch: u64,
    /// The primaries.
    pub(crate) nodes: Vec<Arc<Node>>,
    pub(crate) replicas: Vec<Address>,
}

impl Source {
    /// `None` if the URL is that of a single server, or of what this program was built without.
    pub(crate) fn parse(url: &str) -> Option<Result<Source>> {
        if cfg!(feature = "cluster")
            && let Some(seeds) = Seeds::parse(url)
        {
            return Some(seeds.map(Source::Cluster));
        }
        if !cfg!(feature = "sentinel") {
            return None;
        }
        if let Some(sentinels) = Sentinels::parse(url) {
            return Some(sentinels.map(|url| Source::Sentinel(Watched::new(url))));
        }
        Replicated::parse(url).map(|servers| servers.map(Source::Replicated))
    }

    /// Asks.
    pub(crate) async fn survey(&self, dial: &Dial, known: Known) -> Result<Answer> {
        match self {
            Source::Cluster(seeds) => {
                survey(&*dial.env, servers(seeds, dial, &known), known.epoch).await
            }
            Source::Sentinel(watched) => watched.survey(dial, &known).await,
            Source::Replicated(servers) => servers.survey(dial, &known).await,
        }
    }

    /// How releases are called out at the servers that were found.
    pub(crate) fn way(&self, answer: &Answer) -> Result<Way> {
        let Source::Cluster(seeds) = self else { return Ok(Way::Classic) };
        match seeds.pubsub {
            PubSub::Auto if answer.sharded => Ok(Way::Sharded),
            PubSub::Auto => Ok(Way::Classic),
            PubSub::Fixed(Way::Sharded) if !answer.sharded => {
                let text = "these servers have no sharded channels (Redis 7 has): use pubsub=auto";
                Err(Error::new(ErrorKind::Unsupported, text))
            }
            PubSub::Fixed(way) => Ok(way),
        }
    }

    /// A target that is as good as any: what counts is how it is reached.
    pub(crate) fn any(&self) -> Target {
        match self {
            Source::Cluster(seeds) => seeds.targets[0].clone(),
            Source::Sentinel(watched) => watched.url.server.clone(),
            Source::Replicated(servers) => servers.targets[0].clone(),
        }
    }

    /// The target for a server.
    pub(crate) fn target(&self, at: &Address) -> Target {
        self.any().at(&at.host, at.port)
    }

    /// In words for people: the same for everybody who looks at these servers, if `first` is.
    pub(crate) fn place(&self, first: &Address) -> String {
        let first = self.target(first);
        match self {
            Source::Cluster(_) => format!("the cluster with {first}"),
            Source::Sentinel(watched) => {
                format!("the primary {:?} of the servers with {first}", watched.url.name)
            }
            Source::Replicated(_) => format!("the primary of the servers with {first}"),
        }
    }

    /// The slot of a name.
    pub(crate) fn slot(&self, name: &str) -> u16 {
        match self {
            Source::Cluster(_) => slots::slot(name.as_bytes()),
            Source::Sentinel(_) | Source::Replicated(_) => 0,
        }
    }

    /// Refuses names that cannot be used here.
    pub(crate) fn check(&self, what: ClaimKind, name: &str) -> Result<()> {
        match (self, what) {
            (Source::Sentinel(_) | Source::Replicated(_), _) => Ok(()),
            (Source::Cluster(_), ClaimKind::LatchOpen) => slots::of_latch(name).map(drop),
            (Source::Cluster(_), _) => slots::of_name(name).map(drop),
        }
    }

    /// Refuses commands that cannot be run together with looking at the lock.
    pub(crate) fn check_command(&self, name: &str, command: &Command) -> Result<()> {
        match self {
            Source::Cluster(_) => slots::check_keys(name, command.keys()),
            Source::Sentinel(_) | Source::Replicated(_) => Ok(()),
        }
    }

    /// Where a reply of this server sends a step instead.
    pub(crate) fn redirect(&self, reply: &Value, node: &Node) -> Option<Redirect> {
        match self {
            Source::Cluster(_) => Redirect::of(reply, several::host(node.links.target())),
            Source::Sentinel(_) | Source::Replicated(_) => None,
        }
    }

    /// Whether one server serves everything, so that one which has been replaced is of no use any more.
    pub(crate) fn has_one(&self) -> bool {
        !matches!(self, Source::Cluster(_))
    }

    /// How often to look although nothing is in doubt.
    pub(crate) fn round(&self, anybody_listens: bool) -> Option<Duration> {
        match self {
            Source::Cluster(_) => anybody_listens.then_some(ROUND),
            Source::Sentinel(_) | Source::Replicated(_) => Some(SCAN),
        }
    }

    /// The error for a slot that nobody serves.
    pub(crate) fn nobody(&self, slot: u16) -> Error {
        let text = match self {
            Source::Cluster(_) => format!("no server of the cluster serves slot {slot} now"),
            Source::Sentinel(_) | Source::Replicated(_) => {
                "no server is known to be the primary now".to_owned()
            }
        };
        Error::new(ErrorKind::Unavailable, text)
    }
}

/// Whom to ask in a cluster: those known to be primaries, in no order, then everybody else.
fn servers(seeds: &Seeds, dial: &Dial, known: &Known) -> Vec<Arc<Node>> {
    let mut servers = known.nodes.clone();
    super::shuffle(&*dial.env, &mut servers);
    let replicas = known.replicas.iter().map(|at| seeds.target(at));
    for target in replicas.chain(seeds.targets.clone()) {
        if !servers.iter().any(|known| *known.links.target() == target) {
            servers.push(Arc::new(Node::single(dial.to(target))));
        }
    }
    servers
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Cluster(seeds) => seeds.fmt(f),
            Source::Sentinel(watched) => watched.url.fmt(f),
            Source::Replicated(servers) => servers.fmt(f),
        }
    }
}
