//! Connections for commands: one per runtime, made on demand, replaced when they break.
//!
//! A connection's driver lives on the runtime that polls the call, so a command crosses no threads; the watchdog and the
//! library's own thread get connections of their own by the same rule.

mod line;
#[cfg(test)]
mod tests;

pub(crate) use line::Line;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use std::{fmt, io};

use redis::aio::SendError;
use redis::{PushInfo, RedisResult};
use tokio::runtime::{Handle, Id};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::connect::Dial;
use super::kill_list::KillList;
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::duration::rounded;

/// The error of a command without a reply within its limit.
pub(crate) fn no_reply<T>() -> RedisResult<T> {
    Err(io::Error::from(io::ErrorKind::TimedOut).into())
}

/// All connections for commands to one server. Dropping it closes those that nobody uses.
pub(crate) struct Links(Arc<Shared>);

struct Shared {
    dial: Arc<Dial>,
    /// Connections that the server must end before anything is sent there; none at sentinels, which are only asked.
    kill_list: Option<Arc<KillList>>,
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
    /// Lets one caller at a time have connections ended at the server.
    killing: Mutex<()>,
}

impl Links {
    pub(crate) fn new(dial: Arc<Dial>) -> Links {
        let (slots, closed) = (RwLock::default(), AtomicBool::new(false));
        let kill_list = dial.kill_lists.as_ref().map(|lists| lists.of(&dial.target.endpoint));
        Links(Arc::new(Shared { dial, kill_list, slots, closed }))
    }

    pub(crate) fn target(&self) -> &super::target::Target {
        &self.0.dial.target
    }

    pub(crate) fn dial(&self) -> &Dial {
        &self.0.dial
    }

    /// The server, in words for people.
    pub(crate) fn place(&self) -> String {
        self.0.dial.target.to_string()
    }

    /// Nobody is to use this server any more: its connections end now, and no new ones are made.
    pub(crate) fn close(&self) {
        let slots = self.0.close();
        slots.iter().filter_map(|slot| slot.line.as_ref()).for_each(Line::stop);
    }

    /// The calling runtime's connection; makes one if there is none, within the reply time-out. Connections to this server
    /// that were given up, by whatever runtime, are ended there by now.
    pub(crate) async fn line(&self) -> Result<Line> {
        let runtime = current()?;
        self.0.open()?;
        let line = match self.0.live(runtime) {
            Some(line) => line,
            None => self.connect(runtime, self.0.dial.reply_timeout).await?,
        };
        match &self.0.kill_list {
            Some(list) if list.is_pending() => {
                Box::pin(self.end_given_up(runtime, list, line)).await
            }
            _ => Ok(line),
        }
    }

    /// Makes sure there is a connection, within `limit`.
    pub(crate) async fn warm_up(&self, limit: Duration) -> Result<()> {
        self.connect(current()?, limit).await.map(drop)
    }

    async fn connect(&self, runtime: Id, limit: Duration) -> Result<Line> {
        let (shared, gate) = (self.0.clone(), self.0.gate(runtime));
        let before = gate.begun.load(Ordering::Relaxed);
        let work = async move { shared.connect(runtime, &gate, before, limit).await };
        self.apart(Box::pin(work), limit).await.unwrap_or_else(|| Err(self.0.dial.too_slow(limit)))
    }

    /// Has the server end what was given up. Once for all callers of this runtime: each finds the list empty after the first.
    /// Those of other runtimes do not wait for this one, which may stand still; ending twice does no harm.
    #[cold]
    async fn end_given_up(&self, runtime: Id, list: &Arc<KillList>, line: Line) -> Result<Line> {
        let (list, gate, limit) = (list.clone(), self.0.gate(runtime), self.0.dial.reply_timeout);
        let work = async move {
            let _one = gate.killing.lock().await;
            let mut line = line;
            list.clear(&mut line).await.map(|()| line)
        };
        let ended = self.apart(Box::pin(work), limit).await;
        let ended = ended.unwrap_or_else(|| {
            let limit = rounded(limit);
            let text = format!(
                "cannot close an earlier connection, whose command got no reply, within {limit:?}"
            );
            Err(Error::new(ErrorKind::Unavailable, text))
        });
        ended.map_err(|error| error.at(&self.place()))
    }

    /// In a task of its own: a caller that is not polled for a while must not keep others from connecting. `None` if it takes
    /// longer than that.
    async fn apart(
        &self,
        work: BoxFuture<'static, Result<Line>>,
        limit: Duration,
    ) -> Option<Result<Line>> {
        let mut task = AbortOnDrop(tokio::spawn(work));
        // That runtime may stand still, and this caller be polled elsewhere. In two parts, so that after the process stood
        // still the task comes first.
        let env = &self.0.dial.env;
        let late = async {
            env.sleep_in_background(env.now().after(limit)).await;
            env.sleep_in_background(env.now().after(limit / 2)).await;
        };
        tokio::select! {
            biased;
            done = &mut task.0 => Some(done.unwrap_or_else(|why| match why.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::new(ErrorKind::Unavailable, "the runtime is shutting down")),
            })),
            () = late => None,
        }
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        // A task that connects may not be gone yet.
        drop(self.0.close());
    }
}

struct AbortOnDrop(JoinHandle<Result<Line>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Shared {
    /// What there is, to be ended; nothing is added to it from now on.
    fn close(&self) -> Vec<Slot> {
        self.closed.store(true, Ordering::Relaxed);
        std::mem::take(&mut *self.slots.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The error for a server that is not to be used any more.
    fn open(&self) -> Result<()> {
        match self.closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => {
                let text = format!("{} was replaced by another server", self.dial.target);
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    fn live(&self, runtime: Id) -> Option<Line> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        let line = slots.iter().find(|slot| slot.runtime == runtime)?.line.as_ref()?;
        line.is_live().then(|| line.clone())
    }

    async fn connect(
        &self,
        runtime: Id,
        gate: &Gate,
        before: u64,
        limit: Duration,
    ) -> Result<Line> {
        let env = &self.dial.env;
        tokio::select! {
            biased;
            opened = self.connect_once(runtime, gate, before) => opened,
            () = env.sleep_in_background(env.now().after(limit)) => Err(self.dial.too_slow(limit)),
        }
    }

    /// `before` is how many attempts had begun when the caller came.
    async fn connect_once(&self, runtime: Id, gate: &Gate, before: u64) -> Result<Line> {
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
        let opened = async {
            let (connection, work) = self.dial.open(None::<Deaf>, None).await?;
            let (limit, kill_list) = (self.dial.reply_timeout, self.kill_list.clone());
            let mut line =
                Line::new(connection, work, self.dial.target.to_string(), limit, kill_list);
            let identified = line.identify().await.map(|()| line);
            identified.map_err(|error| error.at(&self.dial.target.to_string()))
        };
        match opened.await {
            Ok(line) => {
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
        let slots = self.0.slots.read().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("Links")
            .field("target", &self.0.dial.target)
            .field("runtimes", &slots.len())
            .finish()
    }
}

pub(super) fn current() -> Result<Id> {
    match Handle::try_current() {
        Ok(here) => Ok(here.id()),
        Err(_) => Err(Error::new(
            ErrorKind::Unavailable,
            "this call needs a tokio runtime: call it inside one, or use the blocking methods",
        )),
    }
}

/// Hears nothing: connections for commands get no pushes.
struct Deaf;

impl redis::aio::AsyncPushSender for Deaf {
    fn send(&self, _: PushInfo) -> std::result::Result<(), SendError> {
        Ok(())
    }
}
