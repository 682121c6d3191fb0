//! The task behind the subscriptions: makes what the server knows equal to what is wanted, on a connection that it
//! replaces when it breaks.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, RedisWrite, ToRedisArgs};

use super::registry::Plan;
use super::sharded;
use super::{Ear, Shared};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind};
use crate::locks::config;
use crate::redis::connect::Opened;
use crate::redis::link::no_reply;
use crate::redis::refusal;
use crate::runtime::timeout::timeout_in_tokio;

/// How many channels one SUBSCRIBE names: the server answers each one, and should get to other clients in between.
const CHUNK: usize = 500;

/// How many such commands wait for their answers at a time. Each has the reply time-out to itself from when it is sent; a
/// hundred thousand channels sent at once could never be acknowledged within it.
const AT_ONCE: usize = 8;

/// After this much silence the server is asked whether it is still there; a connection can die without a word.
const SILENCE: Duration = Duration::from_secs(2);

/// Runs until the hub is gone.
pub(super) async fn run(shared: Arc<Shared>) {
    /// If the runtime dies with this task in it, the next listener starts another.
    struct Serving(Arc<Shared>);
    impl Drop for Serving {
        fn drop(&mut self) {
            let mut registry = self.0.registry();
            registry.served = false;
            registry.disconnected();
        }
    }
    let serving = Serving(shared.clone());
    let mut closing = pin!(shared.closing.notified());
    let mut work = pin!(keep_connected(&serving.0));
    poll_fn(|cx| match closing.as_mut().poll(cx) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => work.as_mut().poll(cx),
    })
    .await;
}

async fn keep_connected(shared: &Arc<Shared>) {
    let dial = &shared.dial;
    let mut connected_before = false;
    let mut pause = config::RETRY_FIRST;
    loop {
        while shared.registry().is_empty() {
            shared.changed.notified().await;
        }
        let opening = dial.open(Some(Ear(shared.clone())), None);
        let opened = match tokio::time::timeout(dial.reply_timeout, opening).await {
            Ok(opened) => opened,
            Err(_) => Err(dial.too_slow(dial.reply_timeout)),
        };
        let why = match opened {
            Ok(opened) => {
                shared.registry().failure = None;
                let mut service = Service::new(shared, opened, connected_before);
                let why = service.serve().await;
                connected_before = true;
                if service.worked {
                    pause = config::RETRY_FIRST;
                }
                why
            }
            Err(why) => why,
        };
        tracing::debug!(target: "distlock", error = %why, "subscriptions are down");
        if let Some(membership) = &shared.membership {
            membership.doubt.raise();
        }
        {
            let mut registry = shared.registry();
            registry.failure = Some(why);
            registry.disconnected();
        }
        // Between half and all of it, so that clients of one server do not come back in step.
        let jitter = dial.env.random() as u32 as f64 / f64::from(u32::MAX);
        let at = dial.env.now().after(pause.mul_f64(0.5 + jitter / 2.0));
        dial.env.sleep_until(at).await;
        pause = (pause * 2).min(config::RETRY_LONGEST);
    }
}

/// One connection, from its start to its end. The connection's own work is polled here, so messages reach those who
/// listen without another hop, and the connection closes when this is dropped.
struct Service<'a> {
    shared: &'a Arc<Shared>,
    connection: MultiplexedConnection,
    driver: BoxFuture<'static, ()>,
    asked: Vec<Asked>,
    /// Channels to join when those asked for are answered.
    backlog: VecDeque<Arc<[Arc<str>]>>,
    /// Tell the observer once everything is subscribed again.
    announce: bool,
    /// Whether any subscription was acknowledged.
    worked: bool,
}

/// A command under way. They are polled in order, and so sent in order.
struct Asked {
    what: What,
    answer: BoxFuture<'static, RedisResult<()>>,
}

enum What {
    Join(Arc<[Arc<str>]>),
    Leave,
    Ping,
}

enum Turn {
    Gone,
    Answered(What, RedisResult<()>),
    Changed,
    Silence,
    Resume,
}

