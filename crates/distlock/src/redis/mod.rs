//! Many machines: Redis and Valkey.
//!
//! A claim becomes a [`call::Call`], runs on the calling runtime's connection, and its reply becomes an answer. What stands
//! on the wire is in [`wire`] and in `scripts/`.

mod call;
mod connect;
mod exclusive;
mod fair;
mod fenced;
mod latch;
mod leased;
mod link;
mod list;
mod multi;
mod permits;
mod pubsub;
mod refusal;
mod rw;
mod simple;
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

use ::redis::Value;

use self::call::Call;
use self::connect::Dial;
use self::link::Links;
use self::pubsub::Hub;
use crate::config;
use crate::env::{BoxFuture, Env};
use crate::error::Result;
use crate::observe::Observer;
use crate::store::{
    Admin, Attempt, Claim, Command, Listener, Released, Reply, Snapshot, Store, Together, What,
};
use crate::together::join_all;

/// Locks on one Redis server. Dropping it closes all its connections.
pub(crate) struct RedisStore {
    links: Links,
    hub: Hub,
}

impl RedisStore {
    /// Connects at once, so that a wrong address, password or database is found here and not at the first lock; unless
    /// `lazy` says that the server may come later.
    pub(crate) async fn connect(
        target: Target,
        env: Arc<dyn Env>,
        connector: Arc<dyn Connector>,
        observer: Arc<dyn Observer>,
        reply_timeout: Duration,
        lazy: bool,
    ) -> Result<Arc<RedisStore>> {
        let dial = Arc::new(Dial { target, connector, env, observer, reply_timeout });
        let store = RedisStore { links: Links::new(dial.clone()), hub: Hub::new(dial) };
        if !lazy {
            store.links.warm_up(config::COMMAND_TIMEOUT).await?;
        }
        Ok(Arc::new(store))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("links", &self.links).finish_non_exhaustive()
    }
}

/// How a reply is read.
type Decode<T> = fn(Value) -> Result<T>;

/// A renewal script and the claims, by index, that it renews.
type Renewal = (fn(&[&Claim]) -> Call, Vec<usize>);

/// Which script renews a claim.
fn renewal(what: What) -> fn(&[&Claim]) -> Call {
    match what {
        // A fair lock and a fenced one are fields of a hash like any other.
        What::Exclusive | What::Fenced | What::Fair { .. } => exclusive::renew,
        What::Read | What::Write { .. } => rw::renew,
        What::Simple => simple::renew,
        What::Permits { .. } => permits::renew,
        What::LeasedPermits { .. } => leased::renew,
        What::LatchOpen => latch::renew,
    }
}

impl RedisStore {
    /// Renews in batches: each bounds how long one script holds the server, and all go out at once on one connection.
    async fn renew_all(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        let mut batches: Vec<Renewal> = Vec::new();
        for (index, claim) in claims.iter().enumerate() {
            let script = renewal(claim.what);
            let open = batches.iter_mut().rev().find(|(other, members)| {
                std::ptr::fn_addr_eq(*other, script) && members.len() < config::RENEWAL_BATCH
            });
            match open {
                Some((_, members)) => members.push(index),
                None => batches.push((script, vec![index])),
            }
        }
        let calls = batches.iter().map(|(script, members)| {
            let members: Vec<&Claim> = members.iter().map(|index| &claims[*index]).collect();
            let renewal: BoxFuture<'_, Vec<Result<bool>>> = Box::pin(async move {
                exclusive::renewed(script(&members).run(&self.links).await, members.len())
            });
            renewal
        });
        let answers = join_all(calls.collect()).await;
        let mut renewed: Vec<Option<Result<bool>>> = claims.iter().map(|_| None).collect();
        for ((_, members), answers) in batches.iter().zip(answers) {
            for (index, answer) in members.iter().zip(answers) {
                renewed[*index] = Some(answer);
            }
        }
        renewed.into_iter().map(|answer| answer.unwrap_or(Ok(false))).collect()
    }
}

