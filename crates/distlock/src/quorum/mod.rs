//! A majority of independent stores as one store.
//!
//! The engine waits, holds and renews on it as on any other. Every step goes to all nodes at once; what a majority says
//! counts, a minority that fails does not matter, and a node that has lost its memory gets the hold back with the next
//! renewal for as long as a majority still has it.
//!
//! ```text
//! ask.rs     all at once, until enough is known; the rest goes on by itself
//! votes.rs   what the answers come to
//! node.rs    one of the stores: steps in order, and what is owed to it
//! turns.rs   whose turn it is
//! read.rs    what stands there, as a majority sees it
//! listen.rs  hearing of releases
//! ```

mod ask;
mod listen;
mod node;
mod read;
#[cfg(test)]
mod tests;
mod turns;
mod votes;

use std::sync::Arc;
use std::time::Duration;

use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;
use crate::locks::config;
use crate::runtime::duration::rounded;
use crate::store::{
    Attempt, Capabilities, Claim, ClaimKind, Kind, Listener, Released, Renewed, Snapshot, Store,
};

use ask::{Asked, Known, ask};
use listen::Ears;
pub(crate) use node::Node;
use node::{RenewReplies, Took};
use votes::{
    Answers, Vote, Votes, column, count, free_in, is_not_durable, kept, least_of_majority, let_go,
};

/// After a tie the loser comes again after a while of at most this, by chance, so that those who tied do not tie again.
const AFTER_A_TIE: Duration = Duration::from_millis(25);

/// The stores.
#[derive(Debug)]
pub(crate) struct Quorum {
    nodes: Arc<[Arc<Node>]>,
    env: Arc<dyn Env>,
    capabilities: Capabilities,
}

/// How long a hold is good for after a majority has given it: what is left of the lease, less what clocks may differ by.
/// `None` if that is nothing.
fn validity(lease: Duration, elapsed: Duration) -> Option<Duration> {
    let left = lease.checked_sub(elapsed)?.checked_sub(config::safety_margin(lease))?;
    (!left.is_zero()).then_some(left)
}

/// Returns what a majority of these nodes can do. Its durability is that of the strictest node: each decides by itself whether it has given
/// its vote. It does not pass holds on: a node passes on what it has and nothing else, so each hand-over would be stored on fewer nodes than
/// the one before, and one that stays undecided, because a node is frozen, would leave votes of two owners behind.
fn capabilities(nodes: &[Arc<Node>]) -> Capabilities {
    let each = || nodes.iter().map(|node| node.store.capabilities());
    let durability = each().map(|node| node.durability);
    let durability = durability.max_by_key(|node| *node != Durability::Primary);
    let kinds: &[Kind] = match each().all(|node| node.offers(Kind::Mutex)) {
        true => &[Kind::Mutex, Kind::Redlock],
        false => &[],
    };
    Capabilities::new()
        .with_answers_at_once(each().all(|node| node.answers_at_once))
        .with_durability(durability.unwrap_or_default())
        .with_passes_on(false)
        .with_kinds(kinds)
}

impl Quorum {
    pub(crate) fn new(nodes: Vec<Arc<Node>>, env: Arc<dyn Env>) -> Arc<Quorum> {
        let capabilities = capabilities(&nodes);
        Arc::new(Quorum { nodes: nodes.into(), env, capabilities })
    }

    /// Waits until every node knows of every release, if that is soon. A node that does not reply gets little time: its part of a
    /// hold ends with its lease, and a program that ends must not wait for a dead server.
    pub(crate) async fn settle(&self) {
        let now = self.env.now();
        let (until, until_if_away) = (now.after(config::COMMAND_TIMEOUT), now.after(config::FLUSH));
        let is_done = |node: &Arc<Node>, now| {
            node.is_settled() || now >= if node.is_away() { until_if_away } else { until }
        };
        loop {
            let now = self.env.now();
            if self.nodes.iter().all(|node| is_done(node, now)) {
                return;
            }
            self.env.sleep_until(now.after(config::RETRY_FIRST)).await;
        }
    }

