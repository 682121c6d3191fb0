//! What the server has, and how it loses it.

use std::sync::Arc;

use distlock::Owner;
use distlock::store::Snapshot;

use super::{Server, Write};
use crate::sim::entry::SimEntry;
use crate::sim::plan::Millis;

impl Server {
    /// Puts back what was under a name.
    pub(super) fn put(&mut self, name: &Arc<str>, entry: Option<SimEntry>, now: Millis) {
        let clock = self.clock(now);
        match entry.filter(|entry| entry.is_live(clock)) {
            Some(entry) => self.entries.insert(name.clone(), entry),
            None => self.entries.remove(name),
        };
    }

    pub(super) fn look(&self, name: &str, now: Millis) -> Snapshot {
        let clock = self.clock(now);
        let live = self.entries.get(name).filter(|entry| entry.is_live(clock));
        live.map_or_else(|| Snapshot::free(name), |entry| entry.view(name, clock))
    }

    /// The connection is gone, and its subscriptions with it.
    pub(in crate::sim) fn hang_up(&mut self, connection: usize) {
        self.subscribers.retain(|&(_, its), _| its != connection);
    }

    /// A replica takes over that has not seen the last `lost` writes. Returns the names.
    pub(in crate::sim) fn lose_tail(&mut self, lost: usize, now: Millis) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for _ in 0..lost {
            let Some(Write { name, before, token }) = self.tail.pop_back() else { break };
            self.put(&name, before, now);
            self.tokens.insert(name.clone(), token);
            self.losses.entry(name.clone()).or_default().push(now);
            names.push(name);
        }
        names.sort();
        names.dedup();
        names
    }

    /// Everything is gone.
    pub(in crate::sim) fn lose_all(&mut self, now: Millis) {
        self.tail.clear();
        self.entries.clear();
        self.tokens.clear();
        self.losses.entry("".into()).or_default().push(now);
    }

    /// When the server first and last granted this owner the lock.
    pub(in crate::sim) fn granted(
        &self,
        name: &Arc<str>,
        owner: Owner,
    ) -> Option<(Millis, Millis)> {
        self.granted.get(&(name.clone(), owner)).copied()
    }

    /// The owners that hold it now.
    pub(in crate::sim) fn holders(&self, name: &str, now: Millis) -> Vec<Owner> {
        let holders = self.look(name, now).holders;
        holders.iter().filter_map(|holder| holder.owner.parse().ok()).collect()
    }

    /// Whether the server lost data of the name, or was told to free it, at `since` or later.
    pub(in crate::sim) fn lost_since(&self, name: &str, since: Millis) -> bool {
        let of = |name: &str| self.losses.get(name).and_then(|at| at.last()).copied();
        of(name).max(of("")).is_some_and(|at| at >= since)
    }

    /// Whether the server ever lost data of the name, or was told to free it.
    pub(in crate::sim) fn ever_lost(&self, name: &str) -> bool {
        self.lost_since(name, 0)
    }

    /// What is there under each name.
    pub(in crate::sim) fn left(&self, now: Millis) -> Vec<(Arc<str>, &SimEntry)> {
        let clock = self.clock(now);
        let live = self.entries.iter().filter(|(_, entry)| entry.is_live(clock));
        live.map(|(name, entry)| (name.clone(), entry)).collect()
    }
}
