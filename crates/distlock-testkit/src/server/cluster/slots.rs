//! Slots that move.

use std::future::Future;

use super::Cluster;
use crate::server::{text, until};

impl Cluster {
    /// Moves the slot of a key to another primary, key by key, as `redis-cli` does; there is an opportunity to look in
    /// between, while the slot is open and nothing has been moved yet.
    ///
    /// # Panics
    /// When a server refuses.
    pub async fn move_slot<F: Future<Output = ()>>(&self, key: &str, between: impl FnOnce() -> F) {
        let slot = self.slot_of(key).await;
        let (from, to) = (self.primary_of(key).await, self.other_primary(key).await);
        let (from_id, to_id) = (from.node_id().await, to.node_id().await);
        let number = slot.to_string();
        to.cli(&["CLUSTER", "SETSLOT", &number, "IMPORTING", &from_id]).await;
        from.cli(&["CLUSTER", "SETSLOT", &number, "MIGRATING", &to_id]).await;
        between().await;
        loop {
            let keys: Vec<String> = from.ask(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]).await;
            if keys.is_empty() {
                break;
            }
            let port = to.port().to_string();
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(keys.iter().map(String::as_str));
            from.cli(&migrate).await;
        }
        // The new one first, so that there is no moment in which nobody serves it.
        to.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        from.cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        for node in self.primaries().await {
            let _ = node.try_cli(&["CLUSTER", "SETSLOT", &number, "NODE", &to_id]).await;
        }
        // Two moves in a row, without everybody having heard of the first, can leave each of two servers pointing at the
        // other: the second is then no newer than the first.
        let agreed = async || {
            let mut epochs = Vec::new();
            for node in self.primaries().await {
                let nodes = text(&node.cli(&["CLUSTER", "NODES"]).await);
                let new = nodes.lines().find(|line| line.starts_with(&to_id)).unwrap_or_default();
                epochs.push(new.split(' ').nth(6).map(str::to_owned));
                let open = nodes.contains(&format!("[{slot}-"));
                if open || !matches!(node.owner_of(slot).await, Ok(Some(port)) if port == to.port())
                {
                    return false;
                }
            }
            epochs.windows(2).all(|two| two[0] == two[1])
        };
        until("all primaries agree who has the slot", agreed).await;
    }
}
