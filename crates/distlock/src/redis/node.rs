//! One server: its connections for commands and the one for subscriptions.

use std::fmt;
use std::sync::Arc;

use super::connect::Dial;
use super::link::Links;
use super::pubsub::Hub;
use super::pubsub::{Doubt, Membership, Way, Wish};
use crate::store::Topic;

/// Dropping it closes its connections.
pub(crate) struct Node {
    pub(crate) links: Links,
    pub(crate) hub: Hub,
    /// Where sharded channels are heard if plain ones are as well: a connection of their own, because each kind is looked
    /// after in its own way.
    shards: Option<Hub>,
}

impl Node {
    /// A server by itself.
    pub(crate) fn single(dial: Dial) -> Node {
        let dial = Arc::new(dial);
        Node { links: Links::new(dial.clone()), hub: Hub::new(dial), shards: None }
    }

    /// A server of a cluster.
    pub(crate) fn member(dial: Dial, way: Way, doubt: &Arc<Doubt>) -> Node {
        let dial = Arc::new(dial);
        let hub = |sharded| Hub::member(dial.clone(), Membership { sharded, doubt: doubt.clone() });
        Node {
            links: Links::new(dial.clone()),
            hub: hub(way == Way::Sharded),
            shards: (way == Way::Both).then(|| hub(true)),
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
