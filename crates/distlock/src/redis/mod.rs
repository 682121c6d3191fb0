//! Many machines: Redis and Valkey.
//!
//! A claim becomes a [`call::Call`], runs on the calling runtime's connection, and its reply becomes an answer. What stands
//! on the wire is in [`wire`] and in `scripts/`.

mod call;
mod connect;
mod exclusive;
mod link;
mod list;
mod pubsub;
mod refusal;
mod target;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub use connect::{Connector, Endpoint, Net, Stream, TlsOptions};
pub(crate) use target::Target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::call::join_all;
use self::connect::Dial;
use self::link::Links;
use self::pubsub::Hub;
use crate::config;
use crate::env::{BoxFuture, Env};
use crate::error::Result;
use crate::observe::Observer;
use crate::store::{Attempt, Claim, Listener, Released, Snapshot, Store, What};

/// Locks on one Redis server. Dropping it closes all its connections.
pub(crate) struct RedisStore {
    links: Links,
    hub: Hub,
}

impl RedisStore {
    /// Connects at once, so that a wrong address, password or database is found here and not at the first lock.
    pub(crate) async fn connect(
        target: Target,
        env: Arc<dyn Env>,
        connector: Arc<dyn Connector>,
        observer: Arc<dyn Observer>,
        reply_timeout: Duration,
    ) -> Result<Arc<RedisStore>> {
        let dial = Arc::new(Dial { target, connector, env, observer, reply_timeout });
        let store = RedisStore { links: Links::new(dial.clone()), hub: Hub::new(dial) };
        store.links.warm_up(config::COMMAND_TIMEOUT).await?;
        Ok(Arc::new(store))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("links", &self.links).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            match claim.what {
                What::Exclusive => {
                    exclusive::acquired(exclusive::acquire(claim).run(&self.links).await?)
                }
            }
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            match claim.what {
                What::Exclusive => {
                    exclusive::released(exclusive::release(claim).run(&self.links).await?)
                }
            }
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        // All chunks go out at once on one connection: the batch bounds how long one script holds the server, not how
        // long the whole round takes.
        let chunks = claims.chunks(config::RENEWAL_BATCH).map(|chunk| {
            let renewal: BoxFuture<'a, Vec<Result<bool>>> = Box::pin(async move {
                exclusive::renewed(exclusive::renew(chunk).run(&self.links).await, chunk.len())
            });
            renewal
        });
        let chunks = chunks.collect();
        Box::pin(async move { join_all(chunks).await.into_iter().flatten().collect() })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async move {
            match claim.what {
                What::Exclusive => self.hub.listen(&wire::channel(&claim.name).to_string()).await,
            }
        })
    }

    fn inspect<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            exclusive::snapshot(name, exclusive::inspect(name).run(&self.links).await?)
        })
    }

    fn force<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            exclusive::snapshot(name, exclusive::force(name).run(&self.links).await?)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(list::list(&self.links, prefix))
    }
}
