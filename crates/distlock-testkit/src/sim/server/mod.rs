//! The simulated server: applies requests with the library's own state machines, by its own clock, and may lose what it has.

mod data;

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use distlock::env::Moment;
use distlock::store::machine::{MachineContext, Transition, Wake, fenced};
use distlock::store::{Attempt, AttemptAll, Claim, ClaimKind, Grant, Released, Renewed, Snapshot};
use distlock::{Owner, Result};

use crate::sim::entry::{self, SimEntry, Stepped};
use crate::sim::message::{Answer, Request};
use crate::sim::plan::{Bug, Millis, Plan};

/// How many writes a failover can lose.
const TAIL: usize = 16;

/// The server's clock when the run begins, so that tokens are as large as in life.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// A subscription that the server knows.
#[derive(Debug)]
struct Subscriber {
    connection: usize,
    name: Arc<str>,
    waiter: Option<Owner>,
}

/// A write that a failover can take back.
#[derive(Debug)]
struct Write {
    name: Arc<str>,
    before: Option<SimEntry>,
    token: u64,
}

#[derive(Debug)]
pub(in crate::sim) struct Server {
    bug: Option<Bug>,
    clock_rate: i64,
    takes_together: bool,
    entries: BTreeMap<Arc<str>, SimEntry>,
    tokens: BTreeMap<Arc<str>, u64>,
    tail: VecDeque<Write>,
    /// By number of the subscription and connection: a reconnected client may have it on two.
    subscribers: BTreeMap<(u64, usize), Subscriber>,
    /// When the first and the last acquire of an owner were granted.
    granted: HashMap<(Arc<str>, Owner), (Millis, Millis)>,
    /// When data of a name was lost, or taken by force; by name.
    losses: BTreeMap<Arc<str>, Vec<Millis>>,
    /// Requests so far, from which planted bugs take their chance.
    applied: u64,
}

/// What else follows from an operation.
#[derive(Debug, Default)]
pub(in crate::sim) struct Published {
    /// Subscriptions to notify, with their connections.
    pub(in crate::sim) to: Vec<(u64, usize)>,
}

struct Near<'a> {
    subscribers: &'a BTreeMap<(u64, usize), Subscriber>,
    name: &'a str,
    token: Cell<u64>,
    millis: u64,
    falls: bool,
}

impl MachineContext for Near<'_> {
    fn listens(&self, owner: Owner) -> bool {
        let its = |subscriber: &Subscriber| {
            subscriber.waiter == Some(owner) && *subscriber.name == *self.name
        };
        self.subscribers.values().any(its)
    }

    fn token(&self) -> u64 {
        let next = fenced::next(self.token.get(), self.millis);
        if self.falls {
            return self.token.get().saturating_sub(1);
        }
        self.token.set(next);
        next
    }
}

impl Server {
    pub(in crate::sim) fn new(plan: &Plan) -> Server {
        Server {
            bug: plan.bug,
            clock_rate: plan.clock_rate,
            takes_together: plan.takes_together,
            entries: BTreeMap::new(),
            tokens: BTreeMap::new(),
            tail: VecDeque::new(),
            subscribers: BTreeMap::new(),
            granted: HashMap::new(),
            losses: BTreeMap::new(),
            applied: 0,
        }
    }

    /// The server's clock at a moment of the run.
    pub(in crate::sim) fn clock(&self, now: Millis) -> Moment {
        let drift = i64::try_from(now).unwrap_or(i64::MAX) * self.clock_rate / 1_000;
        let nanos = now * 1_000_000;
        Moment::from_origin(EPOCH + Duration::from_nanos(nanos.saturating_add_signed(drift)))
    }

