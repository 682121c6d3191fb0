//! One primary among servers that are all given: asking each of them what it is.
//!
//! For set-ups in which somebody else chooses the primary, as those for rent do: `redis+replicated://host1,host2,host3/db`.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::map::{Address, Map};
use super::role::{Regulars, Role, role, server};
use super::several::{Several, config, host, listed};
use super::source::Known;
use super::survey::Answer;
use super::turns::{PATIENCE, none};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::{Dial, Endpoint};
use crate::redis::node::Node;
use crate::redis::target::Target;

/// All servers there are.
#[derive(Debug)]
pub(crate) struct Replicated {
    pub(crate) targets: Vec<Target>,
    regulars: Regulars,
}

/// One that says it is the primary.
struct Candidate {
    target: Target,
    replicas: usize,
    offset: i64,
}

impl Replicated {
    /// `None` if the URL is not of this kind.
    pub(crate) fn parse(url: &str) -> Option<Result<Replicated>> {
        let url = Several::split(url, "replicated")?;
        let servers = url.hosts().map(|host| url.target(host, url.path));
        let targets = servers.collect::<Result<Vec<Target>>>();
        Some(targets.map(|targets| Replicated { targets, regulars: Regulars::default() }))
    }

    /// Finds the primary. All are asked at once; when one says that it is, the others get a moment to say so too.
    pub(crate) async fn survey(&self, dial: &Dial, known: &Known) -> Result<Answer> {
        let nodes = self.regulars.at(self.targets.clone(), dial, known);
        let mut asked = JoinSet::new();
        for node in nodes {
            let target = node.links.target().clone();
            // Where there are connections in use, those are asked: what does not answer there is of no use.
            let in_use: Vec<Arc<Node>> = known.nodes.iter().cloned().chain([node]).collect();
            let node = server(target.clone(), dial, &in_use);
            asked.spawn(async move { (target, role(&node).await) });
        }
        let (mut candidates, mut troubles) = (Vec::new(), Vec::new());
        // Runs from the first candidate on: however long connecting took, the others have that moment.
        let mut patience: BoxFuture<'static, ()> = Box::pin(std::future::pending());
        loop {
            let answer = tokio::select! {
                biased; // what has been said counts, however late anybody listens
                answer = asked.join_next() => answer,
                () = &mut patience => break,
            };
            match answer {
                None => break,
                Some(Err(_)) => {}
                Some(Ok((_, Err(trouble)))) => troubles.push(trouble),
                Some(Ok((target, Ok(role)))) => match role {
                    Role::Primary { replicas, offset } => {
                        if candidates.is_empty() {
                            patience = dial.env.sleep_until(dial.env.now().after(PATIENCE));
                        }
                        candidates.push(Candidate { target, replicas, offset });
                    }
                    Role::Replica { .. } => troubles.push(unfit(&target)),
                    Role::Sentinel => troubles.push(misread(&target)),
                },
            }
        }
        let Some(primary) = choose(candidates, &self.targets, known) else {
            return Err(none("none of the servers reports that it is the primary", troubles));
        };
        let others = self.targets.iter().filter_map(address).collect();
        let primary = address(&primary).ok_or_else(|| config("a server without a port"))?;
        Ok(Answer { map: Map::of_one(primary, others), epoch: 0, sharded: false })
    }
}

/// If two say that they are the primary, the one that more follow; then the one in use. For those who come new, the one with the
/// longer history: one that was restarted without its data has none.
fn choose(candidates: Vec<Candidate>, given: &[Target], known: &Known) -> Option<Target> {
    if candidates.len() > 1 {
        tracing::warn!(target: "distlock", count = candidates.len(), "several servers report that they are the primary: the one with the most replicas is used");
    }
    let in_use = |target: &Target| known.nodes.iter().any(|node| node.links.target() == target);
    let late = |target: &Target| given.iter().position(|other| other == target);
    let best = candidates.into_iter().max_by_key(|one| {
        (one.replicas, in_use(&one.target), one.offset, Reverse(late(&one.target)))
    });
    best.map(|one| one.target)
}

fn address(target: &Target) -> Option<Address> {
    match target.endpoint {
        Endpoint::Tcp { port, .. } | Endpoint::Tls { port, .. } => {
            Some(Address { host: host(target).to_owned(), port })
        }
        Endpoint::Unix { .. } => None,
    }
}

fn unfit(target: &Target) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{target} is a replica"))
}

fn misread(target: &Target) -> Error {
    let text =
        format!("{target} is a sentinel: write redis+sentinel:// instead of redis+replicated://");
    Error::new(ErrorKind::Config, text)
}

impl fmt::Display for Replicated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the primary among {}", listed(&self.targets))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Replicated> {
        Replicated::parse(url).expect("a URL of replicated servers")
    }

    #[test]
    fn servers_are_read_and_share_the_rest() {
        let set = parse("redis+replicated://al:pw@h1:7000,h2/3").unwrap();
        let single = |at: &str| Target::parse(&format!("redis://al:pw@{at}/3")).unwrap();
        assert_eq!(set.targets, ["h1:7000", "h2:6379"].map(single));
        assert_eq!(set.to_string(), "the primary among h1:7000 (db 3), h2:6379 (db 3)");
        assert!(Replicated::parse("redis://h").is_none());
    }

    #[test]
    fn bad_urls_are_config_errors_that_keep_the_password_to_themselves() {
        for url in [
            "redis+replicated://",
            "redis+replicated://user:hunter2@",
            "redis+replicated://user:hunter2@h1,,h2",
            "redis+replicated://user:hunter2@h1/hunter2",
            "redis+replicated://user:hunter2@h1?hunter2=1",
            "redis+replicated://user:1/hunter2@h1",
        ] {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            let said = format!("{error} {error:?}");
            assert!(!said.contains("unter2"), "{url}: {said}");
        }
    }

    #[test]
    fn of_two_primaries_the_one_that_more_follow_is_taken() {
        let given = ["redis://a", "redis://b"].map(|url| Target::parse(url).unwrap());
        let candidate = |at: usize, replicas, offset| {
            let target = given[at].clone();
            Candidate { target, replicas, offset }
        };
        let nobody = Known::default();
        let chosen = |all| choose(all, &given, &nobody);
        assert_eq!(chosen(vec![candidate(0, 0, 9), candidate(1, 1, 5)]), Some(given[1].clone()));
        assert_eq!(chosen(vec![candidate(0, 0, 0), candidate(1, 0, 5)]), Some(given[1].clone()));
        assert_eq!(chosen(vec![candidate(1, 0, 5), candidate(0, 0, 5)]), Some(given[0].clone()));
        assert_eq!(chosen(vec![]), None);
    }
}
