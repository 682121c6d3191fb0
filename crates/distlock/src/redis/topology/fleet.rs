//! Several servers that serve the locks between them, and may change places: a cluster, or one primary that moves, which is
//! like a cluster of one slot.
//!
//! What is the same for all stands here; where the map comes from, and what differs with it, is the [`Source`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use redis::Value;
use tokio::sync::Mutex;

use super::board::Board;
use super::keeper;
use super::map::Address;
use super::redirect::{Redirect, is_doubtful};
use super::source::{Known, Source};
use super::survey::Answer;
use super::view::{Changes, View};
use crate::error::{Error, ErrorKind, Result};
use crate::redis::call::Call;
use crate::redis::connect::Dial;
use crate::redis::node::Node;
use crate::redis::pubsub::{Doubt, Way};
use crate::store::Listener;

/// How many servers in a row may send a step elsewhere. Two are normal while a slot moves; more means that they do not agree,
/// which passes.
const HOPS: usize = 5;

/// Dropping it closes all connections.
pub(crate) struct Fleet(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) source: Source,
    /// How servers are reached, whatever its target says.
    dial: Dial,
    view: RwLock<Option<View>>,
    /// How releases are called out, known from the first survey on.
    way: OnceLock<Way>,
    /// Lets one caller at a time make the first survey; those who waited through a failed one share its error.
    first: Mutex<Option<(u64, Error)>>,
    /// How many surveys were begun.
    begun: AtomicU64,
    place: OnceLock<String>,
    /// How often a primary was replaced.
    term: AtomicU64,
    pub(super) board: Arc<Board>,
    pub(super) doubt: Arc<Doubt>,
}

impl Fleet {
    pub(crate) fn new(source: Source, dial: Dial) -> Fleet {
        Fleet(Arc::new(Shared {
            source,
            dial,
            view: RwLock::default(),
            way: OnceLock::new(),
            first: Mutex::default(),
            begun: AtomicU64::new(0),
            place: OnceLock::new(),
            term: AtomicU64::new(0),
            board: Arc::default(),
            doubt: Arc::default(),
        }))
    }

    pub(crate) fn source(&self) -> &Source {
        &self.0.source
    }

    pub(super) fn dial(&self) -> &Dial {
        &self.0.dial
    }

    pub(super) fn known(&self) -> Known {
        self.0.known()
    }

    /// Finds out who serves what now, whatever was known.
    pub(super) async fn look_again(&self) -> Result<Way> {
        let way = self.ready().await?;
        self.0.renew().await.map(|_| way)
    }

    /// Finds out who serves what, unless that is known. Says how releases are called out.
    pub(crate) async fn ready(&self) -> Result<Way> {
        match self.0.way.get() {
            Some(way) => Ok(*way),
            None => self.explore().await,
        }
    }

    #[cold]
    async fn explore(&self) -> Result<Way> {
        let shared = &self.0;
        let before = shared.begun.load(Ordering::Relaxed);
        let mut failed = shared.first.lock().await;
        if let Some(way) = shared.way.get() {
            return Ok(*way);
        }
        if let Some((survey, error)) = &*failed
            && *survey > before
        {
            return Err(error.clone());
        }
        let number = shared.next();
        let found = shared.survey().await;
        found.and_then(|answer| shared.settle(answer)).inspect_err(|error| {
            *failed = Some((number, error.clone()));
        })
    }

    /// Runs a step on the server that serves `name`.
    pub(crate) async fn run(&self, name: &str, call: Call) -> Result<Value> {
        let slot = self.0.source.slot(name);
        let way = self.ready().await?;
        let call = call.in_way(way);
        let shared = &self.0;
        let (mut node, mut asking) = (shared.serving(slot)?, false);
        for _ in 0..HOPS {
            let reply = match node.ask(&call, asking).await {
                Ok(reply) => reply,
                Err(error) => {
                    shared.doubt.raise();
                    return Err(error);
                }
            };
            match shared.source.redirect(&reply, &node) {
                None => {
                    if is_doubtful(&reply) {
                        shared.doubt.raise();
                    }
                    shared.still(&node)?;
                    return call.checked(reply);
                }
                Some(Redirect::Moved { slot, to }) => {
                    (node, asking) = (shared.moved(slot, to)?, false);
                }
                Some(Redirect::Ask { to }) => (node, asking) = (shared.at(to)?, true),
                Some(Redirect::Unknown) => break,
            }
        }
        shared.doubt.raise();
        let text =
            format!("the servers of the cluster do not agree which server serves slot {slot}");
        Err(Error::new(ErrorKind::Unavailable, text))
    }

    /// Whether acquisitions can be acknowledged by replicas, as far as one of the servers can tell.
    pub(crate) async fn probe_acks(&self) -> Result<()> {
        self.ready().await?;
        let mut answer = Ok(());
        for node in self.0.nodes() {
            answer = node.probe_acks().await;
            if !matches!(&answer, Err(error) if error.is_retryable()) {
                break;
            }
        }
        answer
    }

    /// A number that changes when a primary is replaced.
    pub(crate) fn term(&self) -> u64 {
        self.0.term.load(Ordering::Acquire)
    }

    /// A number that names share if one server serves them.
    pub(crate) fn failure_domain(&self, name: &str) -> usize {
        let view = self.0.view.read().unwrap_or_else(PoisonError::into_inner);
        let owner = view.as_ref().and_then(|view| view.owner(self.0.source.slot(name)));
        owner.unwrap_or(usize::MAX)
    }

