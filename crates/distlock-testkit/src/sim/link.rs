//! The store of a simulated process: each operation is a request over one of the process's connections.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use distlock::env::BoxFuture;
use distlock::store::{
    Admin, Attempt, AttemptAll, Claim, ClaimKind, Listener, Released, Renewed, Snapshot, Store,
    Topic,
};
use distlock::{Error, ErrorKind, Result};

use super::message::{Answer, Request};
use super::network::{Sent, Unsent, World};

/// The lane of the caller's runtime, and that of the watchdog.
const CALLERS: usize = 0;
const LIBRARY: usize = 1;
const WATCHDOG: usize = 2;

/// A store over the simulated network.
pub(super) struct SimStore {
    world: Arc<World>,
    process: usize,
}

/// A request under way. A connection whose acquire is not waited for any more is given up, as the Redis store does: the request may
/// arrive after what follows from giving it up.
struct InFlight<'a> {
    store: &'a SimStore,
    connection: usize,
    takes: bool,
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if self.takes {
            self.store.world.give_up(self.connection);
        }
    }
}

impl SimStore {
    pub(super) fn new(world: Arc<World>, process: usize) -> SimStore {
        SimStore { world, process }
    }

    async fn call(&self, lane: usize, request: Request) -> Result<Answer> {
        let takes = matches!(request, Request::Acquire(_) | Request::AcquireAll(_));
        let Sent { connection, answer, .. } = match self.world.send(self.process, lane, request) {
            Ok(sent) => sent,
            Err(Unsent::Dead) => pending().await,
            Err(Unsent::Unreachable(after)) => {
                tokio::time::sleep(Duration::from_millis(after)).await;
                return Err(Error::new(ErrorKind::Unavailable, "the server cannot be reached"));
            }
        };
        let mut in_flight = InFlight { store: self, connection, takes };
        let answer = tokio::time::timeout(self.world.reply_timeout(), answer).await;
        in_flight.takes = false;
        let why = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(_)) => "the connection broke",
            Err(_) => {
                self.world.give_up(connection);
                "no reply in time"
            }
        };
        Err(Error::new(ErrorKind::Indeterminate, why))
    }

    /// Which connection a request takes: most that of the caller's runtime, some that of the library's own threads.
    fn lane(&self, claim: &Claim) -> usize {
        if claim.heir_of.is_some() { LIBRARY } else { CALLERS }
    }

    fn unexpected() -> Error {
        Error::new(ErrorKind::Conflict, "BUG: the simulated server answered another question")
    }
}

macro_rules! answer {
    ($answer:expr, $variant:ident) => {
        match $answer? {
            Answer::$variant(answer) => answer,
            _ => Err(SimStore::unexpected()),
        }
    };
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimStore").field("process", &self.process).finish_non_exhaustive()
    }
}

/// One listener, which ends its subscription.
struct Subscribed {
    world: Arc<World>,
    process: usize,
    number: u64,
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.world.unsubscribe(self.process, self.number);
    }
}

impl Store for SimStore {
    fn place(&self) -> String {
        "sim:".into()
    }

    fn term(&self) -> u64 {
        self.world.term(self.process)
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(async {
            answer!(self.call(self.lane(claim), Request::Acquire(claim.clone())).await, Attempt)
        })
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(async {
            answer!(self.call(LIBRARY, Request::Release(claim.clone())).await, Released)
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(async {
            match self.call(WATCHDOG, Request::Renew(claims.to_vec())).await {
                Ok(Answer::Renewed(renewed)) => renewed,
                Ok(_) => claims.iter().map(|_| Err(SimStore::unexpected())).collect(),
                Err(error) => claims.iter().map(|_| Err(error.clone())).collect(),
            }
        })
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async { answer!(self.call(LIBRARY, Request::GiveUp(claim.clone())).await, Done) })
    }

    fn acquire_all<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Result<AttemptAll>> {
        Box::pin(async {
            answer!(self.call(CALLERS, Request::AcquireAll(claims.to_vec())).await, AttemptAll)
        })
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async {
            let waiter = matches!(claim.kind, ClaimKind::Fair { .. }).then_some(claim.owner);
            let topic = Arc::<Topic>::default();
            let (world, process) = (self.world.clone(), self.process);
            let (number, told) =
                world.subscribe(process, claim.name.clone(), waiter, topic.clone());
            let limit = world.reply_timeout();
            let listener = Listener::new(topic, Subscribed { world, process, number });
            match tokio::time::timeout(limit, told).await {
                Ok(_) => Ok(listener),
                Err(_) => {
                    let text = "the subscription was not acknowledged in time";
                    Err(Error::new(ErrorKind::Unavailable, text))
                }
            }
        })
    }

    fn inspect<'a>(&'a self, _: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async {
            answer!(self.call(CALLERS, Request::Inspect(name.to_owned())).await, Seen)
        })
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(async move {
            answer!(self.call(CALLERS, Request::Force(what, name.to_owned())).await, Seen)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(async {
            match self.call(CALLERS, Request::List(prefix.to_owned())).await? {
                Answer::Listed(all) => Ok(all),
                _ => Err(SimStore::unexpected()),
            }
        })
    }

    fn admin<'a>(&'a self, name: &'a str, op: &'a Admin) -> BoxFuture<'a, Result<i64>> {
        Box::pin(async {
            let request = Request::Admin(name.to_owned(), op.clone());
            answer!(self.call(CALLERS, request).await, Number)
        })
    }
}
