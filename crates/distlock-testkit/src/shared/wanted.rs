//! What a test process can ask the host for.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Flavor;
use crate::peer::{Site, Version};

/// A thing that the host starts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// One server.
    Server(Flavor),
    /// One Redis with TLS and certificates on both sides.
    Tls,
    /// A primary, a replica and three sentinels.
    Sentinels(Flavor),
    /// A cluster with replicas.
    Cluster(Flavor),
    /// The server that JVMs use. Not that of other tests: Redisson keeps dozens of connections open.
    PairServer,
    /// The cluster that JVMs use, without replicas.
    PairCluster(Flavor),
    /// A JVM.
    Peer(WantedPeer),
}

/// A JVM with Redisson that the host starts once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WantedPeer {
    pub(super) version: Version,
    pub(super) site: Site,
    pub(super) watchdog: Duration,
    /// 0, or the number of one more JVM like it.
    pub(super) copy: u64,
}

impl Wanted {
    pub(super) fn to_json(self) -> Value {
        match self {
            Wanted::Server(flavor) => json!({ "want": "server", "flavor": flavor.word() }),
            Wanted::Tls => json!({ "want": "tls" }),
            Wanted::Sentinels(flavor) => json!({ "want": "sentinels", "flavor": flavor.word() }),
            Wanted::Cluster(flavor) => json!({ "want": "cluster", "flavor": flavor.word() }),
            Wanted::PairServer => json!({ "want": "pair server" }),
            Wanted::PairCluster(flavor) => {
                json!({ "want": "pair cluster", "flavor": flavor.word() })
            }
            Wanted::Peer(peer) => json!({
                "want": "peer",
                "version": peer.version.number(),
                "cluster": match peer.site {
                    Site::One => None,
                    Site::Cluster(flavor) => Some(flavor.word()),
                },
                "watchdog_ms": u64::try_from(peer.watchdog.as_millis()).expect("a short time"),
                "copy": peer.copy,
            }),
        }
    }

    pub(super) fn from_json(asked: &Value) -> Option<Wanted> {
        let flavor = || asked["flavor"].as_str().and_then(Flavor::of_word);
        Some(match asked["want"].as_str()? {
            "server" => Wanted::Server(flavor()?),
            "tls" => Wanted::Tls,
            "sentinels" => Wanted::Sentinels(flavor()?),
            "cluster" => Wanted::Cluster(flavor()?),
            "pair server" => Wanted::PairServer,
            "pair cluster" => Wanted::PairCluster(flavor()?),
            "peer" => Wanted::Peer(WantedPeer {
                version: Version::of_number(asked["version"].as_str()?)?,
                site: match &asked["cluster"] {
                    Value::Null => Site::One,
                    flavor => Site::Cluster(Flavor::of_word(flavor.as_str()?)?),
                },
                watchdog: Duration::from_millis(asked["watchdog_ms"].as_u64()?),
                copy: asked["copy"].as_u64().unwrap_or(0),
            }),
            _ => return None,
        })
    }

    /// The program that it takes, apart from Java.
    pub(super) fn flavor(self) -> Flavor {
        match self {
            Wanted::Server(flavor)
            | Wanted::Sentinels(flavor)
            | Wanted::Cluster(flavor)
            | Wanted::PairCluster(flavor) => flavor,
            Wanted::Tls | Wanted::PairServer => Flavor::Redis,
            Wanted::Peer(peer) => match peer.site {
                Site::One => Flavor::Redis,
                Site::Cluster(flavor) => flavor,
            },
        }
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Server(flavor) => write!(f, "the shared {flavor:?} server"),
            Wanted::Tls => write!(f, "the shared server with TLS"),
            Wanted::Sentinels(flavor) => write!(f, "the shared {flavor:?} Sentinel set"),
            Wanted::Cluster(flavor) => write!(f, "the shared {flavor:?} cluster"),
            Wanted::PairServer => write!(f, "the shared server of the JVMs"),
            Wanted::PairCluster(flavor) => write!(f, "the shared {flavor:?} cluster of the JVMs"),
            Wanted::Peer(peer) => {
                let (version, watchdog) = (peer.version.number(), peer.watchdog);
                write!(f, "the shared JVM with Redisson {version} ")?;
                write!(f, "({:?}, watchdog {watchdog:?}, copy {})", peer.site, peer.copy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wish_survives_its_way_through_json() {
        let flavored = Flavor::ALL.into_iter().flat_map(|flavor| {
            [
                Wanted::Server(flavor),
                Wanted::Sentinels(flavor),
                Wanted::Cluster(flavor),
                Wanted::PairCluster(flavor),
            ]
        });
        let sites = [Site::One, Site::Cluster(Flavor::Redis62)];
        let peers = sites.into_iter().map(|site| {
            let watchdog = Duration::from_secs(9);
            Wanted::Peer(WantedPeer { version: Version::Older3, site, watchdog, copy: 1 })
        });
        for wanted in flavored.chain(peers).chain([Wanted::Tls, Wanted::PairServer]) {
            assert_eq!(Wanted::from_json(&wanted.to_json()), Some(wanted));
        }
        assert_eq!(Wanted::from_json(&json!({ "want": "tea" })), None);
    }
}
