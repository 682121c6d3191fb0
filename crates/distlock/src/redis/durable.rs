//! Acquisitions that count only when replicas have them: the script, and `WAIT` behind it.
//!
//! `WAIT` is about what its own connection wrote, and keeps that connection busy until it is answered. So these go over a
//! connection of their own, where no release and no renewal stands behind them, and one group at a time: whoever comes
//! meanwhile is in the next one, and one `WAIT` is for all of a group.
//!
//! ```text
//! one write    EVALSHA a · EVALSHA b · EVALSHA c · WAIT 1 500
//! replies      won         busy        won         1
//!              until WAIT  at once     until WAIT
//! ```
//! While replicas do not answer in time, `WAIT` is sent only after somebody has won: those who find a lock busy need not wait
//! for a replica that is gone.

#[cfg(test)]
mod tests;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, ServerError, Value};
use tokio::runtime::Id;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::call::{Bundle, Call, is_unknown_script};
use super::connect::Dial;
use super::link::{Line, Links, current};
use super::refusal;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;
use crate::locks::config;
use crate::runtime::duration::rounded;

/// How many acquisitions one `WAIT` is for at most. Their scripts run one after the other before it, within the reply time-out.
const GROUP: usize = 256;

/// Where acquisitions go that replicas of one server must acknowledge.
pub(crate) struct Durable {
    server: Arc<Server>,
    env: Arc<dyn Env>,
    /// How long an answer may take: a group before, a connection, the scripts and the replicas.
    limit: Duration,
    /// One per runtime, as connections are.
    desks: Mutex<Vec<(Id, UnboundedSender<Job>)>>,
}

struct Server {
    links: Links,
    acks: u32,
    timeout: Duration,
    /// It has answered to `WAIT`.
    known: AtomicBool,
}

/// An acquisition that somebody waits for.
struct Job {
    call: Call,
    asking: bool,
    answer: oneshot::Sender<Result<Value>>,
    passage: Arc<Passage>,
}

/// How far a job has come, for the desk and for the caller, who may be on different threads.
#[derive(Default)]
struct Passage(Mutex<Stage>);

#[derive(Default)]
enum Stage {
    #[default]
    Waiting,
    /// It was written to this connection, or is about to be.
    Sent(Line),
    /// It has been answered, or its caller has left.
    Over,
}

impl Passage {
    /// False if the caller has left: it must not be sent any more.
    fn board(&self, line: &Line) -> bool {
        let mut stage = self.stage();
        let waits = !matches!(*stage, Stage::Over);
        if waits {
            *stage = Stage::Sent(line.clone());
        }
        waits
    }

