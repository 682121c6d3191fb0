//! One server: its connections for commands and the one for subscriptions.

use std::fmt;
use std::sync::Arc;

use redis::Value;

use super::call::Call;
use super::connect::Dial;
use super::durable::Durable;
use super::link::Links;
use super::pubsub::Hub;
use super::pubsub::{Doubt, Membership, Way, Wish};
use crate::error::Result;
use crate::store::Topic;

/// Dropping it closes its connections.
pub(crate) struct Node {
    pub(crate) links: Links,
    pub(crate) hub: Hub,
    /// Where acquisitions go that replicas must acknowledge.
    durable: Option<Durable>,
    /// Where sharded channels are heard if plain ones are as well: a connection of their own, because each kind is looked
    /// after in its own way.
    shards: Option<Hub>,
}

impl Node {
    /// A server by itself.
    pub(crate) fn single(dial: Dial) -> Node {
        let dial = Arc::new(dial);
        Node {
            links: Links::new(dial.clone()),
            durable: Durable::new(&dial),
            hub: Hub::new(dial),
            shards: None,
        }
    }

    /// A server of a cluster.
    pub(crate) fn member(dial: Dial, way: Way, doubt: &Arc<Doubt>) -> Node {
        let dial = Arc::new(dial);
        let hub = |sharded| Hub::member(dial.clone(), Membership { sharded, doubt: doubt.clone() });
        Node {
            links: Links::new(dial.clone()),
            durable: Durable::new(&dial),
            hub: hub(way == Way::Sharded),
            shards: (way == Way::Both).then(|| hub(true)),
        }
    }

    /// Nobody is to use it any more: its connections for commands end now.
    pub(crate) fn close(&self) {
        self.links.close();
        self.durable.iter().for_each(Durable::close);
    }

    /// Runs a step.
    pub(crate) async fn run(&self, call: &Call) -> Result<Value> {
        match self.acknowledging(call) {
            None => call.run(&self.links).await,
            // In a box: it must not make every other step bigger.
            Some(durable) => call.checked(Box::pin(durable.ask(call, false)).await?),
        }
    }

    /// Asks a server of a cluster, which may refuse; see [`Call::ask`].
    pub(crate) async fn ask(&self, call: &Call, asking: bool) -> Result<Value> {
        match self.acknowledging(call) {
            None => call.ask(&self.links, asking).await,
            Some(durable) => Box::pin(durable.ask(call, asking)).await,
        }
    }

    fn acknowledging(&self, call: &Call) -> Option<&Durable> {
        self.durable.as_ref().filter(|_| call.is_acknowledged())
    }

    /// Whether acquisitions can be acknowledged here. Nothing is wrong if too few replicas are there now: they come and go.
    pub(crate) async fn probe_acks(&self) -> Result<()> {
        match &self.durable {
            Some(durable) => durable.probe().await,
            None => Ok(()),
        }
    }

    /// Has what is said on `channel` called out on `topic`.
    pub(crate) fn want(&self, channel: &str, topic: &Arc<Topic>) -> Vec<Wish> {
        let hubs = [Some(&self.hub), self.shards.as_ref()];
        hubs.into_iter().flatten().map(|hub| hub.want(channel, topic)).collect()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("links", &self.links).finish_non_exhaustive()
    }
}
