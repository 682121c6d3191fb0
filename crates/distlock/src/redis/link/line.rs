//! One connection for commands.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;

use super::no_reply;
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::kill_list::{ClientId, KillList};
use crate::redis::refusal;
use crate::runtime::duration::rounded;
use crate::runtime::timeout::timeout_in_tokio;

/// How many commands may be under way on one connection. What is beyond waits here, where it costs no reply time-out: a
/// hundred thousand callers at once must not make a healthy server look dead.
const IN_FLIGHT: usize = 1024;

/// A use of a connection. Short-lived: whoever keeps one keeps the connection open.
#[derive(Clone)]
pub(crate) struct Line {
    connection: MultiplexedConnection,
    driver: Arc<Driver>,
    in_flight: Arc<InFlight>,
    /// How long a reply may take.
    limit: Duration,
    /// Whether what is sent takes something, see [`Line::taking`].
    takes: bool,
}

/// The task that moves the bytes. It ends, and the connection closes, when this is dropped or stopped.
struct Driver {
    /// The server's address, for errors.
    place: String,
    ended: Arc<AtomicBool>,
    task: AbortHandle,
    /// How the server knows this connection, if it said so.
    client: OnceLock<ClientId>,
    /// Where connections are noted that the server must end; none if nothing that is sent there changes anything.
    kill_list: Option<Arc<KillList>>,
}

/// How many commands are under way.
struct InFlight {
    permits: Semaphore,
    /// How many permits have been given back.
    returned: AtomicU64,
}

/// The right to send a command. Without a permit where those who have them do not give them back.
struct Turn<'a> {
    in_flight: &'a InFlight,
    permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.permit.is_some() {
            self.in_flight.returned.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A command that takes something and has no reply yet. Dropped before [`Unanswered::done`], its connection is given up.
struct Unanswered<'a>(Option<&'a Driver>);

impl Unanswered<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(driver) = self.0 {
            driver.give_up();
        }
    }
}

impl Line {
    /// A new connection, which is driven by the runtime it was made on.
    pub(super) fn new(
        connection: MultiplexedConnection,
        work: BoxFuture<'static, ()>,
        place: String,
        limit: Duration,
        kill_list: Option<Arc<KillList>>,
    ) -> Line {
        let permits = Semaphore::new(IN_FLIGHT);
        let in_flight = Arc::new(InFlight { permits, returned: AtomicU64::new(0) });
        let driver = Arc::new(Driver::start(work, place, kill_list));
        Line { connection, driver, in_flight, limit, takes: false }
    }

    /// Asks the server how it knows this connection, so that it can be told to end it. A server that does not say so is as
    /// good for everything else. How long that takes is for the caller to say.
    pub(super) async fn identify(&mut self) -> Result<()> {
        let Some(kill_list) = &self.driver.kill_list else { return Ok(()) };
        let (questions, count) = ClientId::questions();
        let replies = self.connection.send_packed_commands(&questions, 0, count).await;
        let replies = replies.map_err(|why| {
            let text = format!("the connection broke right after the login: {why}");
            Error::new(ErrorKind::Unavailable, text)
        })?;
        match ClientId::parse(&replies) {
            Some(client) => {
                drop(self.driver.client.set(client));
                kill_list.allowed();
            }
            None => kill_list.refused(),
        }
        Ok(())
    }

    /// The same connection for commands that take something. One of them whose caller leaves before its reply is there may
    /// still run, after the caller has told the server to forget it: then the connection is given up as if no reply had come.
    pub(crate) fn taking(mut self, takes: bool) -> Line {
        self.takes = takes;
        self
    }

    /// Ends the connection for everybody.
    pub(super) fn stop(&self) {
        self.driver.stop();
    }

    /// Ends the connection for everybody, and has the server end it before anything else is sent there.
    pub(crate) fn give_up(&self) {
        self.driver.give_up();
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.driver.ended.load(Ordering::Relaxed)
    }

    /// Sends one command and waits for its reply, which may be a refusal.
    pub(crate) async fn send(&mut self, command: &Cmd) -> Result<Value> {
        let in_flight = self.in_flight.clone();
        let _turn = self.turn(&in_flight).await?;
        let unanswered = Unanswered(self.takes.then_some(&*self.driver));
        let reply = self.connection.send_packed_command(command);
        let reply = timeout_in_tokio(self.limit, reply).await.unwrap_or_else(no_reply);
        unanswered.done();
        reply.inspect(|reply| self.heed(reply)).map_err(|why| self.unanswered(&why))
    }

