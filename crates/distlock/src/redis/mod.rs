//! Many machines: Redis and Valkey.
//!
//! A claim becomes a [`call::Call`], runs on the calling runtime's connection to the server that the [`topology`] names, and
//! its reply becomes an answer. What stands on the wire is in [`wire`] and in `scripts/`.

mod acl;
mod by_kind;
mod call;
mod connect;
mod doctor;
mod durable;
mod exclusive;
mod fair;
mod fenced;
mod holders;
mod kill_list;
mod latch;
mod leased;
mod link;
mod list;
mod multi;
mod node;
mod permits;
mod pubsub;
mod refusal;
mod renew;
mod rw;
mod simple;
mod target;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod topology;
mod wire;

pub use acl::{Acl, Channels};
pub use connect::{Connector, Endpoint, Net, Stream, TlsOptions};
pub(crate) use target::Target;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::redis::Value;

use self::call::Call;
use self::connect::Dial;
use self::kill_list::KillLists;
use self::node::Node;
use self::permits::InDoubt;
use self::topology::Topology;
use crate::doctor::{Examine, Finding};
use crate::env::{BoxFuture, Env};
use crate::error::{Error, Result};
use crate::locks::Durability;
use crate::locks::config;
use crate::observe::Observer;
use crate::store::{
    Admin, Attempt, AttemptAll, Capabilities, Claim, ClaimKind, Command, Listener, Released,
    Renewed, Reply, Snapshot, Store,
};

/// Locks on one Redis server, on a cluster of them, or on the primary of several. Dropping it closes all its connections.
pub(crate) struct RedisStore {
    topology: Topology,
    durability: Durability,
    kill_lists: Option<Arc<KillLists>>,
    in_doubt: InDoubt,
    extras: Extras,
}

/// What is around locks.
struct Extras {
    /// Whether holders of this program say who they are.
    holder_info: bool,
    env: Arc<dyn Env>,
    /// How long one waits for what is nice to know.
    patience: Duration,
    /// Whether this user may read what holders say, and count who listens. Found out by asking, and not asked again if not: each
    /// refusal is a line in the server's log.
    may_read: AtomicBool,
    may_count: AtomicBool,
}

/// What a store needs of its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) env: Arc<dyn Env>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) reply_timeout: Duration,
    pub(crate) durability: Durability,
    pub(crate) holder_info: bool,
}

impl Surroundings {
    fn dial(self, target: Target) -> Dial {
        let Surroundings { env, connector, observer, reply_timeout, durability, holder_info } =
            self;
        let kill_lists = Some(KillLists::new(env.clone()));
        Dial {
            target,
            connector,
            env,
            observer,
            reply_timeout,
            durability,
            holder_info,
            kill_lists,
        }
    }

    fn extras(&self) -> Extras {
        // Whoever asks has had an answer already, and must not lose it for want of this one.
        let patience = self.reply_timeout / 2;
        let (may_read, may_count) = (AtomicBool::new(true), AtomicBool::new(true));
        Extras {
            holder_info: self.holder_info,
            env: self.env.clone(),
            patience,
            may_read,
            may_count,
        }
    }
}

/// Whether the URL can be read; nobody is asked.
#[cfg(feature = "profiles")]
pub(crate) fn check(url: &str) -> Result<()> {
    match topology::Source::parse(url) {
        Some(several) => several.map(drop),
        None => Target::parse(url).map(drop),
    }
}

impl RedisStore {
    /// The store at a URL. Says where it is, in words for people.
    ///
    /// Connects at once, so that a wrong address, password or database is found here and not at the first lock; unless
    /// `lazy` says that the server may come later.
    pub(crate) async fn open(
        url: &str,
        surroundings: Surroundings,
        lazy: bool,
    ) -> Result<(Arc<RedisStore>, String)> {
        // In a box: a caller's own future must not become as deep as all that connecting takes.
        type Connecting = BoxFuture<'static, Result<Arc<RedisStore>>>;
        let (connecting, place): (Connecting, String) = match topology::Source::parse(url) {
            Some(source) => {
                let source = source?;
                let place = source.to_string();
                (Box::pin(RedisStore::connect_fleet(source, surroundings, lazy)), place)
            }
            None => {
                let target = Target::parse(url)?;
                let place = target.to_string();
                (Box::pin(RedisStore::connect(target, surroundings, lazy)), place)
            }
        };
        Ok((connecting.await?, place))
    }

    pub(crate) async fn connect(
        target: Target,
        surroundings: Surroundings,
        lazy: bool,
    ) -> Result<Arc<RedisStore>> {
        let (durability, extras) = (surroundings.durability, surroundings.extras());
        let dial = surroundings.dial(target);
        let kill_lists = dial.kill_lists.clone();
        let node = Node::single(dial);
        if !lazy {
            node.links.warm_up(config::COMMAND_TIMEOUT).await?;
        }
        let (topology, in_doubt) = (Topology::Single(Box::new(node)), InDoubt::default());
        RedisStore { topology, durability, kill_lists, in_doubt, extras }.ready(lazy).await
    }

    async fn connect_fleet(
        source: topology::Source,
        surroundings: Surroundings,
        lazy: bool,
    ) -> Result<Arc<RedisStore>> {
        let (durability, extras) = (surroundings.durability, surroundings.extras());
        let dial = surroundings.dial(source.any());
        let kill_lists = dial.kill_lists.clone();
        let fleet = topology::Fleet::new(source, dial);
        if !lazy {
            fleet.ready().await?;
        }
        let (topology, in_doubt) = (Topology::Fleet(fleet), InDoubt::default());
        RedisStore { topology, durability, kill_lists, in_doubt, extras }.ready(lazy).await
    }

