//! A majority of stores in memory, some of which fail.

mod deciding;
mod flaky;
mod healing;
mod leaving;
mod property;

use std::future::Future;

use uuid::Uuid;

use super::*;
use crate::env::Virtual;
use crate::owner::Owner;
use crate::store::AttemptAll;
use flaky::{Flaky, Mood};

const LEASE: Duration = Duration::from_secs(3600);
const ACQUIRED: Attempt = Attempt::Acquired { token: None, lease: LEASE };

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// In virtual time.
fn paused<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(work)
}

/// Some nodes, for any number of processes.
struct Scene {
    env: Virtual,
    nodes: Vec<Arc<Flaky>>,
}

impl Scene {
    fn new(nodes: usize) -> Scene {
        let env = Virtual::new();
        let shared: Arc<dyn Env> = Arc::new(env.clone());
        let nodes = (0..nodes).map(|_| Flaky::new(&shared)).collect();
        Scene { env, nodes }
    }

    /// One more process.
    fn quorum(&self) -> Arc<Quorum> {
        let env: Arc<dyn Env> = Arc::new(self.env.clone());
        let node = |(at, store): (usize, &Arc<Flaky>)| {
            Node::new(store.clone(), Arc::from(format!("node {at}")), env.clone())
        };
        let nodes = self.nodes.iter().enumerate().map(node).collect();
        Quorum::new(nodes, env)
    }

    /// One more owner.
    fn claim(&self, lease: Duration) -> Claim {
        let owner = Owner::mint(Uuid::new_v4());
        Claim {
            name: "k".into(),
            owner,
            lease,
            depth: 1,
            heir_of: None,
            kind: ClaimKind::Exclusive,
            info: None,
        }
    }

    /// Who stands where.
    async fn holders(&self) -> Vec<Option<String>> {
        let mut holders = Vec::new();
        for node in &self.nodes {
            holders.push(node.holder("k").await);
        }
        holders
    }

    async fn known(&self, claim: &Claim) -> Vec<bool> {
        let owner = claim.owner.to_string();
        self.holders().await.iter().map(|holder| holder.as_ref() == Some(&owner)).collect()
    }
}

fn freed(claim: &Claim) -> Claim {
    Claim { depth: 0, ..claim.clone() }
}
