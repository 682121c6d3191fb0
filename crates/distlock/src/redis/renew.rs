//! Renewing many holds at once.

use super::call::Call;
use super::{RedisStore, exclusive, holders, latch, leased, permits, refusal, rw, simple};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::locks::config;
use crate::runtime::join::join_all;
use crate::store::{Claim, ClaimKind, Renewed};

/// A renewal script, the slot it is for and whether holders say who they are, and the claims, by index, that it renews.
type Renewal = (fn(&[&Claim]) -> Call, (u16, bool), Vec<usize>);

/// Which script renews a claim.
fn renewal(what: ClaimKind) -> fn(&[&Claim]) -> Call {
    match what {
        // A fair lock and a fenced one are fields of a hash like any other.
        ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Fair { .. } => exclusive::renew,
        ClaimKind::Read | ClaimKind::Write { .. } => rw::renew,
        ClaimKind::Simple => simple::renew,
        ClaimKind::Permits { .. } => permits::renew,
        ClaimKind::LeasedPermits { .. } => leased::renew,
        ClaimKind::LatchOpen => latch::renew,
    }
}

impl RedisStore {
    /// Renews in batches: each bounds how long one script holds the server, and all go out at once.
    pub(super) async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<Renewed>> {
        let mut batches: Vec<Renewal> = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            let slot = self.topology.slot(&claim.name);
            // Those who say who they are have another script.
            let (script, share) = (renewal(claim.kind), (slot, claim.info.is_some()));
            let open = batches.iter_mut().rev().find(|(other, at, members)| {
                *at == share
                    && std::ptr::fn_addr_eq(*other, script)
                    && members.len() < config::RENEWAL_BATCH
            });
            match open {
                Some((.., members)) => members.push(index),
                None => batches.push((script, share, vec![index])),
            }
        }
        let calls = batches.iter().map(|(script, _, members)| {
            let members: Vec<&Claim> = members.iter().map(|index| &claims[*index]).collect();
            let renewal: BoxFuture<'_, Vec<Result<Renewed>>> =
                Box::pin(self.renew_batch(*script, members));
            renewal
        });
        let answers = join_all(calls.collect()).await;
        let mut renewed: Vec<Option<Result<Renewed>>> = claims.iter().map(|_| None).collect();
        for ((.., members), answers) in batches.iter().zip(answers) {
            for (index, answer) in members.iter().zip(answers) {
                renewed[*index] = Some(answer);
            }
        }
        renewed.into_iter().map(|answer| answer.unwrap_or(Ok(Renewed::Gone))).collect()
    }

    async fn renew_batch(
        &self,
        script: fn(&[&Claim]) -> Call,
        members: Vec<&Claim>,
    ) -> Vec<Result<Renewed>> {
        let Some(first) = members.first() else { return Vec::new() };
        let call = holders::renewing(script(&members), &members);
        let reply = self.run(first.kind, &first.name, call).await;
        if members.len() == 1 || !matches!(&reply, Err(e) if refusal::is_apart(e)) {
            return exclusive::renewed(reply, &members);
        }
        // While their slot moves, some of these are here and some there: no server can do all in one step, but each can do
        // its own.
        let singles = members.iter().map(|claim| {
            let single: BoxFuture<'_, Vec<Result<Renewed>>> = Box::pin(async move {
                let call = holders::renewing(script(&[claim]), &[claim]);
                let reply = self.run(claim.kind, &claim.name, call).await;
                exclusive::renewed(reply, &[claim])
            });
            single
        });
        join_all(singles.collect()).await.into_iter().flatten().collect()
    }
}
