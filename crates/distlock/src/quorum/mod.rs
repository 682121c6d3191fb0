//! A majority of independent stores as one store.
//!
//! The engine waits, holds and renews on it as on any other. Every step goes to all nodes at once; what a majority says
//! counts, a minority that fails does not matter, and a node that has lost its memory gets the hold back with the next
//! renewal for as long as a majority still has it.

mod ask;
mod listen;
mod votes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::config;
use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Attempt, Claim, Listener, Released, Snapshot, Store, What};

use ask::ask;
use votes::{Vote, Votes};

/// After a tie the loser comes again after a while of at most this, by chance, so that those who tied do not tie again.
const AFTER_A_TIE: Duration = Duration::from_millis(25);

/// One of the stores, with what to call it in errors.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) place: Arc<str>,
}

/// The stores.
#[derive(Debug)]
pub(crate) struct Quorum {
    nodes: Vec<Node>,
    env: Arc<dyn Env>,
}

/// How long a hold is good for after a majority has given it: what is left of the lease, less what clocks may differ by.
/// `None` if that is nothing.
fn validity(lease: Duration, elapsed: Duration) -> Option<Duration> {
    let left = lease.checked_sub(elapsed)?.checked_sub(config::safety_margin(lease))?;
    (!left.is_zero()).then_some(left)
}

impl Quorum {
    pub(crate) fn new(nodes: Vec<Node>, env: Arc<dyn Env>) -> Arc<Quorum> {
        Arc::new(Quorum { nodes, env })
    }