    /// One step at every node, until enough is known.
    async fn each<T: Send + 'static>(
        &self,
        step: impl Fn(&Arc<Node>) -> BoxFuture<'static, T>,
        known: impl Fn(&[Option<T>]) -> Known,
    ) -> Asked<T> {
        ask(&self.env, self.nodes.iter().map(step).collect(), known).await
    }

    async fn acquire_everywhere(&self, claim: &Claim) -> Result<Attempt> {
        let sent = self.env.now();
        let asked = self.each(|node| node.acquire(claim), |took| self.known(claim, took)).await;
        let votes = count(&asked.answers);
        let granted = asked.answers.iter().flatten().filter_map(|took| match took.answer {
            Ok(Attempt::Acquired { lease, .. }) => Some(lease),
            _ => None,
        });
        let lease = least_of_majority(granted.collect(), votes.majority());
        let valid = validity(lease, self.env.now().since(sent)).is_some();
        if votes.decided() == Some(true) && valid {
            self.complete(claim, asked);
            return Ok(Attempt::Acquired { token: None, lease });
        }
        // What is still under way comes before what is begun now.
        let answers: Vec<Option<Result<Attempt>>> =
            asked.and_late(|_, took| drop(took)).into_iter().map(|t| t.map(|t| t.answer)).collect();
        // A re-entry that failed leaves the hold that it was about as it is.
        let fresh = claim.depth == 1;
        if fresh {
            self.withdraw(claim, &answers).await;
            if votes.yes > 0 && votes.no > 0 {
                let pause = Duration::from_nanos(self.env.random() % AFTER_A_TIE.as_nanos() as u64);
                self.env.sleep_in_background(self.env.now().after(pause)).await;
            }
        }
        // Busy if a majority never will, or if so many have answered that it may another time. Of a hold that would say that it
        // is lost, which only a majority can.
        if votes.decided().is_some() || (fresh && votes.is_tie()) {
            return Ok(Attempt::Busy { ttl: free_in(&answers, votes) });
        }
        let error = self.no_quorum(&answers, votes, |attempt| match attempt {
            Attempt::Acquired { .. } => "granted".to_owned(),
            Attempt::Busy { ttl } => format!("busy for another {:?}", rounded(*ttl)),
        });
        Err(if fresh { error.undone() } else { error })
    }

    /// Enough is known if a majority has decided, or if those who can be expected to answer have, and it is a tie. (Those who
    /// tied would otherwise wait together for a node that is gone, each with its part in hand.)
    fn known(&self, claim: &Claim, answers: &[Option<Took>]) -> Known {
        let votes = count(answers);
        let missing = || self.missing(answers).map(|node| node.due(claim)).max();
        match votes.decided() {
            Some(_) => Known::Enough,
            None if !votes.is_tie() => Known::TooLittle,
            // A re-entry has nothing in hand that others could have, so it waits, as a renewal does.
            None => match missing() {
                Some(_) if claim.depth > 1 => Known::TooLittle,
                Some(due) => Known::Nearly(due),
                None => Known::Enough,
            },
        }
    }

    /// Those that have not answered yet and are not known to be away.
    fn missing<T>(&self, answers: &[Option<T>]) -> impl Iterator<Item = &Arc<Node>> {
        let nodes = self.nodes.iter().zip(answers);
        nodes.filter(|(node, answer)| answer.is_none() && !node.is_away()).map(|(node, _)| node)
    }

    /// A majority has given it. A node that was busy or did not answer is asked again.
    fn complete(&self, claim: &Claim, asked: Asked<Took>) {
        let (nodes, claim) = (self.nodes.clone(), claim.clone());
        let fresh = claim.depth == 1;
        let complete = move |at: usize, took: Took| match (took.answer, took.turn) {
            (Ok(Attempt::Busy { .. }), Some(turn)) if fresh => {
                nodes[at].fill_up(&claim, turn, false);
            }
            // One that is not durable stands there, for what it is worth, and goes with the others.
            (Err(e), Some(turn)) if fresh && e.is_passing() => {
                nodes[at].fill_up(&claim, turn, true);
            }
            _ => {}
        };
        let answers = asked.and_late(complete.clone());
        for (at, took) in answers.into_iter().enumerate() {
            if let Some(took) = took {
                complete(at, took);
            }
        }
    }

    /// Takes back an attempt that came to nothing wherever it may have arrived. Waits for those who said that it did, and for the
    /// others not for long: but for this, whoever tries again and again would line up more at a slow node than it can do.
    async fn withdraw(&self, claim: &Claim, answers: &Answers<Attempt>) {
        let claim = Claim { depth: 0, ..claim.clone() };
        let (mut asked, mut steps) = (Vec::new(), Vec::new());
        for (node, answer) in self.nodes.iter().zip(answers) {
            if !matches!(answer, Some(Ok(Attempt::Busy { .. }))) {
                let gave = matches!(answer, Some(Ok(_))) || is_not_durable(answer);
                asked.push((node.clone(), gave));
                steps.push(node.release(&claim));
            }
        }
        let known = |released: &Answers<Released>| {
            let mut missing = released.iter().zip(&asked).filter(|(done, _)| done.is_none());
            if missing.clone().any(|(_, (_, gave))| *gave) {
                return Known::TooLittle;
            }
            match missing.any(|(_, (node, _))| !node.is_away() && node.is_behind(&claim)) {
                true => Known::Nearly(Duration::ZERO),
                false => Known::Enough,
            }
        };
        drop(ask(&self.env, steps, known).await);
    }

    async fn release_everywhere(&self, claim: &Claim) -> Result<Released> {
        let decided =
            |answers: &Answers<Released>| Votes::of(answers, let_go).decided().is_some().into();
        let asked = self.each(|node| node.release(claim), decided).await;
        let heard = asked.answers.iter().flatten().filter_map(|answer| match answer {
            Ok(Released::Freed { heard_by }) => Some(*heard_by),
            _ => None,
        });
        let votes = Votes::of(&asked.answers, let_go);
        match (votes.decided(), heard.max()) {
            (Some(true), Some(heard_by)) => Ok(Released::Freed { heard_by }),
            (Some(true), None) => Ok(Released::StillHeld),
            (Some(false), _) => Ok(Released::NotHeld),
            (None, _) => Err(self.no_quorum(&asked.answers, votes, |released| match released {
                Released::Freed { .. } => "released".to_owned(),
                Released::StillHeld => "released one level".to_owned(),
                Released::NotHeld => "did not hold it".to_owned(),
            })),
        }
    }

    /// What a node does not confirm it is told again, so nobody has to do that from here.
    async fn forget_everywhere(&self, claim: &Claim) {
        let enough = |answers: &Answers<Released>| self.missing(answers).next().is_none().into();
        drop(self.each(|node| node.release(claim), enough).await);
    }

    async fn renew_everywhere(&self, claims: &[Claim]) -> Vec<Result<Renewed>> {
        let decided = |answers: &[Option<RenewReplies>]| {
            (0..claims.len()).all(|at| Votes::of(&column(answers, at), kept).decided().is_some())
        };
        let asked = self.each(|node| node.renew(claims), |answers| decided(answers).into()).await;
        let verdict = |at: usize| {
            let column = column(&asked.answers, at);
            let votes = Votes::of(&column, kept);
            match votes.decided() {
                Some(true) => {
                    let granted = column.iter().flatten().filter_map(|renewed| match renewed {
                        Ok(Renewed::Held { for_ }) => Some(*for_),
                        _ => None,
                    });
                    let for_ = least_of_majority(granted.collect(), votes.majority());
                    Ok(Renewed::Held { for_ })
                }
                Some(false) => Ok(Renewed::Gone),
                None => Err(self.no_quorum(&column, votes, |renewed| match renewed {
                    Renewed::Held { .. } => "renewed it".to_owned(),
                    Renewed::Gone => "does not hold it".to_owned(),
                })),
            }
        };
        let verdicts: Vec<Result<Renewed>> = (0..claims.len()).map(verdict).collect();
        // The renewal is done. Nodes that have lost the hold get it back in the background, also those that say so late.
        let still: Vec<Option<Claim>> = verdicts
            .iter()
            .zip(claims)
            .map(|(kept, claim)| matches!(kept, Ok(Renewed::Held { .. })).then(|| claim.clone()))
            .collect();
        let nodes = self.nodes.clone();
        let heal = move |at: usize, renewed: RenewReplies| {
            for ((claim, answer), turn) in still.iter().zip(renewed.answers).zip(renewed.turns) {
                if let (Some(claim), Ok(Renewed::Gone)) = (claim, answer) {
                    nodes[at].heal(claim, turn);
                }
            }
        };
        let answers = asked.and_late(heal.clone());
        for (at, answer) in answers.into_iter().enumerate() {
            if let Some(renewed) = answer {
                heal(at, renewed);
            }
        }
        verdicts
    }

    async fn listen_everywhere(&self, claim: &Claim) -> Result<Listener> {
        let step = |node: &Arc<Node>| -> BoxFuture<'static, Result<Listener>> {
            let (store, claim) = (node.store.clone(), claim.clone());
            Box::pin(async move { store.listen(&claim).await })
        };
        let all = |_: &Listener| Vote::Yes;
        let decided = |answers: &Answers<Listener>| Votes::of(answers, all).decided().is_some();
        let asked = self.each(step, |answers| decided(answers).into()).await;
        if !decided(&asked.answers) {
            let votes = Votes::of(&asked.answers, all);
            return Err(self.no_quorum(&asked.answers, votes, |_| "subscribed".to_owned()));
        }
        // A release goes to every node, so hearing of it from any is enough; but those may be the ones that fail next, so
        // the others are listened to as soon as they can be.
        let (ears, listener) = Ears::new(&self.env, self.nodes.len());
        let add = move |at: usize, ear: Result<Listener>| {
            if let Ok(ear) = ear {
                ears.add(at, ear);
            }
        };
        for (at, ear) in asked.and_late(add.clone()).into_iter().enumerate() {
            if let Some(ear) = ear {
                add(at, ear);
            }
        }
        Ok(listener)
    }

    /// The error for an undecided vote, with the reply of each server. Its kind is `NoQuorum`, unless so many servers fail in a way
    /// that no retry mends that there cannot be a majority: then it is the kind of the first of these errors.
    fn no_quorum<T>(
        &self,
        answers: &Answers<T>,
        votes: Votes,
        say: impl Fn(&T) -> String,
    ) -> Error {
        let each = self.nodes.iter().zip(answers).map(|(node, answer)| match answer {
            Some(Ok(answer)) => format!("{}: {}", node.place, say(answer)),
            Some(Err(e)) => e.clone().at(&node.place).to_string(),
            None => format!("{}: no reply yet", node.place),
        });
        let each: Vec<String> = each.collect();
        let (all, need) = (self.nodes.len(), votes::majority(self.nodes.len()));
        let agreed = match votes.yes.max(votes.no) {
            0 => "none".to_owned(),
            some => format!("only {some}"),
        };
        let each = each.join("; ");
        let text = format!("{agreed} of {all} servers agreed, {need} are needed: {each}");
        let errors = answers.iter().flatten().filter_map(|answer| answer.as_ref().err());
        let for_good: Vec<ErrorKind> =
            errors.filter(|e| !e.is_passing()).map(Error::kind).collect();
        let kind = match for_good.first() {
            Some(kind) if for_good.len() > all - need => *kind,
            _ => ErrorKind::NoQuorum,
        };
        Error::new(kind, text)
    }
}

impl Store for Quorum {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn place(&self) -> String {
        format!("a majority of {} servers", self.nodes.len())
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire_everywhere(claim))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(self.release_everywhere(claim))
    }

    fn give_up<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.forget_everywhere(claim).await;
            Ok(())
        })
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<Renewed>>> {
        Box::pin(self.renew_everywhere(claims))
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(self.listen_everywhere(claim))
    }

    fn inspect<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.look_everywhere(what, name, false))
    }

    fn force<'a>(&'a self, what: ClaimKind, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.look_everywhere(what, name, true))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(self.list_everywhere(prefix))
    }
}