    fn end(&self) -> Stage {
        std::mem::replace(&mut *self.stage(), Stage::Over)
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The caller of a job. If it leaves while the job is under way, what the job takes must not be taken any more once the server is
/// told to forget it: the connection is given up.
struct Caller(Arc<Passage>);

impl Drop for Caller {
    fn drop(&mut self) {
        if let Stage::Sent(line) = self.0.end() {
            line.give_up();
        }
    }
}

impl Durable {
    /// `None` if the server's own word is enough.
    pub(crate) fn new(dial: &Arc<Dial>) -> Option<Durable> {
        let Durability::Acks(acks) = dial.durability else { return None };
        let (links, timeout) = (Links::new(dial.clone()), config::ack_timeout(dial.reply_timeout));
        let server = Server { links, acks, timeout, known: AtomicBool::new(false) };
        let (env, limit) = (dial.env.clone(), dial.reply_timeout * 4);
        Some(Durable { server: Arc::new(server), env, limit, desks: Mutex::default() })
    }

    /// Whether the server can be asked what replicas have. How many there are now does not matter: they come and go.
    pub(crate) async fn probe(&self) -> Result<()> {
        let links = &self.server.links;
        links.warm_up(config::COMMAND_TIMEOUT).await?;
        self.server.probe(&mut links.line().await?).await
    }

    /// Nobody is to use this server any more.
    pub(crate) fn close(&self) {
        self.server.links.close();
    }

    /// Runs a script. The reply of one that takes nothing comes at once; of one that does, when enough replicas have it. If
    /// too few have it in time the error is `NotDurable`, and what was taken stands.
    pub(crate) async fn ask(&self, call: &Call, asking: bool) -> Result<Value> {
        let (answer, answered) = oneshot::channel();
        let caller = Caller(Arc::default());
        let job = Job { call: call.clone(), asking, answer, passage: caller.0.clone() };
        if self.desk()?.send(job).is_err() {
            return Err(Error::new(ErrorKind::Unavailable, "the runtime is shutting down"));
        }
        let unknown = |why: &str| {
            let text = format!("{why}: the operation may or may not have been applied");
            Err(Error::new(ErrorKind::Indeterminate, text))
        };
        // The desk is served by a runtime that may stand still, if nobody blocks on it any more.
        tokio::select! {
            biased;
            answer = answered => {
                answer.unwrap_or_else(|_| unknown("the tokio runtime that served it has ended"))
            }
            () = self.env.sleep_in_background(self.env.now().after(self.limit)) => {
                let (place, limit) = (self.server.links.place(), rounded(self.limit));
                unknown(&format!("no reply from {place} within {limit:?}"))
            }
        }
    }

    /// Where the calling runtime's acquisitions are handed in.
    fn desk(&self) -> Result<UnboundedSender<Job>> {
        let runtime = current()?;
        let mut desks = self.desks.lock().unwrap_or_else(PoisonError::into_inner);
        desks.retain(|(_, desk)| !desk.is_closed());
        if let Some((_, desk)) = desks.iter().find(|(at, _)| *at == runtime) {
            return Ok(desk.clone());
        }
        let (desk, jobs) = unbounded_channel();
        tokio::spawn(serve(self.server.clone(), jobs));
        desks.push((runtime, desk.clone()));
        Ok(desk)
    }
}

/// Serves a desk until the node is gone.
async fn serve(server: Arc<Server>, mut jobs: UnboundedReceiver<Job>) {
    let mut group = Vec::new();
    let mut prompt = true;
    while jobs.recv_many(&mut group, GROUP).await > 0 {
        // Who has left has told the store to forget it: it must not be asked for after that.
        group.retain(Job::is_awaited);
        if !group.is_empty()
            && let Err(error) = server.decide(&mut group, &mut prompt).await
        {
            group.drain(..).for_each(|job| job.tell(Err(error.clone())));
        }
    }
}

impl Server {
    /// Runs a group and answers everybody in it; whoever is left in it shares the error.
    async fn decide(&self, group: &mut Vec<Job>, prompt: &mut bool) -> Result<()> {
        let mut line = self.links.line().await?.taking(true);
        if !self.known.load(Ordering::Relaxed) {
            self.probe(&mut line).await?;
        }
        // Somebody may have left while the connection was made.
        group.retain(|job| job.is_awaited() && job.passage.board(&line));
        if group.is_empty() {
            return Ok(());
        }
        let mut bundle = Bundle::default();
        group.iter().for_each(|job| bundle.add(&job.call, job.asking, false));
        let (mut first, mut second) = (line.clone(), line.clone());
        let (mut ran, mut waited) = (pin!(bundle.send(&mut first)), pin!(self.wait(&mut second)));
        let (ahead, mut early) = (*prompt, None);
        let replies = poll_fn(|cx| {
            let replies = ran.as_mut().poll(cx);
            if ahead
                && early.is_none()
                && let Poll::Ready(acks) = waited.as_mut().poll(cx)
            {
                early = Some(acks);
            }
            replies
        });
        let replies = replies.await?;
        let ahead = async {
            match early {
                Some(acks) => Some(acks),
                None if ahead => Some(waited.await),
                None => None,
            }
        };
        let done = self.settle(group, replies, ahead, &mut line).await;
        *prompt = matches!(done, Ok(true));
        // Scripts have run: whatever failed after that, they may have taken something.
        done.map(drop).map_err(|error| match error.is_in_doubt() {
            true => error,
            false => in_doubt(&error),
        })
    }

    /// Answers everybody who has taken nothing, then, when replicas have answered, everybody else. False if they did not in
    /// time. `ahead` is what came of the `WAIT` that went along, if one did.
    async fn settle(
        &self,
        group: &mut Vec<Job>,
        mut replies: Vec<Value>,
        ahead: impl Future<Output = Option<Result<Value>>>,
        line: &mut Line,
    ) -> Result<bool> {
        let loaded = self.load(group, &mut replies, line).await?;
        // From the back, so that those who go leave the others in their places.
        let mut won = Vec::new();
        for at in (0..group.len()).rev() {
            match took(&replies[at]) {
                true => won.push(std::mem::take(&mut replies[at])),
                false => group.remove(at).tell(Ok(std::mem::take(&mut replies[at]))),
            }
        }
        // Also if nobody has won: what is sent next would stand behind it.
        let mut acks = ahead.await;
        if !won.is_empty() && (loaded || acks.is_none()) {
            acks = Some(self.wait(line).await);
        }
        let Some(acks) = acks.transpose()? else { return Ok(false) };
        let enough = self.enough(acks);
        let prompt = enough.is_ok();
        for (job, reply) in group.drain(..).zip(won.into_iter().rev()) {
            job.tell(enough.clone().map(|()| reply));
        }
        Ok(prompt)
    }

    /// Runs those whose script the server did not know again, with it. True if there were some: they come after a `WAIT` that
    /// is under way.
    async fn load(&self, group: &[Job], replies: &mut [Value], line: &mut Line) -> Result<bool> {
        let again = |at: &usize| is_unknown_script(&replies[*at]) && group[*at].is_awaited();
        let unknown: Vec<usize> = (0..group.len()).filter(again).collect();
        if unknown.is_empty() {
            return Ok(false);
        }
        let mut bundle = Bundle::default();
        unknown.iter().for_each(|at| bundle.add(&group[*at].call, group[*at].asking, true));
        for (at, reply) in unknown.into_iter().zip(bundle.send(line).await?) {
            replies[at] = reply;
        }
        Ok(true)
    }

    async fn wait(&self, line: &mut Line) -> Result<Value> {
        line.send(Cmd::new().arg("WAIT").arg(self.acks).arg(self.timeout.as_millis().max(1) as u64))
            .await
    }

    /// Whether so many replicas have it. Whatever else the answer is, what was taken stands and must be given back.
    fn enough(&self, acks: Value) -> Result<()> {
        let (wanted, timeout) = (self.acks, self.timeout);
        let text = match acks {
            Value::Int(acks) if acks >= i64::from(wanted) => return Ok(()),
            Value::Int(acks) => {
                format!("{acks} of {wanted} replicas acknowledged the acquire within {timeout:?}")
            }
            Value::ServerError(refused) if is_replica(&refused) => {
                return Err(in_doubt(&refusal::of(&refused)));
            }
            Value::ServerError(refused) => {
                let why = refusal::of(&refused);
                format!(
                    "none of {wanted} replicas is known to have the acquire, because WAIT failed: {why}"
                )
            }
            other => refusal::nonsense("WAIT", &other).to_string(),
        };
        Err(Error::new(ErrorKind::NotDurable, format!("{text}; the lock was released again")))
    }

    async fn probe(&self, line: &mut Line) -> Result<()> {
        let reply = line.send(Cmd::new().arg("WAIT").arg(0).arg(0)).await?;
        if let Value::ServerError(refused) = &reply {
            let why = refusal::of(refused);
            let said = refused.details().unwrap_or_default();
            if refusal::is_not_now(refused.code()) || is_replica(refused) {
                return Err(Error::new(ErrorKind::Unavailable, why.to_string()));
            }
            let (place, code) = (self.links.place(), refused.code());
            let what = match code {
                "NOPERM" => "the Redis user lacks +wait: grant it, or use Durability::Primary",
                _ => {
                    "the server does not know WAIT, or a proxy refuses it: use Durability::Primary"
                }
            };
            let text = format!(
                "{place} cannot report whether its replicas have an acquire: {what} ({code} {said})"
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        self.known.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl Job {
    fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    fn tell(self, answer: Result<Value>) {
        self.passage.end();
        // Nobody there: what was taken is given back by whoever left.
        drop(self.answer.send(answer));
    }
}

/// Something may have been taken, and nobody knows what became of it.
fn in_doubt(why: &Error) -> Error {
    let text = format!("{why}: the operation may or may not have been applied");
    Error::new(ErrorKind::Indeterminate, text)
}

/// Whether it is a replica, or has just become one: what it had taken may be gone, and the next primary knows.
fn is_replica(refused: &ServerError) -> bool {
    refused.code() == "UNBLOCKED" || refused.details().is_some_and(|text| text.contains("replica"))
}

/// Whether a script has taken what it was to take: `nil`, or a fencing token, or for several a list that begins with 1.
fn took(reply: &Value) -> bool {
    match reply {
        Value::Nil | Value::BulkString(_) => true,
        Value::Array(answers) => answers.first() == Some(&Value::Int(1)),
        _ => false,
    }
}