    /// Hears what is said on a channel of the lock `name`; ready when the server that serves it has acknowledged that.
    pub(crate) async fn listen(&self, name: &str, channel: &str) -> Result<Listener> {
        let slot = self.0.source.slot(name);
        self.ready().await?;
        let shared = &self.0;
        shared.serving(slot)?;
        let (board, limit) = (&shared.board, shared.dial.reply_timeout);
        let (mut listener, first) = board.want(channel, slot, |slot| shared.serving(slot).ok());
        if first {
            shared.doubt.news.notify_one(); // now there is something to look after
        }
        loop {
            let heard = async {
                while !board.is_heard(channel)? {
                    let _ = listener.heard().await;
                }
                Ok(())
            };
            if let Ok(done) = tokio::time::timeout(limit, heard).await {
                return done.map(|()| listener);
            }
            if let Some(trouble) = board.trouble(channel, limit) {
                shared.doubt.raise();
                return Err(trouble);
            }
        }
    }

    pub(crate) fn place(&self) -> String {
        self.0.place.get().cloned().unwrap_or_else(|| self.0.source.to_string())
    }
}

impl Shared {
    /// Takes over what the first survey found.
    fn settle(self: &Arc<Self>, answer: Answer) -> Result<Way> {
        let way = self.source.way(&answer)?;
        let make = |at: &Address| self.node(at, way);
        let view = View::new(answer.map, answer.epoch, &make);
        if let Some(first) = view.first() {
            let _ = self.place.set(self.source.place(first));
        }
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Some(view);
        let _ = self.way.set(way);
        let keeper = keeper::keep(Arc::downgrade(self), self.doubt.clone(), self.dial.env.clone());
        self.dial.env.spawn_background(Box::pin(keeper));
        Ok(way)
    }

    fn node(&self, at: &Address, way: Way) -> Node {
        Node::member(self.dial.to(self.source.target(at)), way, &self.doubt)
    }

    /// The way, which is known wherever there is a view.
    fn way(&self) -> Way {
        self.way.get().copied().unwrap_or(Way::Classic)
    }

    /// The primaries.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(|view| view.nodes().to_vec()).unwrap_or_default()
    }

    pub(super) fn serving(&self, slot: u16) -> Result<Arc<Node>> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        let node = view.as_ref().and_then(|view| view.serving(slot));
        node.ok_or_else(|| {
            self.doubt.raise();
            self.source.nobody(slot)
        })
    }

    /// Refuses the answer of a server that has been replaced since it was asked: it believes in itself, and others do not.
    fn still(&self, node: &Arc<Node>) -> Result<()> {
        if !self.source.has_one() || self.serving(0).is_ok_and(|now| Arc::ptr_eq(&now, node)) {
            return Ok(());
        }
        let text = format!(
            "{} was replaced as primary before its reply came: the operation may or may not have been applied",
            node.links.place()
        );
        Err(Error::new(ErrorKind::Indeterminate, text))
    }

    fn moved(&self, slot: u16, to: Address) -> Result<Arc<Node>> {
        self.doubt.raise();
        self.with_view(|view, make| view.moved(slot, to, make))
    }

    fn at(&self, address: Address) -> Result<Arc<Node>> {
        self.with_view(|view, make| view.at(address, make))
    }

    fn with_view<T>(
        &self,
        change: impl FnOnce(&mut View, super::view::Make<'_>) -> T,
    ) -> Result<T> {
        let make = |at: &Address| self.node(at, self.way());
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        match view.as_mut() {
            Some(view) => Ok(change(view, &make)),
            None => Err(Error::new(
                ErrorKind::Unavailable,
                "the client has not learned yet which server is the primary",
            )),
        }
    }

    fn known(&self) -> Known {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.as_ref().map(View::known).unwrap_or_default()
    }

    /// The number of a survey that is begun now.
    fn next(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn survey(&self) -> Result<Answer> {
        self.source.survey(&self.dial, self.known()).await
    }

    /// Finds out who serves what now. Returns whether that has changed.
    pub(super) async fn renew(&self) -> Result<bool> {
        // Several may look at the same time, and whoever began first may be the last to come back.
        let number = self.next();
        let Answer { map, epoch, .. } = self.survey().await?;
        let changes = self.with_view(|view, make| view.renew(number, map, epoch, make))?;
        let Changes { any, gone, left } = changes;
        // Always: a slot that was seen to move is in the view already.
        self.board.place(|slot| self.serving(slot).ok());
        if self.source.has_one() {
            // Whatever is still on its way there would be done by one that is not the primary any more.
            gone.iter().for_each(|node| node.close());
        }
        if !gone.is_empty() {
            let (source, now) = (&self.source, self.serving(0).map(|node| node.links.place()));
            tracing::info!(target: "distlock", %source, now = now.ok(), "a primary was replaced");
            self.term.fetch_add(1, Ordering::Release);
        }
        drop((gone, left));
        Ok(any)
    }

    /// How often to look although nothing is in doubt.
    pub(super) fn round(&self) -> Option<Duration> {
        self.source.round(!self.board.is_empty())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.0.doubt.close();
        self.0.board.close();
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet")
            .field("place", &self.place())
            .field("way", &self.0.way.get())
            .field("board", &self.0.board)
            .finish_non_exhaustive()
    }
}
