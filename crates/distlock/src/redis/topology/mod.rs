//! Which server serves a name: the one there is, or the one that serves its slot.
//!
//! A topology is asked with a name and hands out no server: how a step gets to the right one, and what a server's "not here"
//! means, is known here alone. A set-up with one primary that moves would be a third kind: like a cluster of one slot.

mod board;
mod cluster;
mod keeper;
mod map;
mod redirect;
mod seeds;
mod slots;
mod survey;
mod view;

pub(crate) use cluster::Cluster;
pub(crate) use seeds::Seeds;

use redis::Value;

use super::call::Call;
use super::list;
use super::node::Node;
use crate::error::Result;
use crate::store::{Claim, Command, Listener, Snapshot, What};

/// Where the locks of one store are.
#[derive(Debug)]
pub(crate) enum Topology {
    /// One server.
    Single(Box<Node>),
    /// Many, each with some of the slots.
    Cluster(Cluster),
}

impl Topology {
    /// Runs a step on what stands under `name`.
    pub(crate) async fn run(&self, name: &str, call: Call) -> Result<Value> {
        match self {
            Topology::Single(node) => node.run(&call).await,
            // In a box: what it may take to find the server must not make every step on a single one bigger.
            Topology::Cluster(cluster) => Box::pin(cluster.run(name, call)).await,
        }
    }

    /// Whether acquisitions can be acknowledged by replicas, as far as one of the servers can tell.
    pub(crate) async fn probe_acks(&self) -> Result<()> {
        match self {
            Topology::Single(node) => node.probe_acks().await,
            Topology::Cluster(cluster) => cluster.probe_acks().await,
        }
    }

    /// Refuses names that cannot be used here, before anything is sent.
    pub(crate) fn check(&self, what: What, name: &str) -> Result<()> {
        match self {
            Topology::Single(_) => Ok(()),
            Topology::Cluster(_) => match what {
                What::LatchOpen => slots::of_latch(name).map(drop),
                _ => slots::of_name(name).map(drop),
            },
        }
    }

    /// Refuses commands that cannot be run together with looking at the lock.
    pub(crate) fn check_command(&self, name: &str, command: &Command) -> Result<()> {
        match self {
            Topology::Single(_) => Ok(()),
            Topology::Cluster(_) => slots::check_keys(name, command.keys()),
        }
    }

    /// A number that claims share if one script may be about all of them.
    pub(crate) fn slot(&self, name: &str) -> u16 {
        match self {
            Topology::Single(_) => 0,
            Topology::Cluster(_) => slots::slot(name.as_bytes()),
        }
    }

    /// A number that names share if one server serves them now.
    pub(crate) fn share(&self, name: &str) -> usize {
        match self {
            Topology::Single(_) => 0,
            Topology::Cluster(cluster) => cluster.share(name),
        }
    }

    /// Whether one script may be about all of these.
    pub(crate) fn together(&self, claims: &[Claim]) -> bool {
        match self {
            Topology::Single(_) => true,
            Topology::Cluster(_) => {
                claims.windows(2).all(|two| self.slot(&two[0].name) == self.slot(&two[1].name))
            }
        }
    }

    /// Hears what is said on a channel of the lock `name`.
    pub(crate) async fn listen(&self, name: &str, channel: &str) -> Result<Listener> {
        match self {
            Topology::Single(node) => node.hub.listen(channel).await,
            Topology::Cluster(cluster) => Box::pin(cluster.listen(name, channel)).await,
        }
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        match self {
            Topology::Single(node) => list::list(&node.links, prefix).await,
            Topology::Cluster(cluster) => cluster.list(prefix).await,
        }
    }

    /// In words for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Topology::Single(node) => node.links.place(),
            Topology::Cluster(cluster) => cluster.place(),
        }
    }
}
