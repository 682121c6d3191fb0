//! What a server says that it is, and finding the one that says it is the primary.

use std::sync::{Arc, Mutex, PoisonError};

use redis::Value;

use super::map::Address;
use super::several;
use super::source::Known;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::Dial;
use crate::redis::node::Node;
use crate::redis::refusal;
use crate::redis::target::Target;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// With so many replicas that are up to date, and so many bytes of history.
    Primary { replicas: usize, offset: i64 },
    /// Of the server at this address.
    Replica { of: Address },
    /// It watches over others and keeps no locks.
    Sentinel,
}

impl Role {
    /// What `ROLE` says, asked of a server at `asked`.
    fn parse(reply: &Value, asked: &str) -> Option<Role> {
        let Value::Array(parts) = reply else { return None };
        let word = text(parts.first()?)?;
        match (word, &parts[1..]) {
            ("master", [Value::Int(offset), Value::Array(replicas), ..]) => {
                Some(Role::Primary { replicas: replicas.len(), offset: *offset })
            }
            ("slave" | "replica", [host, Value::Int(port), ..]) => {
                let of = Address::parse(&format!("{}:{port}", text(host)?), asked)?;
                Some(Role::Replica { of })
            }
            ("sentinel", _) => Some(Role::Sentinel),
            _ => None,
        }
    }
}

/// Asks a server what it is.
pub(crate) async fn role(server: &Node) -> Result<Role> {
    let ask = async {
        let reply = server.links.line().await?.send(&redis::cmd("ROLE")).await?;
        let reply = refusal::checked(reply).map_err(|error| match error.kind() {
            ErrorKind::Config => {
                let text = "the Redis user may not run ROLE: redis+sentinel:// and redis+replicated:// need +role";
                Error::new(ErrorKind::Config, text).and(&error)
            }
            _ => error,
        })?;
        let asked = several::host(server.links.target());
        Role::parse(&reply, asked).ok_or_else(|| refusal::nonsense("ROLE", &reply))
    };
    ask.await.map_err(|error| error.at(&server.links.place()))
}

/// The server at `target`, with the connections that are there if it is in use.
pub(crate) fn server(target: Target, dial: &Dial, in_use: &[Arc<Node>]) -> Arc<Node> {
    let known = in_use.iter().find(|node| *node.links.target() == target);
    known.cloned().unwrap_or_else(|| Arc::new(Node::single(dial.to(target))))
}

/// Servers that are asked again and again, with connections that are kept from one look to the next.
#[derive(Debug, Default)]
pub(crate) struct Regulars(Mutex<Vec<Arc<Node>>>);

impl Regulars {
    /// The servers at these targets; others are forgotten.
    ///
    /// While nothing is known yet, none is kept: whoever asks first does so on a runtime of its own, and connections there
    /// would be of no use to those who look later.
    pub(crate) fn at(&self, targets: Vec<Target>, dial: &Dial, known: &Known) -> Vec<Arc<Node>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes: Vec<Arc<Node>> =
            targets.into_iter().map(|target| server(target, dial, &kept)).collect();
        if !known.nodes.is_empty() {
            kept.clone_from(&nodes);
        }
        nodes
    }
}

/// Asks the server at `named` whether it is the primary. If it has become a replica, the one that it follows now is asked
/// instead; its word is taken only for where to ask.
pub(crate) async fn confirmed(
    named: Address,
    base: &Target,
    dial: &Dial,
    in_use: &[Arc<Node>],
) -> Result<Address> {
    let ask = async |at: &Address| role(&server(base.at(&at.host, at.port), dial, in_use)).await;
    let next = match ask(&named).await? {
        Role::Primary { .. } => return Ok(named),
        Role::Replica { of } => of,
        Role::Sentinel => {
            let at = base.at(&named.host, named.port);
            let text = format!("{at} was named as the primary, but is a sentinel");
            return Err(Error::new(ErrorKind::Config, text));
        }
    };
    match ask(&next).await? {
        Role::Primary { .. } => Ok(next),
        _ => {
            let (from, to) = (base.at(&named.host, named.port), base.at(&next.host, next.port));
            let text = format!("{from} is a replica of {to}, which is not a primary");
            Err(Error::new(ErrorKind::Unavailable, text))
        }
    }
}

pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn roles_are_read() {
        let replica = Value::Array(vec![bulk("10.0.0.2"), bulk("7"), bulk("99")]);
        let table = [
            (
                vec![bulk("master"), Value::Int(5), Value::Array(vec![replica])],
                Some(Role::Primary { replicas: 1, offset: 5 }),
            ),
            (
                vec![
                    bulk("slave"),
                    bulk("10.0.0.1"),
                    Value::Int(7),
                    bulk("connected"),
                    Value::Int(9),
                ],
                Some(Role::Replica { of: Address { host: "10.0.0.1".to_owned(), port: 7 } }),
            ),
            (vec![bulk("sentinel"), Value::Array(vec![bulk("mm")])], Some(Role::Sentinel)),
            (vec![bulk("slave"), bulk("h"), Value::Int(0)], None),
            (vec![bulk("master")], None),
            (vec![bulk("king")], None),
            (vec![], None),
        ];
        for (parts, expected) in table {
            let reply = Value::Array(parts);
            assert_eq!(Role::parse(&reply, "asked"), expected, "{reply:?}");
        }
        assert_eq!(Role::parse(&Value::Nil, "asked"), None);
    }
}
