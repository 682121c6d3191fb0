//! Who serves which slot.

use redis::Value;

use super::slots::SLOTS;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::refusal;

/// Where a server listens, as others announce it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    /// Reads `host:port`. A server that does not know its own host leaves it out, and means the one that was asked.
    pub(crate) fn parse(text: &str, asked: &str) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host {
            "" => asked,
            // What Redis 7 says of a server whose name it does not know.
            "?" => return None,
            host => host,
        };
        Some(Address { host: host.to_owned(), port })
    }
}

/// Nobody serves it.
const NOBODY: u16 = u16::MAX;

/// Who serves what, and who follows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Map {
    /// For each slot, which of the primaries serves it.
    owners: Vec<u16>,
    pub(crate) primaries: Vec<Address>,
    pub(crate) replicas: Vec<Address>,
}

impl Map {
    /// What `CLUSTER SLOTS` says, asked of a server at `asked`.
    pub(crate) fn parse(reply: &Value, asked: &str) -> Result<Map> {
        let mut map = Map {
            owners: vec![NOBODY; usize::from(SLOTS)],
            primaries: Vec::new(),
            replicas: Vec::new(),
        };
        let nonsense = || refusal::nonsense("CLUSTER SLOTS", reply);
        let Value::Array(ranges) = reply else { return Err(nonsense()) };
        for range in ranges {
            let Value::Array(range) = range else { return Err(nonsense()) };
            let [Value::Int(first), Value::Int(last), primary, replicas @ ..] = &range[..] else {
                return Err(nonsense());
            };
            let (Ok(first), Ok(last)) = (usize::try_from(*first), usize::try_from(*last)) else {
                return Err(nonsense());
            };
            // A server that the asked one cannot address serves nobody; its slots show up in the next view.
            if let Some(primary) = server(primary, asked) {
                let owner = map.primary(primary);
                map.owners.get_mut(first..=last).ok_or_else(nonsense)?.fill(owner);
            }
            map.replicas.extend(replicas.iter().filter_map(|replica| server(replica, asked)));
        }
        map.replicas.sort();
        map.replicas.dedup();
        match map.primaries.is_empty() {
            true => {
                let text = "the cluster serves no slots: is it set up (CLUSTER INFO)?";
                Err(Error::new(ErrorKind::Unavailable, text))
            }
            false => Ok(map),
        }
    }

    /// One primary that serves everything, as a cluster of one slot, and some of the others.
    pub(crate) fn of_one(primary: Address, mut replicas: Vec<Address>) -> Map {
        replicas.retain(|replica| *replica != primary);
        replicas.sort();
        replicas.dedup();
        Map { owners: vec![0], primaries: vec![primary], replicas }
    }

    fn primary(&mut self, address: Address) -> u16 {
        let known = self.primaries.iter().position(|known| *known == address);
        let at = known.unwrap_or_else(|| {
            self.primaries.push(address);
            self.primaries.len() - 1
        });
        at as u16
    }

    /// Which of the primaries serves `slot`.
    pub(crate) fn owner(&self, slot: u16) -> Option<usize> {
        let owner = *self.owners.get(usize::from(slot))?;
        (owner != NOBODY).then_some(usize::from(owner))
    }

    /// Has another server serve `slot`. Says which of the primaries that is.
    pub(crate) fn moved(&mut self, slot: u16, to: Address) -> usize {
        let owner = self.primary(to);
        if let Some(place) = self.owners.get_mut(usize::from(slot)) {
            *place = owner;
        }
        usize::from(owner)
    }
}

fn server(node: &Value, asked: &str) -> Option<Address> {
    let Value::Array(parts) = node else { return None };
    let [host, Value::Int(port), ..] = &parts[..] else { return None };
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    Address::parse(&format!("{host}:{port}"), asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Value {
        let host = Value::BulkString(host.as_bytes().to_vec());
        Value::Array(vec![host, Value::Int(port), Value::BulkString(b"id".to_vec())])
    }

    fn range(first: i64, last: i64, nodes: Vec<Value>) -> Value {
        let ends = [Value::Int(first), Value::Int(last)];
        Value::Array(ends.into_iter().chain(nodes).collect())
    }

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn ranges_become_owners() {
        let reply = Value::Array(vec![
            range(0, 99, vec![node("10.0.0.1", 7000), node("10.0.0.4", 7003)]),
            range(100, 16383, vec![node("10.0.0.2", 7001)]),
        ]);
        let map = Map::parse(&reply, "seed").unwrap();
        assert_eq!(map.primaries, [at("10.0.0.1", 7000), at("10.0.0.2", 7001)]);
        assert_eq!(map.replicas, [at("10.0.0.4", 7003)]);
        assert_eq!([0, 99, 100, 16383].map(|slot| map.owner(slot)), [0, 0, 1, 1].map(Some));
    }

    #[test]
    fn an_empty_host_is_the_one_that_was_asked_and_an_unknown_one_is_nobody() {
        let nil = Value::Array(vec![Value::Nil, Value::Int(7002)]);
        let reply = Value::Array(vec![
            range(0, 0, vec![node("", 7000)]),
            range(1, 1, vec![node("?", 7001)]),
            range(2, 2, vec![nil]),
            range(3, 3, vec![node("::1", 7003)]),
        ]);
        let map = Map::parse(&reply, "seed").unwrap();
        assert_eq!(map.primaries, [at("seed", 7000), at("seed", 7002), at("::1", 7003)]);
        assert_eq!([0, 1, 2, 4].map(|slot| map.owner(slot)), [Some(0), None, Some(1), None]);
    }

    #[test]
    fn a_slot_can_move() {
        let reply = Value::Array(vec![range(0, 16383, vec![node("a", 1)])]);
        let mut map = Map::parse(&reply, "seed").unwrap();
        assert_eq!(map.moved(7, at("b", 2)), 1);
        assert_eq!(map.moved(8, at("b", 2)), 1);
        assert_eq!(map.moved(9, at("a", 1)), 0);
        assert_eq!([6, 7, 8, 9].map(|slot| map.owner(slot)), [0, 1, 1, 0].map(Some));
    }

    #[test]
    fn nonsense_and_emptiness_are_no_map() {
        let bad = [
            Value::Nil,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16384, vec![node("a", 1)])]),
            Value::Array(vec![range(-1, 5, vec![node("a", 1)])]),
            Value::Array(vec![range(9, 5, vec![node("a", 1)])]),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
            Value::Array(vec![]),
            Value::Array(vec![range(0, 5, vec![node("a", 0)])]),
        ];
        for reply in bad {
            let error = Map::parse(&reply, "seed").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{reply:?}");
        }
    }

    #[test]
    fn redirections_name_an_address() {
        let table = [
            ("127.0.0.1:6381", Some(at("127.0.0.1", 6381))),
            (":6381", Some(at("seed", 6381))),
            ("::1:6381", Some(at("::1", 6381))),
            ("?:6381", None),
            ("host", None),
            ("host:0", None),
            ("host:x", None),
        ];
        for (text, expected) in table {
            assert_eq!(Address::parse(text, "seed"), expected, "{text}");
        }
    }
}
