//! Connections for commands: one per runtime, made on demand, replaced when they break.
//!
//! A connection's driver lives on the runtime that polls the call, so a command crosses no threads; the watchdog and the
//! library's own thread get connections of their own by the same rule.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, SendError};
use redis::{Cmd, Pipeline, PushInfo, RedisError, Value};
use tokio::runtime::{Handle, Id};
use tokio::sync::{Mutex, Semaphore, SemaphorePermit};
use tokio::task::AbortHandle;

use super::connect::Dial;
use super::in_time::in_time;
use super::refusal;
use crate::error::{Error, ErrorKind, Result};

/// All connections for commands to one server.
pub(crate) struct Links {
    dial: Arc<Dial>,
    slots: RwLock<Vec<Slot>>,
    closed: AtomicBool,
}

/// What one runtime has.
struct Slot {
    runtime: Id,
    line: Option<Line>,
    gate: Arc<Gate>,
}

/// Lets one caller at a time connect; those who waited through a failed attempt share its error.
#[derive(Default)]
struct Gate {
    begun: AtomicU64,
    /// The last attempt that failed, by number.
    failed: Mutex<Option<(u64, Error)>>,
}

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

impl Links {
    pub(crate) fn new(dial: Arc<Dial>) -> Links {
        Links { dial, slots: RwLock::default(), closed: AtomicBool::new(false) }
    }

    pub(crate) fn target(&self) -> &super::target::Target {
        &self.dial.target
    }

    pub(crate) fn dial(&self) -> &Dial {
        &self.dial
    }

    /// The server, in words for people.
    pub(crate) fn place(&self) -> String {
        self.dial.target.to_string()
    }

    /// Nobody is to use this server any more: its connections end now, and no new ones are made.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let slots =
            std::mem::take(&mut *self.slots.write().unwrap_or_else(PoisonError::into_inner));
        slots.iter().filter_map(|slot| slot.line.as_ref()).for_each(|line| line.driver.stop());
    }

    /// The error for a server that is not to be used any more.
    fn open(&self) -> Result<()> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Unavailable, "another server has taken its place")),
        }
    }

    /// The calling runtime's connection; makes one if there is none, within the reply time-out.
    pub(crate) async fn line(&self) -> Result<Line> {
        let runtime = current()?;
        self.open()?;
        match self.live(runtime) {
            Some(line) => Ok(line),
            None => self.connect(runtime, self.dial.reply_timeout).await,
        }
    }

    /// Makes sure there is a connection, within `limit`.
    pub(crate) async fn warm_up(&self, limit: Duration) -> Result<()> {
        self.connect(current()?, limit).await.map(drop)
    }

    fn live(&self, runtime: Id) -> Option<Line> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let line = slots.iter().find(|slot| slot.runtime == runtime)?.line.as_ref()?;
        line.is_live().then(|| line.clone())
    }

    async fn connect(&self, runtime: Id, limit: Duration) -> Result<Line> {
        let gate = self.gate(runtime);
        let env = self.dial.env.clone();
        tokio::select! {
            biased;
            opened = self.connect_once(runtime, &gate) => opened,
            () = env.sleep_apart(env.now().after(limit)) => Err(self.dial.too_slow(limit)),
        }
    }

    async fn connect_once(&self, runtime: Id, gate: &Gate) -> Result<Line> {
        let before = gate.begun.load(Ordering::Relaxed);
        let mut failed = gate.failed.lock().await;
        if let Some(line) = self.live(runtime) {
            return Ok(line);
        }
        // An attempt that began after this caller came is as good as one of its own. Without this rule, a thousand
        // callers would try a dead server one after the other.
        if let Some((attempt, error)) = &*failed
            && *attempt > before
        {
            return Err(error.clone());
        }
        let attempt = gate.begun.fetch_add(1, Ordering::Relaxed) + 1;
        match self.dial.open(None::<Deaf>, None).await {
            Ok((connection, work)) => {
                let driver = Arc::new(Driver::start(work));
                let in_flight = Arc::new(Semaphore::new(IN_FLIGHT));
                let limit = self.dial.reply_timeout;
                let line = Line { connection, driver, in_flight, limit };
                if self.install(runtime, line.clone()) {
                    self.dial.reconnected();
                }
                // It may have been closed before this connection was there to be ended.
                self.open()?;
                Ok(line)
            }
            Err(error) => {
                *failed = Some((attempt, error.clone()));
                Err(error)
            }
        }
    }

    /// The runtime's gate. A good moment to forget runtimes that are gone.
    fn gate(&self, runtime: Id) -> Arc<Gate> {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|slot| {
            slot.runtime == runtime
                || slot.line.as_ref().is_some_and(Line::is_live)
                || Arc::strong_count(&slot.gate) > 1
        });
        match slots.iter().find(|slot| slot.runtime == runtime) {
            Some(slot) => slot.gate.clone(),
            None => {
                let gate = Arc::<Gate>::default();
                slots.push(Slot { runtime, line: None, gate: gate.clone() });
                gate
            }
        }
    }

    /// Whether it replaced an earlier connection.
    fn install(&self, runtime: Id, line: Line) -> bool {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        match slots.iter_mut().find(|slot| slot.runtime == runtime) {
            Some(slot) => slot.line.replace(line).is_some(),
            // Not to be expected, as the caller keeps the gate; the line then serves this one call.
            None => false,
        }
    }
}

impl fmt::Debug for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Links")
            .field("target", &self.dial.target)
            .field("runtimes", &slots.len())
            .finish()
    }
}

pub(super) fn current() -> Result<Id> {
    match Handle::try_current() {
        Ok(here) => Ok(here.id()),
        Err(_) => Err(Error::new(ErrorKind::Unavailable, "not called from within a tokio runtime")),
    }
}

impl Line {
    fn is_live(&self) -> bool {
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
    fn start(work: crate::env::BoxFuture<'static, ()>) -> Driver {
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

/// Hears nothing: connections for commands get no pushes.
struct Deaf;

impl redis::aio::AsyncPushSender for Deaf {
    fn send(&self, _: PushInfo) -> std::result::Result<(), SendError> {
        Ok(())
    }
}
