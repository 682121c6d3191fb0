//! Every server that has to do with the locks of one store, for those who look at each of them.

use super::seeds::PubSub;
use super::{Fleet, Source, Topology};
use crate::redis::connect::Dial;
use crate::redis::pubsub::Way;

/// A server and what it is here.
#[derive(Clone, Debug)]
pub(crate) struct Somebody {
    pub(crate) dial: Dial,
    pub(crate) part: Part,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The one that the URL names.
    Single,
    /// One that serves locks, of several.
    Primary,
    /// One that may take over.
    Replica,
    /// One that the URL names, of which it is not known what it is.
    Stranger,
    /// One that watches over the primary of that name.
    Sentinel(String),
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Everybody {
    pub(crate) all: Vec<Somebody>,
    /// Whether slots say who serves what.
    pub(crate) cluster: bool,
    /// How releases are called out.
    pub(crate) way: Way,
    /// Whether that was found out, and not said.
    pub(crate) auto: bool,
    /// Why it is not known who serves what.
    pub(crate) trouble: Option<crate::Error>,
}

impl Topology {
    /// Everybody, as far as it is known, which is found out first.
    pub(crate) async fn everybody(&self) -> Everybody {
        match self {
            Topology::Single(node) => {
                let single = Somebody { dial: node.links.dial().clone(), part: Part::Single };
                let (cluster, auto, way) = (false, false, Way::Classic);
                Everybody { all: vec![single], cluster, way, auto, trouble: None }
            }
            Topology::Fleet(fleet) => fleet.everybody().await,
        }
    }
}

impl Fleet {
    async fn everybody(&self) -> Everybody {
        let (way, trouble) = match self.look_again().await {
            Ok(way) => (way, None),
            Err(error) => (Way::Classic, Some(error)),
        };
        let (source, dial, known) = (self.source(), self.dial(), self.known());
        let mut all: Vec<Somebody> = Vec::new();
        let mut add = |dial: Dial, part: Part| {
            if !all.iter().any(|known| known.dial.target == dial.target) {
                all.push(Somebody { dial, part });
            }
        };
        for node in &known.nodes {
            add(node.links.dial().clone(), Part::Primary);
        }
        for at in &known.replicas {
            add(dial.to(source.target(at)), Part::Replica);
        }
        match source {
            Source::Cluster(seeds) => {
                // One that the cluster does not know of by this address is asked all the same.
                let strangers = seeds.targets.iter().filter(|_| known.nodes.is_empty());
                strangers.for_each(|target| add(dial.to(target.clone()), Part::Stranger));
            }
            Source::Replicated(servers) => {
                let targets = servers.targets.iter();
                targets.for_each(|target| add(dial.to(target.clone()), Part::Stranger));
            }
            Source::Sentinel(watched) => {
                let name = &watched.url.name;
                let targets = watched.url.targets.iter();
                targets
                    .for_each(|target| add(dial.to(target.clone()), Part::Sentinel(name.clone())));
            }
        }
        let cluster = matches!(source, Source::Cluster(_));
        let auto = matches!(source, Source::Cluster(seeds) if seeds.pubsub == PubSub::Auto);
        Everybody { all, cluster, way, auto, trouble }
    }
}
