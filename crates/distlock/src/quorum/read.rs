//! What stands under a name, as a majority sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ask::Known;
use super::votes::{Vote, Votes};
use super::{Node, Quorum};
use crate::env::BoxFuture;
use crate::error::Result;
use crate::store::{ClaimKind, Holder, Snapshot};

impl Quorum {
    pub(super) async fn look_everywhere(
        &self,
        what: ClaimKind,
        name: &str,
        force: bool,
    ) -> Result<Snapshot> {
        let step = |node: &Arc<Node>| -> BoxFuture<'static, Result<Snapshot>> {
            let (store, name) = (node.store.clone(), name.to_owned());
            Box::pin(async move {
                if force {
                    store.force(what, &name).await
                } else {
                    store.inspect(what, &name).await
                }
            })
        };
        let answers = self.each(step, |_| Known::TooLittle).await.answers;
        let votes = Votes::of(&answers, |_| Vote::Yes);
        if votes.decided() != Some(true) {
            return Err(self.no_quorum(&answers, votes, |_| "replied".to_owned()));
        }
        let seen: Vec<&Snapshot> = answers.iter().flatten().flatten().collect();
        Ok(agreed(name, &seen, votes.majority()))
    }

    pub(super) async fn list_everywhere(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        let step = |node: &Arc<Node>| -> BoxFuture<'static, Result<Vec<Snapshot>>> {
            let (store, prefix) = (node.store.clone(), prefix.to_owned());
            Box::pin(async move { store.list(&prefix).await })
        };
        let answers = self.each(step, |_| Known::TooLittle).await.answers;
        let votes = Votes::of(&answers, |_| Vote::Yes);
        if votes.decided() != Some(true) {
            return Err(self.no_quorum(&answers, votes, |_| "replied".to_owned()));
        }
        let all: Vec<&Snapshot> = answers.iter().flatten().flatten().flatten().collect();
        let names: BTreeSet<&str> = all.iter().map(|seen| &*seen.name).collect();
        let seen = |name| -> Vec<&Snapshot> {
            all.iter().copied().filter(|seen| &*seen.name == name).collect()
        };
        let locks = names.into_iter().map(|name| agreed(name, &seen(name), votes.majority()));
        Ok(locks.filter(Snapshot::is_held).collect())
    }
}

/// What a majority of snapshots show: who holds it, how often, and for how long at least.
fn agreed(name: &str, seen: &[&Snapshot], majority: usize) -> Snapshot {
    let owners: BTreeSet<&str> =
        seen.iter().flat_map(|s| s.holders.iter()).map(|h| h.owner.as_str()).collect();
    for owner in owners {
        let (mut depths, mut ttls) = (Vec::new(), Vec::new());
        for snapshot in seen {
            if let Some(holder) = snapshot.holders.iter().find(|h| h.owner == owner) {
                depths.push(holder.depth);
                ttls.push(snapshot.ttl.unwrap_or_default());
            }
        }
        // The most that a majority has.
        depths.sort_by_key(|depth| std::cmp::Reverse(*depth));
        ttls.sort_by_key(|ttl| std::cmp::Reverse(*ttl));
        if let (Some(depth), Some(ttl)) = (depths.get(majority - 1), ttls.get(majority - 1)) {
            // Each has what the holder said there; any is as good as the other.
            let mut all = seen.iter().flat_map(|seen| &seen.holders);
            let said = all.find(|holder| holder.owner == owner && holder.info.is_some());
            let holder = Holder::new(owner, *depth);
            let holder = holder.with_info(said.and_then(|holder| holder.info.clone()));
            let waiters = seen.iter().filter_map(|seen| seen.waiters).max();
            return Snapshot::held(name, vec![holder], *ttl).with_waiters(waiters);
        }
    }
    Snapshot::free(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_minority_cannot_make_a_holder() {
        let ms = Duration::from_millis;
        let held = |owner: &str, ttl| Snapshot::held("k", vec![Holder::new(owner, 1)], ms(ttl));
        let (a, b, c) = (held("a", 5), held("a", 9), held("b", 7));
        let deeper = Snapshot::held("k", vec![Holder::new("a", 2)], ms(1));
        let free = Snapshot::free("k");
        let seen = agreed("k", &[&a, &b, &c], 2);
        assert_eq!((seen.holders[0].owner.as_str(), seen.ttl), ("a", Some(ms(5))));
        assert!(!agreed("k", &[&a, &c, &free], 2).is_held());
        // A level counts when a majority has it, whatever the times to live.
        assert_eq!(agreed("k", &[&a, &b, &deeper], 2).holders[0].depth, 1);
        assert_eq!(agreed("k", &[&deeper, &b, &deeper], 2).holders[0].depth, 2);
    }
}
