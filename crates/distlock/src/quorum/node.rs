//! One of the stores, and what is owed to it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::turns::{Key, Turn, Turns, key};
use crate::env::{BoxFuture, Env, Moment};
use crate::error::Result;
use crate::locks::config;
use crate::store::{Attempt, Claim, Released, Renewed, Store};

/// For how long a release that a node did not confirm is told it again at least: as long as a hold without a lease lives
/// there at most. One with a longer lease stays on a server that was away for longer, and costs its vote until it ends.
const OWED_FOR: Duration = config::WATCHDOG;

/// How many releases may be owed to a node. More come together only while it is away, and then few of them stand there.
const MOST_OWED: usize = 10_000;

/// The first and the longest pause before a node that was busy is asked once more.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// See [`FIRST_PAUSE`].
const LONGEST_PAUSE: Duration = Duration::from_millis(320);

/// One of the stores, with what to call it in errors.
pub(crate) struct Node {
    pub(super) store: Arc<dyn Store>,
    pub(super) place: Arc<str>,
    env: Arc<dyn Env>,
    turns: Arc<Turns>,
    owed: Mutex<Owed>,
    /// The last step got no answer.
    away: AtomicBool,
    /// How long its last answer took, in microseconds. Nothing before the first one.
    took: AtomicU64,
}

/// Releases that it did not confirm.
#[derive(Debug, Default)]
struct Owed {
    claims: HashMap<Key, (Claim, Moment)>,
    paying: bool,
}

/// What a node said to an acquisition. Nothing else is done about this hold there before this is dropped.
pub(super) struct Took {
    pub(super) answer: Result<Attempt>,
    pub(super) turn: Option<Turn>,
}

/// What a node said to a renewal. Nothing else is done about these holds there before this is dropped.
pub(super) struct RenewReplies {
    pub(super) answers: Vec<Result<Renewed>>,
    pub(super) turns: Vec<Option<Turn>>,
}

