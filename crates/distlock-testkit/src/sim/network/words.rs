//! Requests and answers in the words of the trace.

use distlock::store::{Admin, Claim};

use super::State;
use crate::sim::message::{Answer, Request};

impl State {
    pub(super) fn describe(&mut self, process: usize, request: &Request) -> String {
        let mut claimed = |claim: &Claim| {
            let owner = self.trace.owner(process, claim.owner).to_owned();
            let heir = match claim.heir_of {
                Some(before) => format!(", heir of {}", self.trace.owner(process, before)),
                None => String::new(),
            };
            let (name, depth, lease) = (&claim.name, claim.depth, claim.lease);
            format!("{name} {:?} for {owner} at {depth}, {lease:?}{heir}", claim.kind)
        };
        let mut all = |claims: &[_]| claims.iter().map(&mut claimed).collect::<Vec<_>>().join("; ");
        match request {
            Request::Acquire(claim) => format!("acquire {}", claimed(claim)),
            Request::AcquireAll(claims) => format!("acquire all [{}]", all(claims)),
            Request::Release(claim) => format!("release {}", claimed(claim)),
            Request::Renew(claims) => format!("renew [{}]", all(claims)),
            Request::GiveUp(claim) => format!("give up {}", claimed(claim)),
            Request::Listen(number, name, _) => format!("listen {number} to {name}"),
            Request::Unlisten(number) => format!("unlisten {number}"),
            Request::Inspect(name) => format!("inspect {name}"),
            Request::Force(what, name) => format!("force {name} {what:?}"),
            Request::List(prefix) => format!("list {prefix:?}"),
            Request::Admin(name, Admin::Latch(_)) => format!("latch {name}"),
            Request::Admin(name, op) => format!("admin {name} {op:?}"),
        }
    }
}

/// An answer without the ids of owners, which differ from run to run.
pub(super) fn brief(answer: &Answer) -> String {
    match answer {
        Answer::Seen(Ok(seen)) => format!("{} holders, {:?} left", seen.holders.len(), seen.ttl),
        Answer::Listed(all) => format!("{} locks", all.len()),
        other => format!("{other:?}"),
    }
}