impl<'a> Service<'a> {
    fn new(shared: &'a Arc<Shared>, (connection, driver): Opened, again: bool) -> Service<'a> {
        let (asked, backlog) = (Vec::new(), VecDeque::new());
        Service { shared, connection, driver, asked, backlog, announce: again, worked: false }
    }

    /// Returns why the connection cannot be used any more.
    async fn serve(&mut self) -> Error {
        let shared = self.shared;
        shared.hear();
        let mut silence: Option<BoxFuture<'static, ()>> = None;
        let mut later: Option<BoxFuture<'static, ()>> = None;
        loop {
            let plan = shared.registry().plan();
            self.ask(plan);
            // Nobody to hear for, nothing to watch over: an idle connection costs no timer.
            if shared.registry().is_empty() {
                silence = None;
            } else if silence.is_none() {
                silence = Some(shared.dial.env.sleep_until(shared.last_heard().after(SILENCE)));
            }
            if later.is_none() && shared.registry().has_put_off() {
                let at = shared.dial.env.now().after(sharded::PUT_OFF);
                later = Some(shared.dial.env.sleep_until(at));
            }
            let mut changed = pin!(shared.changed.notified());
            let turn = poll_fn(|cx| {
                if let Poll::Ready(turn) = self.poll(cx) {
                    return Poll::Ready(turn);
                }
                if changed.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Turn::Changed);
                }
                if let Some(later) = &mut later
                    && later.as_mut().poll(cx).is_ready()
                {
                    return Poll::Ready(Turn::Resume);
                }
                match &mut silence {
                    Some(silence) => silence.as_mut().poll(cx).map(|()| Turn::Silence),
                    None => Poll::Pending,
                }
            })
            .await;
            match turn {
                Turn::Gone => {
                    let what = format!("{} closed the connection", shared.dial.target);
                    return Error::new(ErrorKind::Unavailable, what);
                }
                Turn::Answered(what, answer) => {
                    if let Err(why) = self.take(what, answer) {
                        return why;
                    }
                }
                Turn::Changed => {}
                Turn::Resume => {
                    later = None;
                    shared.registry().resume();
                }
                Turn::Silence => {
                    silence = None;
                    if shared.dial.env.now() >= shared.last_heard().after(SILENCE) {
                        self.ping();
                        // Ask again only after as much silence again.
                        shared.hear();
                    }
                }
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Turn> {
        for i in 0..self.asked.len() {
            if let Poll::Ready(answer) = self.asked[i].answer.as_mut().poll(cx) {
                return Poll::Ready(Turn::Answered(self.asked.remove(i).what, answer));
            }
        }
        self.driver.as_mut().poll(cx).map(|()| Turn::Gone)
    }

    fn ask(&mut self, plan: Plan) {
        for names in plan.leave.chunks(CHUNK) {
            let answer = self.leave(names.into());
            self.send(What::Leave, answer);
        }
        // A join that waits here may be sent after a later leave, but never of the same channel: a channel is not left
        // before its join is answered.
        self.backlog.extend(plan.join.chunks(CHUNK).map(Arc::from));
        while self.joining() < AT_ONCE
            && let Some(names) = self.backlog.pop_front()
        {
            self.join(names);
        }
    }

    fn joining(&self) -> usize {
        self.asked.iter().filter(|asked| matches!(asked.what, What::Join(_))).count()
    }

    fn leave(&self, names: Arc<[Arc<str>]>) -> BoxFuture<'static, RedisResult<()>> {
        let mut connection = self.connection.clone();
        if self.shared.is_sharded() {
            return Box::pin(sharded::leave(connection, names));
        }
        Box::pin(async move { connection.unsubscribe(Names(names)).await })
    }

    fn join(&mut self, names: Arc<[Arc<str>]>) {
        let mut connection = self.connection.clone();
        let answer: BoxFuture<'static, RedisResult<()>> = if self.shared.is_sharded() {
            Box::pin(sharded::join(connection, self.shared.clone(), names.clone()))
        } else {
            let args = Names(names.clone());
            Box::pin(async move { connection.subscribe(args).await })
        };
        self.send(What::Join(names), answer);
    }

    fn ping(&mut self) {
        let mut connection = self.connection.clone();
        let is_sharded = self.shared.is_sharded();
        let answer: Pin<Box<_>> = Box::pin(async move {
            // Any answer is a sign of life, a refusal as well.
            let pong = connection.send_packed_command(&redis::cmd("PING")).await?;
            if is_sharded { sharded::checked(&pong) } else { Ok(()) }
        });
        self.send(What::Ping, answer);
    }

    fn send(&mut self, what: What, answer: BoxFuture<'static, RedisResult<()>>) {
        let limit = self.shared.dial.reply_timeout;
        let answer = async move { timeout_in_tokio(limit, answer).await.unwrap_or_else(no_reply) };
        let answer = Box::pin(answer);
        self.asked.push(Asked { what, answer });
    }

    /// An error ends the connection.
    fn take(&mut self, what: What, answer: RedisResult<()>) -> Result<(), Error> {
        let shared = self.shared;
        let why = match answer {
            Ok(()) => None,
            Err(why) if why.is_io_error() || why.kind() == redis::ErrorKind::Parse => {
                let what = format!("the connection to {} broke: {why}", shared.dial.target);
                return Err(Error::new(ErrorKind::Unavailable, what));
            }
            Err(why) => Some(refusal::of_redis(&why)),
        };
        match (what, why) {
            (What::Join(names), None) => {
                self.worked = true;
                // A topic is woken at every acknowledgement: whoever lost a message with the last connection looks now.
                // Of sharded channels each is acknowledged by itself, when the server says so.
                if !shared.is_sharded() {
                    let topics = shared.registry().joined(&names);
                    topics.iter().for_each(|topic| topic.wake());
                }
                let done = self.joining() == 0 && self.backlog.is_empty();
                if self.announce && done && shared.registry().is_settled() {
                    self.announce = false;
                    shared.dial.reconnected();
                }
                Ok(())
            }
            // The server refuses the whole command for one channel that we may not hear: find out which it is.
            (What::Join(names), Some(why)) if why.kind() == ErrorKind::Config => {
                if let [_] = *names {
                    let topics = shared.registry().refused(&names, why);
                    topics.iter().for_each(|topic| topic.wake());
                } else {
                    let (one, other) = names.split_at(names.len() / 2);
                    self.join(one.into());
                    self.join(other.into());
                }
                Ok(())
            }
            (What::Join(_), Some(why)) => Err(why),
            (What::Leave | What::Ping, _) => Ok(()),
        }
    }
}

/// Channel names as arguments.
struct Names(Arc<[Arc<str>]>);

impl ToRedisArgs for Names {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        self.0.iter().for_each(|name| out.write_arg(name.as_bytes()));
    }

    fn num_of_args(&self) -> usize {
        self.0.len()
    }
}