    /// Applies a request that came over `connection`.
    pub(in crate::sim) fn apply(
        &mut self,
        connection: usize,
        request: &Request,
        again: bool,
        now: Millis,
        published: &mut Published,
    ) -> Answer {
        self.applied += 1;
        match request {
            Request::Acquire(claim) => Answer::Attempt(self.acquire(claim, again, now, published)),
            Request::AcquireAll(claims) => {
                Answer::AttemptAll(self.acquire_all(claims, now, published))
            }
            Request::Release(claim) => Answer::Released(self.release(claim, now, published)),
            Request::Renew(claims) => {
                let renewed = claims.iter().map(|claim| self.renew(claim, now, published));
                Answer::Renewed(renewed.collect())
            }
            Request::GiveUp(_) if self.has(Bug::GiveUpKeeps) => Answer::Done(Ok(())),
            Request::GiveUp(claim) => {
                let step = |entry, now, context: &dyn MachineContext| {
                    entry::give_up(entry, claim, now, context)
                };
                Answer::Done(self.step(&claim.name, now, published, step).map(|(done, _)| done))
            }
            Request::Listen(number, name, waiter) => {
                let subscriber = Subscriber { connection, name: name.clone(), waiter: *waiter };
                self.subscribers.insert((*number, connection), subscriber);
                Answer::Listening
            }
            Request::Unlisten(number) => {
                self.subscribers.remove(&(*number, connection));
                Answer::Done(Ok(()))
            }
            Request::Inspect(name) => Answer::Seen(Ok(self.look(name, now))),
            Request::Force(what, name) => {
                let before = self.look(name, now);
                let name: Arc<str> = name.as_str().into();
                let step = |entry, now, context: &dyn MachineContext| {
                    entry::force(entry, *what, now, context)
                };
                let forced = self.step(&name, now, published, step);
                self.losses.entry(name).or_default().push(now);
                Answer::Seen(forced.map(|_| before))
            }
            Request::List(prefix) => {
                let names = self.entries.keys().filter(|name| name.starts_with(prefix.as_str()));
                let seen = names.map(|name| self.look(name, now)).filter(Snapshot::is_held);
                Answer::Listed(seen.collect())
            }
            Request::Admin(name, op) => {
                let name: Arc<str> = name.as_str().into();
                let step = |entry, now, _: &dyn MachineContext| entry::admin(entry, op, now);
                let step = self.step(&name, now, published, step);
                Answer::Number(step.map(|(number, _)| number))
            }
        }
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Whether a planted bug strikes now: one time in `of`.
    fn strikes(&self, bug: Bug, of: u64) -> bool {
        self.has(bug) && self.applied.is_multiple_of(of)
    }

    fn acquire(
        &mut self,
        claim: &Claim,
        again: bool,
        now: Millis,
        published: &mut Published,
    ) -> Result<Attempt> {
        let mut claim = claim.clone();
        if self.has(Bug::FairIgnoresQueue) && matches!(claim.kind, ClaimKind::Fair { .. }) {
            claim.kind = ClaimKind::Exclusive;
        }
        self.open_early(&claim, now);
        let step =
            |entry, now, context: &dyn MachineContext| entry::acquire(entry, &claim, now, context);
        let (mut answer, _) = self.step(&claim.name, now, published, step)?;
        if again
            && self.has(Bug::CountDuplicates)
            && let Some(SimEntry::Permits(entry)) = self.entries.get_mut(&claim.name)
            && let ClaimKind::Permits { count, .. } = claim.kind
            && matches!(answer, Attempt::Acquired { .. })
        {
            entry.left -= i64::from(count);
        }
        if matches!(answer, Attempt::Busy { .. }) && self.strikes(Bug::GrantWhileBusy, 7) {
            answer = Attempt::Acquired { token: Some(0), lease: claim.lease };
        }
        if matches!(answer, Attempt::Acquired { .. }) {
            let granted = self.granted.entry((claim.name.clone(), claim.owner));
            granted.or_insert((now, now)).1 = now;
        }
        Ok(answer)
    }

    /// Bugs that free what is held.
    fn open_early(&mut self, claim: &Claim, now: Millis) {
        let clock = self.clock(now);
        let early = self.has(Bug::GrantEarly);
        let blind = self.has(Bug::WriterIgnoresReaders);
        match self.entries.get_mut(&claim.name) {
            Some(SimEntry::Hold(entry)) if early => {
                let over = |held: &mut distlock::store::machine::exclusive::TimedHold| {
                    held.owner != claim.owner && held.ttl(clock) < claim.lease / 3
                };
                entry.held.take_if(over);
            }
            Some(SimEntry::Rw(entry)) if blind && matches!(claim.kind, ClaimKind::Write { .. }) => {
                entry.readers.clear();
            }
            _ => {}
        }
    }

    fn acquire_all(
        &mut self,
        claims: &[Claim],
        now: Millis,
        published: &mut Published,
    ) -> Result<AttemptAll> {
        if !self.takes_together {
            return Ok(AttemptAll::NotAtomic);
        }
        let before: Vec<_> =
            claims.iter().map(|claim| self.entries.get(&claim.name).cloned()).collect();
        let mut grants = Vec::with_capacity(claims.len());
        for (at, claim) in claims.iter().enumerate() {
            match self.acquire(claim, false, now, published)? {
                Attempt::Acquired { token, lease } => {
                    grants.push(Grant::new(lease).with_token(token));
                }
                Attempt::Busy { ttl } => {
                    for (claim, before) in claims.iter().zip(before).take(at + 1) {
                        self.put(&claim.name, before, now);
                        self.granted.remove(&(claim.name.clone(), claim.owner));
                    }
                    return Ok(AttemptAll::Busy { at, ttl });
                }
                _ => return Ok(AttemptAll::NotAtomic),
            }
        }
        Ok(AttemptAll::Acquired(grants))
    }

    fn release(
        &mut self,
        claim: &Claim,
        now: Millis,
        published: &mut Published,
    ) -> Result<Released> {
        if self.has(Bug::ReleaseWithoutOwner)
            && let Some(SimEntry::Hold(entry)) = self.entries.get_mut(&claim.name)
            && let Some(held) = &mut entry.held
        {
            held.owner = claim.owner;
        }
        let step =
            |entry, now, context: &dyn MachineContext| entry::release(entry, claim, now, context);
        let (answer, heard_by) = self.step(&claim.name, now, published, step)?;
        Ok(match answer {
            Released::Freed { .. } => Released::Freed { heard_by },
            other => other,
        })
    }

    fn renew(&mut self, claim: &Claim, now: Millis, published: &mut Published) -> Result<Renewed> {
        let step = |entry, now, _: &dyn MachineContext| entry::renew(entry, claim, now);
        let (renewed, _) = self.step(&claim.name, now, published, step)?;
        if self.has(Bug::RenewShortens)
            && renewed.is_held()
            && let until = self.clock(now).after(claim.lease / 4)
            && let Some(SimEntry::Hold(entry)) = self.entries.get_mut(&claim.name)
            && let Some(held) = &mut entry.held
        {
            held.expires = until;
        }
        Ok(match self.has(Bug::RenewWithoutOwner) {
            true => Renewed::Held { for_: claim.lease },
            false => renewed,
        })
    }

    /// One atomic operation on a name, which notifies its subscribers; returns how many those are.
    fn step<T>(
        &mut self,
        name: &Arc<str>,
        now: Millis,
        published: &mut Published,
        step: impl FnOnce(Option<SimEntry>, Moment, &dyn MachineContext) -> Stepped<T>,
    ) -> Result<(T, u32)> {
        let clock = self.clock(now);
        let before = self.entries.get(name).cloned();
        let near = Near {
            subscribers: &self.subscribers,
            name,
            token: Cell::new(self.tokens.get(name).copied().unwrap_or(0)),
            millis: clock.as_nanos() / 1_000_000,
            falls: self.strikes(Bug::TokenFalls, 5),
        };
        let Transition { entry, answer, wake } =
            step(before.clone().filter(|entry| entry.is_live(clock)), clock, &near)?;
        let (last, token) = (self.tokens.get(name).copied().unwrap_or(0), near.token.get());
        if entry != before || token != last {
            self.tail.push_back(Write { name: name.clone(), before, token: last });
            if self.tail.len() > TAIL {
                self.tail.pop_front();
            }
        }
        if token != last {
            self.tokens.insert(name.clone(), token);
        }
        match entry {
            Some(entry) => self.entries.insert(name.clone(), entry),
            None => self.entries.remove(name),
        };
        let hears = |subscriber: &Subscriber| {
            *subscriber.name == **name
                && match wake {
                    Wake::None => false,
                    Wake::All => subscriber.waiter.is_none(),
                    Wake::Waiter(waiter) => subscriber.waiter == Some(waiter),
                }
        };
        let told: Vec<_> = self
            .subscribers
            .iter()
            .filter(|(_, subscriber)| hears(subscriber))
            .map(|(&(number, _), subscriber)| (number, subscriber.connection))
            .collect();
        let heard_by = u32::try_from(told.len()).unwrap_or(u32::MAX);
        if !self.has(Bug::NoWakeUps) {
            published.to.extend(told);
        }
        Ok((answer, heard_by))
    }
}