    /// One step at every node, until `enough` have answered. The rest goes on by itself.
    async fn each<T: Send + 'static>(
        &self,
        step: impl Fn(Arc<dyn Store>) -> BoxFuture<'static, Result<T>>,
        enough: impl Fn(&[Option<Result<T>>]) -> bool,
    ) -> Vec<Option<Result<T>>> {
        let steps = self.nodes.iter().map(|node| step(node.store.clone())).collect();
        ask(&self.env, steps, enough).await
    }

    async fn acquire_everywhere(&self, claim: &Claim) -> Result<Attempt> {
        let sent = self.env.now();
        let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Attempt>> {
            let claim = claim.clone();
            Box::pin(async move { store.acquire(&claim).await })
        };
        let answers = self.each(step, |answers| Votes::of(answers, took).decided().is_some()).await;
        let votes = Votes::of(&answers, took);
        let valid = validity(claim.lease, self.env.now().since(sent)).is_some();
        if votes.decided() == Some(true) && valid {
            return Ok(Attempt::Acquired { token: None });
        }
        // A re-entry or a hand-over that failed leaves the hold that it was about as it is.
        if claim.depth == 1 && claim.heir_of.is_none() {
            self.release_everywhere(&Claim { depth: 0, ..claim.clone() }).await.ok();
            if votes.yes > 0 {
                let pause = Duration::from_nanos(self.env.random() % AFTER_A_TIE.as_nanos() as u64);
                self.env.sleep_apart(self.env.now().after(pause)).await;
            }
        }
        if votes.yes + votes.no < votes.majority() {
            return Err(self.no_quorum(&answers, |attempt| match attempt {
                Attempt::Acquired { .. } => "gave it".to_owned(),
                Attempt::Busy { ttl } => format!("busy for {ttl:?}"),
            }));
        }
        let ttls = answers.iter().filter_map(|answer| match answer {
            Some(Ok(Attempt::Busy { ttl })) => Some(*ttl),
            _ => None,
        });
        Ok(Attempt::Busy { ttl: ttls.min().unwrap_or_default() })
    }

    async fn release_everywhere(&self, claim: &Claim) -> Result<Released> {
        let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Released>> {
            let claim = claim.clone();
            Box::pin(async move { store.release(&claim).await })
        };
        let answers =
            self.each(step, |answers| Votes::of(answers, let_go).decided().is_some()).await;
        let heard = answers.iter().flatten().filter_map(|answer| match answer {
            Ok(Released::Freed { heard_by }) => Some(*heard_by),
            _ => None,
        });
        match (Votes::of(&answers, let_go).decided(), heard.max()) {
            (Some(true), Some(heard_by)) => Ok(Released::Freed { heard_by }),
            (Some(true), None) => Ok(Released::StillHeld),
            (Some(false), _) => Ok(Released::NotHeld),
            (None, _) => Err(self.no_quorum(&answers, |released| format!("{released:?}"))),
        }
    }

    async fn renew_everywhere(&self, claims: &[Claim]) -> Vec<Result<bool>> {
        // A claim's answers are among those of all claims, so every node is waited for, or its reply time-out.
        let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Vec<Result<bool>>>> {
            let claims = claims.to_vec();
            Box::pin(async move { Ok(store.renew(&claims).await) })
        };
        let decided = |answers: &[Option<Result<Vec<Result<bool>>>>]| {
            (0..claims.len()).all(|at| Votes::of(&column(answers, at), kept).decided().is_some())
        };
        let answers = self.each(step, decided).await;
        let verdict = |(at, claim): (usize, &Claim)| {
            let column = column(&answers, at);
            match Votes::of(&column, kept).decided() {
                Some(true) => {
                    self.heal(claim, &column);
                    Ok(true)
                }
                Some(false) => Ok(false),
                None => Err(self.no_quorum(&column, |held| match held {
                    true => "renewed it".to_owned(),
                    false => "does not have it".to_owned(),
                })),
            }
        };
        claims.iter().enumerate().map(verdict).collect()
    }

    /// Gives the hold back to nodes that have lost it, while a majority has it. In the background: the renewal is done.
    fn heal(&self, claim: &Claim, answers: &[Option<Result<bool>>]) {
        for (node, answer) in self.nodes.iter().zip(answers) {
            if let Some(Ok(false)) = answer {
                let (store, claim) = (node.store.clone(), Claim { depth: 1, ..claim.clone() });
                self.env.spawn(Box::pin(async move { drop(store.acquire(&claim).await) }));
            }
        }
    }

    async fn look_everywhere(&self, what: What, name: &str, force: bool) -> Result<Snapshot> {
        let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Snapshot>> {
            let name = name.to_owned();
            Box::pin(async move {
                if force {
                    store.force(what, &name).await
                } else {
                    store.inspect(what, &name).await
                }
            })
        };
        let answers = self.each(step, |_| false).await;
        let votes = Votes::of(&answers, |_| Vote::Yes);
        if votes.decided() != Some(true) {
            return Err(self.no_quorum(&answers, |_| "answered".to_owned()));
        }
        let seen: Vec<&Snapshot> = answers.iter().flatten().flatten().collect();
        Ok(agreed(name, &seen, votes.majority()))
    }

    fn no_quorum<T>(&self, answers: &[Option<Result<T>>], say: impl Fn(&T) -> String) -> Error {
        let each = self.nodes.iter().zip(answers).map(|(node, answer)| match answer {
            Some(Ok(answer)) => format!("{}: {}", node.place, say(answer)),
            Some(Err(e)) => format!("{}: {e}", node.place),
            None => format!("{}: no answer yet", node.place),
        });
        let each: Vec<String> = each.collect();
        let (all, need) = (self.nodes.len(), votes::majority(self.nodes.len()));
        let text = format!("{need} of {all} servers must agree and did not: {}", each.join("; "));
        Error::new(ErrorKind::NoQuorum, text)
    }
}

/// One claim's answers among those of all claims.
fn column(answers: &[Option<Result<Vec<Result<bool>>>>], at: usize) -> Vec<Option<Result<bool>>> {
    let one = |answer: &Option<Result<Vec<Result<bool>>>>| match answer {
        Some(Ok(all)) => all.get(at).cloned(),
        Some(Err(e)) => Some(Err(e.clone())),
        None => None,
    };
    answers.iter().map(one).collect()
}

/// What a majority of snapshots show: who holds it, and for how long at least.
fn agreed(name: &str, seen: &[&Snapshot], majority: usize) -> Snapshot {
    let owners: BTreeSet<&str> =
        seen.iter().flat_map(|s| s.holders.iter()).map(|h| h.owner.as_str()).collect();
    for owner in owners {
        let mut with = Vec::new();
        for snapshot in seen {
            if let Some(holder) = snapshot.holders.iter().find(|h| h.owner == owner) {
                with.push((snapshot.ttl.unwrap_or_default(), holder.clone()));
            }
        }
        with.sort_by_key(|(ttl, _)| std::cmp::Reverse(*ttl));
        if let Some((ttl, holder)) = with.get(majority - 1) {
            return Snapshot::held(name, vec![holder.clone()], *ttl);
        }
    }
    Snapshot::free(name)
}