impl Node {
    pub(crate) fn new(store: Arc<dyn Store>, place: Arc<str>, env: Arc<dyn Env>) -> Arc<Node> {
        let (turns, owed) = (Arc::default(), Mutex::default());
        let (away, took) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Node { store, place, env, turns, owed, away, took })
    }

    /// Whether it is known not to answer, so that waiting for it would be in vain.
    pub(super) fn is_away(&self) -> bool {
        self.away.load(Ordering::Relaxed)
    }

    /// Whether more than one attempt for this hold is still to be done there.
    pub(super) fn is_behind(&self, claim: &Claim) -> bool {
        self.turns.waiting(&key(claim)) > 1
    }

    /// How long it may take until it answers, if it is as fast as the last time or nearly so: each step before this one in the
    /// line takes as long. One far away would otherwise never have a say between two that are near.
    pub(super) fn due(&self, claim: &Claim) -> Duration {
        let took = Duration::from_micros(self.took.load(Ordering::Relaxed));
        let steps = 2 + self.turns.waiting(&key(claim));
        took.saturating_mul(steps as u32).min(config::REPLY_TIMEOUT)
    }

    /// Takes note of whether it answered what it was asked then, and how soon.
    fn heard<T>(&self, asked: Moment, answer: &Result<T>) {
        let away = matches!(answer, Err(e) if e.is_passing());
        self.away.store(away, Ordering::Relaxed);
        if !away {
            let took = self.env.now().since(asked).as_micros();
            self.took.store(took.try_into().unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    }

    /// Takes the hold. Begun here: whatever is begun after it comes after it.
    pub(super) fn acquire(self: &Arc<Node>, claim: &Claim) -> BoxFuture<'static, Took> {
        // What is left of an earlier hold becomes part of this one.
        self.owed().claims.remove(&key(claim));
        let place = self.turns.join(key(claim));
        let (node, claim) = (self.clone(), claim.clone());
        Box::pin(async move {
            let turn = place.turn().await;
            let asked = node.env.now();
            let answer = node.store.acquire(&claim).await;
            // Also of one that became a debt while this stood behind it in the line: paid later, it would take this vote back.
            node.owed().claims.remove(&key(&claim));
            node.heard(asked, &answer);
            Took { answer, turn }
        })
    }

    /// Lets go of it. What is not confirmed stays owed.
    pub(super) fn release(self: &Arc<Node>, claim: &Claim) -> BoxFuture<'static, Result<Released>> {
        let place = self.turns.join(key(claim));
        let (node, claim) = (self.clone(), claim.clone());
        let debt = (claim.depth == 0).then(|| Debt(Some((node.clone(), claim.clone()))));
        Box::pin(async move {
            let _turn = place.turn().await;
            // Dropped before the turn is, so that it is a debt by the time the next one in the line looks.
            let mut debt = debt;
            let asked = node.env.now();
            let answer = node.store.release(&claim).await;
            node.heard(asked, &answer);
            if !matches!(&answer, Err(e) if e.is_retryable())
                && let Some(debt) = &mut debt
            {
                debt.0 = None;
            }
            answer
        })
    }

    pub(super) fn renew(self: &Arc<Node>, claims: &[Claim]) -> BoxFuture<'static, RenewReplies> {
        let places: Vec<_> = claims.iter().map(|claim| self.turns.join(key(claim))).collect();
        let (node, claims) = (self.clone(), claims.to_vec());
        Box::pin(async move {
            let mut turns = Vec::with_capacity(places.len());
            for place in places {
                turns.push(place.turn().await);
            }
            let answers = node.store.renew(&claims).await;
            RenewReplies { answers, turns }
        })
    }

    /// Gives a hold back to a node that has lost it, in the background, and in the turn of the renewal that found out.
    pub(super) fn heal(self: &Arc<Node>, claim: &Claim, turn: Option<Turn>) {
        let claim = Claim { depth: 1, heir_of: None, ..claim.clone() };
        let node = self.clone();
        self.env.spawn(Box::pin(async move {
            let _turn = turn;
            drop(node.store.acquire(&claim).await);
        }));
    }

    /// Asks a node that was busy again, a few times: those who hold less than a majority let go soon, and a hold that stands
    /// everywhere survives more. One that could not be asked is asked once more: it may be back, and only the connection was
    /// not. In the background, and until somebody wants to do something else about this hold.
    pub(super) fn fill_up(self: &Arc<Node>, claim: &Claim, turn: Turn, mut failed: bool) {
        let (node, claim) = (self.clone(), claim.clone());
        self.env.spawn(Box::pin(async move {
            let mut pause = FIRST_PAUSE;
            while pause <= LONGEST_PAUSE {
                node.env.sleep_until(node.env.now().after(pause)).await;
                if turn.is_waited_for() {
                    return;
                }
                let asked = node.env.now();
                let answer = node.store.acquire(&claim).await;
                node.heard(asked, &answer);
                match answer {
                    Ok(Attempt::Busy { .. }) => {}
                    Err(e) if e.is_passing() && !failed => failed = true,
                    _ => return,
                }
                pause *= 2;
            }
        }));
    }

    /// The node must still be told of this release.
    pub(super) fn owe(self: &Arc<Node>, claim: Claim) {
        let mut owed = self.owed();
        if owed.claims.len() < MOST_OWED {
            let until = self.env.now().after(claim.lease.max(OWED_FOR));
            owed.claims.insert(key(&claim), (claim, until));
        }
        let begin = !std::mem::replace(&mut owed.paying, true);
        drop(owed);
        if begin {
            let paying = Paying { node: self.clone(), done: false };
            self.env.spawn_background(Box::pin(pay(paying)));
        }
    }

    /// Whether everything has been told and confirmed.
    pub(super) fn is_settled(&self) -> bool {
        self.turns.is_idle() && self.owed().claims.is_empty()
    }

    fn owed(&self) -> MutexGuard<'_, Owed> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Owed {
    /// One of the releases, whichever chance has it. When none is left, nobody pays any more.
    fn any(&mut self, now: Moment, chance: u64) -> Option<Key> {
        self.claims.retain(|_, (_, until)| *until > now);
        let count = (self.claims.len() as u64).max(1);
        let found = self.claims.keys().nth((chance % count) as usize).cloned();
        self.paying = found.is_some();
        found
    }
}

/// A release that was begun. If it ends without being confirmed, however that comes, it is owed.
struct Debt(Option<(Arc<Node>, Claim)>);

impl Drop for Debt {
    fn drop(&mut self) {
        if let Some((node, claim)) = self.0.take() {
            node.owe(claim);
        }
    }
}

/// Whoever pays. If it does not come to its end, the next debt finds somebody else.
struct Paying {
    node: Arc<Node>,
    done: bool,
}

impl Drop for Paying {
    fn drop(&mut self) {
        if !self.done {
            self.node.owed().paying = false;
        }
    }
}

/// Tells the node of releases until it knows of all.
async fn pay(mut paying: Paying) {
    let node = paying.node.clone();
    let mut pause = config::RETRY_FIRST;
    loop {
        node.env.sleep_until(node.env.now().after(pause)).await;
        let (now, chance) = (node.env.now(), node.env.random());
        let Some(key) = node.owed().any(now, chance) else {
            paying.done = true;
            return;
        };
        let _turn = node.turns.join(key.clone()).turn().await;
        // An acquisition that was begun meanwhile has taken it over.
        let Some((claim, _)) = node.owed().claims.get(&key).cloned() else { continue };
        let asked = node.env.now();
        let answer = node.store.release(&claim).await;
        node.heard(asked, &answer);
        match answer {
            Err(e) if e.is_retryable() => {
                pause = (pause * 2).clamp(config::RETRY_FIRST, config::RETRY_LONGEST);
            }
            _ => {
                node.owed().claims.remove(&key);
                pause = Duration::ZERO;
            }
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("place", &self.place).field("store", &self.store).finish()
    }
}
