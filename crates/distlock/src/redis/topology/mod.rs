//! Which server serves a name: the one there is, or the one that serves its slot.
//!
//! A topology is asked with a name and hands out no server: how a step gets to the right one, and what a server's "not here"
//! means, is known here alone. A set-up with one primary that moves is like a cluster of one slot.

mod board;
mod everybody;
mod fleet;
mod keeper;
mod listing;
mod map;
mod redirect;
mod replicated;
mod role;
mod seeds;
mod sentinel;
mod sentinels;
mod several;
mod slots;
mod source;
mod survey;
mod turns;
mod view;

pub(crate) use everybody::{Everybody, Part, Somebody};
pub(crate) use fleet::Fleet;
pub(crate) use role::text;
pub(crate) use source::Source;

use redis::Value;

use super::call::Call;
use super::list;
use super::node::Node;
use crate::env::Env;
use crate::error::Result;
use crate::store::{Claim, ClaimKind, Command, Listener, Snapshot};

/// Where the locks of one store are.
#[derive(Debug)]
pub(crate) enum Topology {
    /// One server.
    Single(Box<Node>),
    /// Several that may change places.
    Fleet(Fleet),
}

impl Topology {
    /// Runs a step on what stands under `name`.
    pub(crate) async fn run(&self, name: &str, call: Call) -> Result<Value> {
        match self {
            Topology::Single(node) => node.run(&call).await,
            // In a box: what it may take to find the server must not make every step on a single one bigger.
            Topology::Fleet(fleet) => Box::pin(fleet.run(name, call)).await,
        }
    }

    /// Whether acquisitions can be acknowledged by replicas, as far as one of the servers can tell.
    pub(crate) async fn probe_acks(&self) -> Result<()> {
        match self {
            Topology::Single(node) => node.probe_acks().await,
            Topology::Fleet(fleet) => fleet.probe_acks().await,
        }
    }

    /// Refuses names that cannot be used here, before anything is sent.
    pub(crate) fn check(&self, what: ClaimKind, name: &str) -> Result<()> {
        match self {
            Topology::Single(_) => Ok(()),
            Topology::Fleet(fleet) => fleet.source().check(what, name),
        }
    }

    /// Refuses commands that cannot be run together with looking at the lock.
    pub(crate) fn check_command(&self, name: &str, command: &Command) -> Result<()> {
        match self {
            Topology::Single(_) => Ok(()),
            Topology::Fleet(fleet) => fleet.source().check_command(name, command),
        }
    }

    /// A number that claims share if one script may be about all of them.
    pub(crate) fn slot(&self, name: &str) -> u16 {
        match self {
            Topology::Single(_) => 0,
            Topology::Fleet(fleet) => fleet.source().slot(name),
        }
    }

    /// A number that names share if one server serves them now.
    pub(crate) fn failure_domain(&self, name: &str) -> usize {
        match self {
            Topology::Single(_) => 0,
            Topology::Fleet(fleet) => fleet.failure_domain(name),
        }
    }

    /// A number that changes when a primary is replaced.
    pub(crate) fn term(&self) -> u64 {
        match self {
            Topology::Single(_) => 0,
            Topology::Fleet(fleet) => fleet.term(),
        }
    }

    /// Whether one script may be about all of these.
    pub(crate) fn together(&self, claims: &[Claim]) -> bool {
        match self {
            Topology::Single(_) => true,
            Topology::Fleet(_) => {
                claims.windows(2).all(|two| self.slot(&two[0].name) == self.slot(&two[1].name))
            }
        }
    }

    /// Hears what is said on a channel of the lock `name`.
    pub(crate) async fn listen(&self, name: &str, channel: &str) -> Result<Listener> {
        match self {
            Topology::Single(node) => node.hub.listen(channel).await,
            Topology::Fleet(fleet) => Box::pin(fleet.listen(name, channel)).await,
        }
    }

    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        match self {
            Topology::Single(node) => list::list(&node.links, prefix).await,
            Topology::Fleet(fleet) => fleet.list(prefix).await,
        }
    }

    /// In words for people.
    pub(crate) fn place(&self) -> String {
        match self {
            Topology::Single(node) => node.links.place(),
            Topology::Fleet(fleet) => fleet.place(),
        }
    }
}

/// Puts them into no order.
fn shuffle<T>(env: &dyn Env, all: &mut [T]) {
    for at in (1..all.len()).rev() {
        all.swap(at, (env.random() % (at as u64 + 1)) as usize);
    }
}