fn took(attempt: &Attempt) -> Vote {
    match attempt {
        Attempt::Acquired { .. } => Vote::Yes,
        Attempt::Busy { .. } => Vote::No,
    }
}

fn let_go(released: &Released) -> Vote {
    match released {
        Released::Freed { .. } | Released::StillHeld => Vote::Yes,
        Released::NotHeld => Vote::No,
    }
}

fn kept(held: &bool) -> Vote {
    if *held { Vote::Yes } else { Vote::No }
}

impl Store for Quorum {
    fn answers_at_once(&self) -> bool {
        self.nodes.iter().all(|node| node.store.answers_at_once())
    }

    fn acquire<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Attempt>> {
        Box::pin(self.acquire_everywhere(claim))
    }

    fn release<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Released>> {
        Box::pin(self.release_everywhere(claim))
    }

    fn renew<'a>(&'a self, claims: &'a [Claim]) -> BoxFuture<'a, Vec<Result<bool>>> {
        Box::pin(self.renew_everywhere(claims))
    }

    fn listen<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Listener>> {
        Box::pin(async move {
            let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Listener>> {
                let claim = claim.clone();
                Box::pin(async move { store.listen(&claim).await })
            };
            let answers = self.each(step, |_| false).await;
            // A release goes to every node, so hearing of it from any is enough; but those may be the ones that fail next.
            if Votes::of(&answers, |_| Vote::Yes).decided() != Some(true) {
                return Err(self.no_quorum(&answers, |_| "listens".to_owned()));
            }
            Ok(listen::merge(&self.env, answers.into_iter().flatten().flatten().collect()))
        })
    }

    fn inspect<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.look_everywhere(what, name, false))
    }

    fn force<'a>(&'a self, what: What, name: &'a str) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.look_everywhere(what, name, true))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<Snapshot>>> {
        Box::pin(async move {
            let step = |store: Arc<dyn Store>| -> BoxFuture<'static, Result<Vec<Snapshot>>> {
                let prefix = prefix.to_owned();
                Box::pin(async move { store.list(&prefix).await })
            };
            let answers = self.each(step, |_| false).await;
            let votes = Votes::of(&answers, |_| Vote::Yes);
            if votes.decided() != Some(true) {
                return Err(self.no_quorum(&answers, |_| "answered".to_owned()));
            }
            let all: Vec<&Snapshot> = answers.iter().flatten().flatten().flatten().collect();
            let names: BTreeSet<&str> = all.iter().map(|s| &*s.name).collect();
            let seen = |name| -> Vec<&Snapshot> {
                all.iter().copied().filter(|s| &*s.name == name).collect()
            };
            let locks = names.into_iter().map(|name| agreed(name, &seen(name), votes.majority()));
            Ok(locks.filter(Snapshot::is_held).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// redlock-py#3, redsync#37, RedLock.net#34, node-redlock#17.
    #[test]
    fn validity_is_the_lease_less_what_has_passed_and_what_clocks_may_differ_by() {
        assert_eq!(validity(ms(10_000), ms(0)), Some(ms(10_000 - 100 - 2)));
        assert_eq!(validity(ms(10_000), ms(3000)), Some(ms(7000 - 100 - 2)));
        assert_eq!(validity(ms(10_000), ms(9898)), None);
        assert_eq!(validity(ms(10_000), ms(9897)), Some(ms(1)));
        assert_eq!(validity(ms(10_000), ms(20_000)), None);
        assert_eq!(validity(ms(1), ms(0)), Some(Duration::from_micros(500)));
        assert_eq!(validity(ms(1), ms(1)), None);
    }

    #[test]
    fn a_minority_cannot_make_a_holder() {
        let held = |owner: &str, ttl| {
            Snapshot::held("k", vec![crate::store::Holder::new(owner, 1)], ms(ttl))
        };
        let (a, b, c) = (held("a", 5), held("a", 9), held("b", 7));
        let free = Snapshot::free("k");
        let seen = agreed("k", &[&a, &b, &c], 2);
        assert_eq!((seen.holders[0].owner.as_str(), seen.ttl), ("a", Some(ms(5))));
        assert!(!agreed("k", &[&a, &c, &free], 2).is_held());
    }
}