    async fn ready(self, lazy: bool) -> Result<Arc<RedisStore>> {
        if !lazy && self.durability != Durability::Primary {
            self.topology.probe_acks().await?;
        }
        Ok(Arc::new(self))
    }

    /// Whether a server refused to end connections that were given up, when it was last asked: then a command that got no reply
    /// may still run after newer ones.
    pub(crate) fn is_kill_refused(&self) -> bool {
        self.kill_lists.as_ref().is_some_and(|lists| lists.is_refused())
    }

    /// Permits of a plain semaphore have no lease that would end what an acquisition takes that arrives after this. Where its
    /// connection cannot be ended, the server is told to refuse it. Whether it can is known when this was sent.
    async fn give_up_permits(&self, claim: &Claim) -> Result<Released> {
        let mut released = Ok(Released::NotHeld);
        if !self.is_kill_refused() {
            let call = holders::leaving(permits::release(claim), claim);
            released = exclusive::released(self.run(claim.kind, &claim.name, call).await?);
        }
        if self.is_kill_refused() {
            let call = holders::leaving(permits::give_up_for_good(claim), claim);
            let again = exclusive::released(self.run(claim.kind, &claim.name, call).await?);
            if !matches!(released, Ok(Released::Freed { .. })) {
                released = again;
            }
        }
        self.in_doubt.remove(claim.owner);
        released
    }

    /// A step that takes a hold anew: where acquisitions must be acknowledged, this one must.
    fn taking(&self, call: Call) -> Call {
        match self.durability {
            Durability::Primary => call,
            Durability::Acks(_) => call.acknowledged(),
        }
    }

    /// Runs a step about `name`, which must be one that can be used here.
    async fn run(&self, what: ClaimKind, name: &str, call: Call) -> Result<Value> {
        self.topology.check(what, name)?;
        self.topology.run(name, call).await
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("topology", &self.topology)
            .field("kill_refused", &self.is_kill_refused())
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn place(&self) -> String {
        self.topology.place()
    }

    fn failure_domain(&self, name: &str) -> usize {
        self.topology.failure_domain(name)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::new().with_durability(self.durability)
    }

    fn term(&self) -> u64 {
        self.topology.term()
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async move {
            let (call, decode) = by_kind::acquire(claim);
            let call = holders::taking(call, claim);
            // What passes on in this process is not acknowledged anew, see `pass_on` of the engine; an open latch is nobody's.
            let call = match claim.kind {
                ClaimKind::LatchOpen => call,
                _ if claim.heir_of.is_some() => call.takes(),
                _ => self.taking(call.takes()),
            };
            let reply = self.run(claim.kind, &claim.name, call).await;
            if matches!(claim.kind, ClaimKind::Permits { .. })
                && reply.as_ref().is_err_and(Error::is_in_doubt)
            {
                self.in_doubt.add(claim.owner, self.extras.env.now());
            }
            decode(claim.lease, reply?)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async move {
            if self.in_doubt.contains(claim.owner) {
                return self.give_up_permits(claim).await;
            }
            let Some(call) = by_kind::release(claim) else { return Ok(Released::NotHeld) };
            let call = holders::leaving(call, claim);
            exclusive::released(self.run(claim.kind, &claim.name, call).await?)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(self.renew_all(claims))
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let call = match claim.kind {
                ClaimKind::Fair { .. } => fair::give_up(claim),
                ClaimKind::Write { .. } => rw::give_up_write(claim),
                ClaimKind::Permits { .. } => return self.give_up_permits(claim).await.map(drop),
                _ => return self.release(claim).await.map(drop),
            };
            let call = holders::leaving(call, claim);
            self.run(claim.kind, &claim.name, call).await.map(drop)
        })
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<AttemptAll>> {
        Box::pin(async move {
            let call = multi::acquire(claims).filter(|_| self.topology.together(claims));
            match (call, claims.first()) {
                (Some(call), Some(first)) => {
                    let call = self.taking(holders::taking_all(call, claims).takes());
                    let reply = self.run(first.kind, &first.name, call).await?;
                    multi::acquired(claims, reply)
                }
                _ => Ok(AttemptAll::NotAtomic),
            }
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async move {
            let channel = by_kind::channel(claim);
            self.topology.check(claim.kind, &claim.name)?;
            self.topology.listen(&claim.name, &channel).await
        })
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let (call, decode) = by_kind::reading(what, name);
            let seen = decode(name, self.run(what, name, call).await?)?;
            Ok(self.with_surroundings(what, seen).await)
        })
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            let (_, decode) = by_kind::reading(what, name);
            let call = by_kind::force(what, name);
            let call =
                if self.extras.holder_info { holders::forcing(call, what, name) } else { call };
            decode(name, self.run(what, name, call).await?)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(
            async move { Ok(self.with_all_surroundings(self.topology.list(prefix).await?).await) },
        )
    }

    fn examine<'a>(&'a self, what: &'a Examine) -> BoxFuture<'a, Vec<Finding>> {
        Box::pin(self.examined(what))
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
            let what = match op {
                Admin::Latch(_) => ClaimKind::LatchOpen,
                _ => ClaimKind::Exclusive,
            };
            match self.run(what, name, call).await? {
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
            self.topology.check_command(&claim.name, command)?;
            let call = fenced::guarded(claim, command)?;
            fenced::guarded_reply(self.run(claim.kind, &claim.name, call).await?)
        })
    }
}
