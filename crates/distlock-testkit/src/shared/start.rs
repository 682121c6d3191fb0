//! What shared servers are like, started here or by the host.

use std::time::Duration;

use crate::peer::{Builder, Version};
use crate::server::ClusterBuilder;
use crate::{Cluster, Flavor, Peer, SentinelSet, Server, Tls};

pub(super) fn plain(flavor: Flavor) -> Server {
    Server::builder(flavor).start_blocking()
}

pub(super) fn tls() -> Server {
    Server::builder(Flavor::Redis).tls(Tls::Mutual).start_blocking()
}

pub(super) fn sentinel_set(flavor: Flavor) -> SentinelSet {
    // A machine that does other things is no reason to fail over.
    SentinelSet::builder(flavor).down_after(Duration::from_secs(60)).start_blocking()
}

pub(super) fn cluster_with_replicas(flavor: Flavor) -> Cluster {
    Cluster::builder(flavor).replicas(1).patient().start_blocking()
}

/// The cluster on which Redisson and distlock meet. It has no replicas: tests look for keys on every server, and a replica is
/// behind its primary.
pub(crate) fn pair_cluster(flavor: Flavor) -> ClusterBuilder {
    Cluster::builder(flavor).patient()
}

/// A JVM on the cluster, if there is one, or else on the server.
pub(crate) fn peer_builder(
    version: Version,
    cluster: Option<&Cluster>,
    server: &Server,
    watchdog: Duration,
) -> Builder {
    let builder = Peer::builder(version).place(server.addr()).watchdog(watchdog);
    match cluster {
        Some(cluster) => {
            let nodes = cluster.nodes().iter();
            nodes.fold(builder.cluster(), |builder, node| builder.address(node.addr()))
        }
        None => builder.address(server.addr()),
    }
}
