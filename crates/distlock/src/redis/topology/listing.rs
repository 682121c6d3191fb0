//! Looking for locks on all servers of a fleet.

use std::sync::Arc;

use super::fleet::Fleet;
use super::redirect::Redirect;
use crate::error::Result;
use crate::redis::call::Call;
use crate::redis::link::Links;
use crate::redis::{list, refusal};
use crate::runtime::join::join_all;
use crate::store::Snapshot;

impl Fleet {
    /// Every lock on every server whose name starts with `prefix`.
    pub(crate) async fn list(&self, prefix: &str) -> Result<Vec<Snapshot>> {
        self.ready().await?;
        if self.0.source.has_one() {
            let found = list::list(&self.0.serving(0)?.links, prefix).await;
            return found.inspect_err(|_| self.0.doubt.raise());
        }
        let nodes = self.0.nodes();
        let walks = nodes.iter().map(|node| {
            let walk: crate::env::BoxFuture<'_, Result<Vec<Snapshot>>> =
                Box::pin(list::walk(&node.links, prefix, move |names| async move {
                    self.look(&node.links, &names).await
                }));
            walk
        });
        let mut locks = Vec::new();
        for found in join_all(walks.collect()).await {
            locks.extend(found?);
        }
        // A key that moves may be seen on both sides.
        locks.sort_by(|a, b| a.name.cmp(&b.name));
        locks.dedup_by(|a, b| a.name == b.name);
        Ok(locks)
    }

    /// The locks among these keys of one server. Each may be in a slot of its own, so each gets a call of its own.
    async fn look(&self, links: &Links, names: &[Arc<str>]) -> Result<Vec<Snapshot>> {
        let mut locks = Vec::new();
        for names in names.chunks(list::BATCH) {
            let calls: Vec<Call> =
                names.iter().map(|name| list::look(std::slice::from_ref(name))).collect();
            let replies = Call::ask_all(&calls, links).await?;
            for (name, reply) in names.iter().zip(replies) {
                let one = std::slice::from_ref(name);
                let moved = Redirect::of(&reply, "").is_some();
                let reply = match moved {
                    true => self.run(name, list::look(one)).await?,
                    false => refusal::checked(reply)?,
                };
                locks.extend(list::listed(one, reply)?);
            }
        }
        Ok(locks)
    }
}