    /// Sends several commands at once and waits for all `count` replies, any of which may be a refusal.
    pub(crate) async fn send_all(
        &mut self,
        commands: &Pipeline,
        count: usize,
    ) -> Result<Vec<Value>> {
        let in_flight = self.in_flight.clone();
        let _turn = self.turn(&in_flight).await?;
        let unanswered = Unanswered(self.takes.then_some(&*self.driver));
        let replies = self.connection.send_packed_commands(commands, 0, count);
        let replies = timeout_in_tokio(self.limit, replies).await.unwrap_or_else(no_reply);
        unanswered.done();
        let heed = |replies: &Vec<Value>| replies.iter().for_each(|reply| self.heed(reply));
        replies.inspect(heed).map_err(|why| self.unanswered(&why))
    }

    /// A server that has become a replica keeps its connections. Its name may stand for another one by now, so the next
    /// step is to look for it anew; what is under way here is still answered.
    fn heed(&self, reply: &Value) {
        if refusal::is_in(reply, &|refused| refusal::says(refused, "READONLY")) {
            self.driver.ended.store(true, Ordering::Relaxed);
        }
    }

    /// Waits for a permit for as long as permits are given back. If none is in the time of a reply, all belong to commands that
    /// nobody polls any more, and this one goes on without.
    async fn turn<'a>(&self, in_flight: &'a InFlight) -> Result<Turn<'a>> {
        let permit = match in_flight.permits.try_acquire() {
            Ok(permit) => Some(permit),
            Err(_) => self.wait_for_permit(in_flight).await,
        };
        let turn = Turn { in_flight, permit };
        match self.is_live() {
            true => Ok(turn),
            // It broke while this one waited: nothing was sent.
            false => {
                let text = format!("the connection to {} broke", self.driver.place);
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    #[cold]
    async fn wait_for_permit<'a>(&self, in_flight: &'a InFlight) -> Option<SemaphorePermit<'a>> {
        let mut permit = pin!(in_flight.permits.acquire());
        loop {
            let before = in_flight.returned.load(Ordering::Relaxed);
            match tokio::time::timeout(self.limit, &mut permit).await {
                Ok(permit) => return permit.ok(),
                Err(_) if in_flight.returned.load(Ordering::Relaxed) == before => return None,
                Err(_) => {}
            }
        }
    }

    /// No reply: the connection is given up, because a half-open one would swallow every later command as well. Whether
    /// the command was written cannot be known here; a connection known to be dead is not used in the first place. It may
    /// even be on its way still, so the server must end the connection before anything else is sent there.
    #[cold]
    fn unanswered(&self, why: &RedisError) -> Error {
        self.driver.give_up();
        let (place, limit) = (&self.driver.place, rounded(self.limit));
        let what = match why.is_timeout() {
            true => format!("no reply from {place} within {limit:?}"),
            false => format!("the connection to {place} broke"),
        };
        Error::new(
            ErrorKind::Indeterminate,
            format!("{what}: the operation may or may not have been applied"),
        )
        .with_source(why.clone())
    }
}

impl Driver {
    fn start(
        work: BoxFuture<'static, ()>,
        place: String,
        kill_list: Option<Arc<KillList>>,
    ) -> Driver {
        /// Also set when the runtime is dropped with the task in it.
        struct Ends(Arc<AtomicBool>);
        impl Drop for Ends {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let ended = Arc::new(AtomicBool::new(false));
        let ends = Ends(ended.clone());
        let task = tokio::spawn(async move {
            let _ends = ends;
            work.await;
        });
        Driver { place, ended, task: task.abort_handle(), client: OnceLock::new(), kill_list }
    }

    #[cold]
    fn give_up(&self) {
        // In this order: one that is on the list is never taken for live.
        self.stop();
        if let Some(kill_list) = &self.kill_list {
            kill_list.add(self.client.get());
        }
    }

    fn stop(&self) {
        // Now, not when the task gets to it: the next caller must not find this connection live.
        self.ended.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