impl Store for RedisStore {
    fn place(&self) -> String {
        self.links.place()
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            let (call, decode): (Call, Decode<Attempt>) = match claim.what {
                What::Exclusive => (exclusive::acquire(claim), exclusive::acquired),
                What::Fenced => (fenced::acquire(claim), fenced::acquired),
                What::Fair { .. } => (fair::acquire(claim), fair::acquired),
                What::Read => (rw::acquire_read(claim), rw::acquired),
                What::Write { .. } => (rw::acquire_write(claim), rw::acquired),
                What::Simple => (simple::acquire(claim), simple::acquired),
                What::Permits { .. } => (permits::acquire(claim), permits::acquired),
                What::LeasedPermits { .. } => (leased::acquire(claim), leased::acquired),
                What::LatchOpen => (latch::acquire(claim), latch::acquired),
            };
            decode(call.run(&self.links).await?)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            let call = match claim.what {
                What::Exclusive | What::Fenced => exclusive::release(claim),
                What::Fair { .. } => fair::release(claim),
                What::Read => rw::release_read(claim),
                What::Write { .. } => rw::release_write(claim),
                What::Simple => simple::release(claim),
                What::Permits { .. } => permits::release(claim),
                What::LeasedPermits { .. } => leased::release(claim),
                What::LatchOpen => return Ok(Released::NotHeld),
            };
            exclusive::released(call.run(&self.links).await?)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(self.renew_all(claims))
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = match claim.what {
                What::Fair { .. } => fair::give_up(claim),
                What::Write { .. } => rw::give_up_write(claim),
                _ => return self.release(claim).await.map(drop),
            };
            call.run(&self.links).await.map(drop)
        })
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<Together>> {
        Box::pin(async move {
            match multi::acquire(claims) {
                Some(call) => multi::acquired(claims, call.run(&self.links).await?),
                None => Ok(Together::Apart),
            }
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async move {
            let channel = match claim.what {
                What::Exclusive | What::Fenced | What::Simple => {
                    wire::channel(&claim.name).to_string()
                }
                What::Fair { .. } => wire::waiter_channel(&claim.name, claim.owner),
                What::Read | What::Write { .. } => wire::rw_channel(&claim.name).to_string(),
                What::Permits { .. } | What::LeasedPermits { .. } => {
                    wire::permits_channel(&claim.name).to_string()
                }
                What::LatchOpen => wire::latch_channel(&claim.name),
            };
            self.hub.listen(&channel).await
        })
    }

    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let (call, decode) = reading(what, name);
            decode(name, call.run(&self.links).await?)
        })
    }

    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let (_, decode) = reading(what, name);
            let call = match what {
                What::Exclusive | What::Fenced => exclusive::force(name),
                What::Fair { .. } => fair::force(name),
                What::Read => rw::force_read(name),
                What::Write { .. } => rw::force_write(name),
                What::Simple => simple::force(name),
                What::Permits { .. } => permits::force(name),
                What::LeasedPermits { .. } => leased::force(name),
                What::LatchOpen => latch::force(name),
            };
            decode(name, call.run(&self.links).await?)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(list::list(&self.links, prefix))
    }

    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        Box::pin(async move {
            let call = match op {
                Admin::Permits(op) => permits::admin(name, *op),
                Admin::Leased(op) => leased::admin(name, op),
                Admin::Latch(op) => latch::admin(name, *op),
                Admin::Fence { token } => fenced::admit(name, *token),
                Admin::FenceForget => fenced::forget(name),
            };
            match call.run(&self.links).await? {
                Value::Int(answer) => Ok(answer),
                other => Err(refusal::nonsense("an operation", &other)),
            }
        })
    }

    fn guarded<'a>(
        &'a self,
        claim: &'a Claim,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Option<Reply>>> {
        Box::pin(async move {
            let call = fenced::guarded(claim, command)?;
            fenced::guarded_reply(call.run(&self.links).await?)
        })
    }
}

/// How what stands under a name is read.
type Reading = (Call, fn(&str, Value) -> Result<Snapshot>);

fn reading(what: What, name: &str) -> Reading {
    match what {
        What::Exclusive | What::Fenced => (exclusive::inspect(name), exclusive::snapshot),
        What::Fair { .. } => (fair::inspect(name), fair::snapshot),
        What::Read | What::Write { .. } => (rw::inspect(name), rw::snapshot),
        What::Simple => (simple::inspect(name), simple::snapshot),
        What::Permits { .. } => (permits::inspect(name), permits::snapshot),
        What::LeasedPermits { .. } => (leased::inspect(name), leased::snapshot),
        What::LatchOpen => (latch::inspect(name), latch::snapshot),
    }
}
