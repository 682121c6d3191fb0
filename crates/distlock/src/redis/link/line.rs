//! One connection for commands.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, Value};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;

use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::in_time::in_time;
use crate::redis::refusal;

/// How many commands may be under way on one connection. What is beyond waits here, where it costs no reply time-out: a
/// hundred thousand callers at once must not make a healthy server look dead.
const IN_FLIGHT: usize = 1024;

/// A use of a connection. Short-lived: whoever keeps one keeps the connection open.
#[derive(Clone)]
pub(crate) struct Line {
    connection: MultiplexedConnection,
    driver: Arc<Driver>,
    in_flight: Arc<Semaphore>,
    /// How long a reply may take.
    limit: Duration,
}

/// The task that moves the bytes. It ends, and the connection closes, when this is dropped or stopped.
struct Driver {
    ended: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Line {
    /// A new connection, which is driven by the runtime it was made on.
    pub(super) fn new(
        connection: MultiplexedConnection,
        work: BoxFuture<'static, ()>,
        limit: Duration,
    ) -> Line {
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
        Line { connection, driver: Arc::new(Driver::start(work)), in_flight, limit }
    }

    /// Ends the connection for everybody.
    pub(super) fn stop(&self) {
        self.driver.stop();
    }

    pub(super) fn is_live(&self) -> bool {
        !self.driver.ended.load(Ordering::Relaxed)
    }

    /// Sends one command and waits for its reply, which may be a refusal.
    pub(crate) async fn send(&mut self, command: &Cmd) -> Result<Value> {
        let in_flight = self.in_flight.clone();
        let _turn = self.turn(&in_flight).await?;
        let reply = in_time(self.limit, self.connection.send_packed_command(command)).await;
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
        let replies = self.connection.send_packed_commands(commands, 0, count);
        let replies = in_time(self.limit, replies).await;
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

    async fn turn<'a>(&self, in_flight: &'a Semaphore) -> Result<SemaphorePermit<'a>> {
        match in_flight.acquire().await {
            Ok(turn) if self.is_live() => Ok(turn),
            // It broke while this one waited: nothing was sent.
            _ => Err(Error::new(ErrorKind::Unavailable, "the connection broke")),
        }
    }

    /// No reply: the connection is given up, because a half-open one would swallow every later command as well. Whether
    /// the command was written cannot be known here; a connection known to be dead is not used in the first place.
    #[cold]
    fn unanswered(&self, why: &RedisError) -> Error {
        self.driver.stop();
        let what = if why.is_timeout() { "no reply in time" } else { "the connection broke" };
        Error::new(
            ErrorKind::Indeterminate,
            format!("{what}: the step may or may not have happened"),
        )
        .with_source(why.clone())
    }
}

impl Driver {
    fn start(work: BoxFuture<'static, ()>) -> Driver {
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
        Driver { ended, task: task.abort_handle() }
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
