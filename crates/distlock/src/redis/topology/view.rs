//! What is known now: who serves what, and a [`Node`] for each of them.

use std::sync::Arc;

use super::map::{Address, Map};
use super::source::Known;
use crate::redis::node::Node;

/// Makes the node at an address.
pub(crate) type Make<'a> = &'a dyn Fn(&Address) -> Node;

#[derive(Debug)]
pub(crate) struct View {
    map: Map,
    /// The age of what the map says: those who know count its changes.
    epoch: u64,
    /// One for each of the map's primaries.
    nodes: Vec<Arc<Node>>,
    /// Servers that get their first slots just now: they are asked before the map has them.
    guests: Vec<Guest>,
    /// The number of the survey that the map is from.
    survey: u64,
}

/// What a new map has changed.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Whether anything is different.
    pub(crate) any: bool,
    /// Primaries that are none any more.
    pub(crate) gone: Vec<Arc<Node>>,
    /// Guests that are not needed any more, and never were primaries.
    pub(crate) left: Vec<Arc<Node>>,
}

#[derive(Debug)]
struct Guest {
    address: Address,
    node: Arc<Node>,
    /// Since the last map.
    new: bool,
}

impl View {
    pub(crate) fn new(map: Map, epoch: u64, make: Make<'_>) -> View {
        let nodes = map.primaries.iter().map(|at| Arc::new(make(at))).collect();
        View { map, epoch, nodes, guests: Vec::new(), survey: 0 }
    }

    /// Which of the nodes serves `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        self.map.owner(slot)
    }

    /// The node that serves `slot`.
    pub(crate) fn serving(&self, slot: u16) -> Option<Arc<Node>> {
        self.nodes.get(self.owner(slot)?).cloned()
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn known(&self) -> Known {
        let (nodes, replicas) = (self.nodes.clone(), self.map.replicas.clone());
        Known { epoch: self.epoch, nodes, replicas }
    }

    /// The first address of all: the same for everybody who looks, whoever is primary.
    pub(crate) fn first(&self) -> Option<&Address> {
        self.map.primaries.iter().chain(&self.map.replicas).min()
    }

    /// A server says that another one serves `slot` now.
    pub(crate) fn moved(&mut self, slot: u16, to: Address, make: Make<'_>) -> Arc<Node> {
        let owner = self.map.moved(slot, to.clone());
        if owner == self.nodes.len() {
            let guest = self.guests.iter().find(|guest| guest.address == to);
            self.nodes.push(guest.map_or_else(|| Arc::new(make(&to)), |guest| guest.node.clone()));
        }
        self.nodes[owner].clone()
    }

    /// The server at an address, whatever it serves.
    pub(crate) fn at(&mut self, address: Address, make: Make<'_>) -> Arc<Node> {
        if let Some(at) = self.map.primaries.iter().position(|known| *known == address) {
            return self.nodes[at].clone();
        }
        if let Some(guest) = self.guests.iter().find(|guest| guest.address == address) {
            return guest.node.clone();
        }
        let node = Arc::new(make(&address));
        self.guests.push(Guest { address, node: node.clone(), new: true });
        node
    }

    /// Takes over a new map and keeps the nodes that are in both. Surveys are numbered as they are begun: what an older one found
    /// changes nothing.
    pub(crate) fn renew(&mut self, survey: u64, map: Map, epoch: u64, make: Make<'_>) -> Changes {
        if survey < self.survey {
            return Changes::default();
        }
        let any = map != self.map;
        let node = |at: &Address| {
            let known = self.map.primaries.iter().position(|known| known == at);
            let guest = || self.guests.iter().find(|guest| guest.address == *at);
            match (known, guest()) {
                (Some(known), _) => self.nodes[known].clone(),
                (None, Some(guest)) => guest.node.clone(),
                (None, None) => Arc::new(make(at)),
            }
        };
        let nodes: Vec<Arc<Node>> = map.primaries.iter().map(node).collect();
        let mut gone = std::mem::replace(&mut self.nodes, nodes);
        gone.retain(|old| !self.nodes.iter().any(|node| Arc::ptr_eq(node, old)));
        // A guest outlives one map: the next one should have it, if it is to stay.
        let mut left = Vec::new();
        for guest in std::mem::take(&mut self.guests) {
            match guest.new {
                _ if map.primaries.contains(&guest.address) => {}
                true => self.guests.push(Guest { new: false, ..guest }),
                false => left.push(guest.node),
            }
        }
        (self.map, self.epoch, self.survey) = (map, epoch, survey);
        Changes { any, gone, left }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Virtual;
    use crate::locks::Durability;
    use crate::locks::config;
    use crate::net::Net;
    use crate::observe::Tracing;
    use crate::redis::connect::Dial;
    use crate::redis::target::Target;

    fn at(host: &str) -> Address {
        Address { host: host.to_owned(), port: 1 }
    }

    fn node(at: &Address) -> Node {
        Node::single(Dial {
            target: Target::parse(&format!("redis://{}:{}", at.host, at.port)).unwrap(),
            connector: Arc::new(Net),
            env: Arc::new(Virtual::new()),
            observer: Arc::new(Tracing),
            reply_timeout: config::REPLY_TIMEOUT,
            durability: Durability::Primary,
            holder_info: false,
            kill_lists: None,
        })
    }

    /// `a` is a primary, and `b` another one, if it is to be.
    fn map(b: bool) -> Map {
        let mut map = Map::of_one(at("a"), Vec::new());
        if b {
            map.moved(0, at("b"));
        }
        map
    }

    /// How many are not primaries any more, and how many guests left.
    fn renew(view: &mut View, survey: u64, map: Map) -> (usize, usize) {
        let changes = view.renew(survey, map, 0, &node);
        (changes.gone.len(), changes.left.len())
    }

    #[tokio::test]
    async fn a_guest_that_comes_to_stay_or_leaves_replaces_nobody() {
        // It gets its first slots.
        let mut view = View::new(map(false), 0, &node);
        let guest = view.at(at("b"), &node);
        for survey in 1..=3 {
            assert_eq!(renew(&mut view, survey, map(true)), (0, 0));
            assert!(Arc::ptr_eq(&view.at(at("b"), &node), &guest));
        }
        // Also if it is a guest for a while before that, and it is gone when it has none any more.
        assert_eq!(renew(&mut view, 4, map(false)), (1, 0));
        view.at(at("b"), &node);
        assert_eq!(renew(&mut view, 5, map(false)), (0, 0));
        assert_eq!(renew(&mut view, 6, map(true)), (0, 0));
        assert_eq!(renew(&mut view, 7, map(true)), (0, 0));
        // It gets none.
        view.at(at("c"), &node);
        assert_eq!(renew(&mut view, 8, map(true)), (0, 0));
        assert_eq!(renew(&mut view, 9, map(true)), (0, 1));
    }

    #[tokio::test]
    async fn what_an_older_survey_found_changes_nothing() {
        let mut view = View::new(map(false), 0, &node);
        view.renew(2, map(true), 5, &node);
        let changes = view.renew(1, map(false), 4, &node);
        assert!(!changes.any && changes.gone.is_empty());
        assert_eq!((view.map.clone(), view.epoch), (map(true), 5));
        assert!(view.renew(3, map(false), 5, &node).any);
    }
}
