//! Several locks, all or none.
//!
//! No caller waits while it holds some of them: if one is busy, the others are let go, that one is waited for (in its own
//! lane, by the one wait loop), and with it in hand the others are tried again. So callers that name the same locks in
//! another order cannot keep each other out for ever, and no order has to be agreed on between servers.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::acquiring::{Acquiring, Ask, Wait, acquire_span};
use super::hold::Hold;
use super::kind_rules::Class;
use super::multi_step::{OneStep, attempt_in_one_step};
use super::vitals::State;
use super::{Detached, Engine, releasing};
use crate::env::{BoxFuture, Moment};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::config;
use crate::observe::{Event, Outcome};
use crate::runtime::join::join_all;
use crate::runtime::timeout::timeout;
use crate::store::Kind;

/// One of the locks: where, which, and what is asked.
pub(crate) type Part = (Arc<Engine>, Arc<str>, Ask);

/// How it ended.
pub(crate) enum All {
    Held(Vec<Hold>),
    /// There was no more time, and this one was in the way.
    Busy(Box<Part>),
}

/// After losing a race the next one is begun a little later, by chance, so that two who race do not go on in step.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Takes all, in this order: stores as the caller has them, names sorted within a store.
pub(crate) async fn acquire_all(parts: Vec<Part>, wait: Wait) -> Result<All> {
    let mut request = Request::new(&parts);
    let span = acquire_span(Kind::Multi, &request.names);
    let answer = take_all(parts, wait).instrument(span).await;
    let held = match &answer {
        Ok(All::Held(_)) => Ok(Some(())),
        Ok(All::Busy(_)) => Ok(None),
        Err(e) => Err(e.clone()),
    };
    request.outcome = Outcome::of(&held, wait);
    answer
}

/// What observers are notified of for all together, however the request ends.
struct Request {
    engine: Option<Arc<Engine>>,
    names: String,
    start: Moment,
    outcome: Outcome,
}

impl Request {
    fn new(parts: &[Part]) -> Request {
        let names: Vec<&str> = parts.iter().map(|(_, name, _)| &**name).collect();
        let engine = parts.first().map(|(engine, ..)| engine.clone());
        let start = engine.as_ref().map_or(Moment::NEVER, |engine| engine.env.now());
        let request =
            Request { engine, names: names.join(", "), start, outcome: Outcome::Cancelled };
        request.observe(Event::Asked);
        request
    }

    fn observe(&self, event: Event) {
        if let Some(engine) = &self.engine {
            engine.observe(Kind::Multi, &self.names, event);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(engine) = &self.engine {
            let waited = engine.env.now().since(self.start);
            self.observe(Event::Answered { outcome: self.outcome, waited });
        }
    }
}

async fn take_all(parts: Vec<Part>, wait: Wait) -> Result<All> {
    let mut parts = in_order(parts);
    let Some(env) = parts.first().map(|(engine, ..)| engine.env.clone()) else {
        return Err(Error::new(
            ErrorKind::Config,
            "a multi lock has no members: name at least one lock",
        ));
    };
    let deadline = match wait {
        Wait::Once => env.now(),
        Wait::For(wait) => env.now().after(wait),
        Wait::Forever => Moment::NEVER,
    };
    if parts.len() == 1 {
        loop {
            match take(&parts[0], wait).await? {
                Some(hold) if !hold.tenure.collect() => {} // came too late for it: begin anew
                Some(hold) => return Ok(All::Held(vec![hold])),
                None => return Ok(All::Busy(Box::new(parts.swap_remove(0)))),
            }
        }
    }
    let mut had: Vec<Option<Hold>> = parts.iter().map(|_| None).collect();
    let mut races = 0;
    under_one_owner(&mut parts);
    loop {
        let busy = match try_the_rest(&parts, &mut had).await {
            Ok(None) => match collect(&had) {
                None => return Ok(All::Held(had.into_iter().flatten().collect())),
                Some(busy) => busy,
            },
            Ok(Some(busy)) => busy,
            Err(e) => return Err(undo(e, had).await),
        };
        // In the background; a caller of this process that asks for them again waits for that.
        had.iter_mut().for_each(|hold| *hold = None);
        under_one_owner(&mut parts);
        if matches!(wait, Wait::Once) || env.now() >= deadline {
            return Ok(All::Busy(Box::new(parts.swap_remove(busy))));
        }
        if races > 0 {
            let longest = Duration::from_millis(1 << races.min(5)).min(LONGEST_PAUSE);
            let pause = Duration::from_nanos(env.random() % longest.as_nanos() as u64);
            env.sleep_until(env.now().after(pause).min(deadline)).await;
        }
        races += 1;
        let wait = match deadline {
            Moment::NEVER => Wait::Forever,
            deadline => Wait::For(deadline.since(env.now())),
        };
        match take(&parts[busy], wait).await? {
            Some(hold) => had[busy] = Some(hold),
            None => return Ok(All::Busy(Box::new(parts.swap_remove(busy)))),
        }
    }
}

/// The caller's stores in the caller's order, names sorted within each, none twice.
fn in_order(parts: Vec<Part>) -> Vec<Part> {
    let mut stores: Vec<String> = Vec::new();
    let mut placed: Vec<(usize, Part)> = Vec::with_capacity(parts.len());
    for part in parts {
        // By place: two connections to one server are one store, and would wait for each other for ever.
        let place = part.0.store.place();
        let at = stores.iter().position(|store| *store == place).unwrap_or_else(|| {
            stores.push(place);
            stores.len() - 1
        });
        placed.push((at, part));
    }
    placed.sort_by(|(a, (_, an, aa)), (b, (_, bn, ba))| {
        // A writer may read besides, a reader not write besides: the writer first.
        let reads = |ask: &Ask| ask.what.class() == Class::Read;
        (a, an, reads(aa)).cmp(&(b, bn, reads(ba)))
    });
    placed.dedup_by(|(a, (_, an, aa)), (b, (_, bn, ba))| {
        // Twice two permits are four.
        a == b && an == bn && aa.what.class() == ba.what.class() && aa.what.reenters()
    });
    placed.into_iter().map(|(_, part)| part).collect()
}

/// Has all of them belong to one new owner, unless the caller has named one; permits have one each. New for every round:
/// what a round before may have left undone belongs to another.
fn under_one_owner(parts: &mut [Part]) {
    let mut one = None;
    for (engine, _, ask) in parts.iter_mut().filter(|(_, _, ask)| !ask.explicit) {
        ask.owner = match ask.what.reenters() {
            true => *one.get_or_insert_with(|| engine.mint_owner()),
            false => engine.mint_owner(),
        };
        ask.stay = ask.owner;
    }
}

/// Tries those that are missing, once each. Says which one is busy, if one is.
async fn try_the_rest(parts: &[Part], had: &mut [Option<Hold>]) -> Result<Option<usize>> {
    while let Some(at) = had.iter().position(Option::is_none) {
        let (store, _, first) = &parts[at];
        let alike = |((engine, _, ask), hold): &(&Part, &Option<Hold>)| {
            let one = Arc::ptr_eq(engine, store) && ask.owner == first.owner;
            hold.is_none() && one && ask.is_plain()
        };
        let count = parts[at..].iter().zip(&had[at..]).take_while(alike).count();
        if count > 1 {
            let group = parts[at..at + count].to_vec();
            let together =
                Detached::new(&store.env, |adoptable| attempt_in_one_step(group, adoptable));
            // If it was cut off, single tries find out what became of it.
            let together = async { together.await.unwrap_or(Ok(OneStep::OneByOne)) };
            match alone(parts, had, at, together).await.map_err(|e| about(e, &parts[at]))? {
                OneStep::Won(holds) => {
                    for (place, hold) in had[at..].iter_mut().zip(holds) {
                        *place = Some(hold);
                    }
                    continue;
                }
                OneStep::Busy(busy) => return Ok(Some(at + busy)),
                OneStep::OneByOne => {}
            }
        }
        match alone(parts, had, at, take(&parts[at], Wait::Once)).await? {
            Some(hold) => had[at] = Some(hold),
            None => return Ok(Some(at)),
        }
    }
    // The first of them may have ended while the last was taken.
    Ok(had.iter().flatten().position(|hold| hold.state() == State::Lost))
}

/// The caller has come for all of them. Says which one has been withdrawn meanwhile, if one has.
fn collect(had: &[Option<Hold>]) -> Option<usize> {
    had.iter().position(|hold| hold.as_ref().is_some_and(|hold| !hold.tenure.collect()))
}

/// Asks for one, or some of one store. Whatever takes longer than an answer does is waited for without the others.
async fn alone<T>(
    parts: &[Part],
    had: &mut [Option<Hold>],
    at: usize,
    asking: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut asking = pin!(asking);
    let more = config::REPLY_TIMEOUT * 2 + config::UNCOLLECTED;
    had.iter().flatten().for_each(|hold| hold.tenure.reserve(more));
    if let Some(answer) = timeout(&*parts[at].0.env, config::REPLY_TIMEOUT, &mut asking).await {
        return answer;
    }
    had.iter_mut().for_each(|hold| *hold = None);
    asking.await
}

async fn take(part: &Part, wait: Wait) -> Result<Option<Hold>> {
    let (engine, name, ask) = part;
    let what = ask.what.waiting(wait, engine.tuning.fair_patience);
    let ask = Ask { wait, what, part: true, ..ask.clone() };
    let asking = Acquiring::new(engine.clone(), name, ask);
    asking.await.map_err(|e| about(e, part))
}

/// Names of locks repeat from server to server, so an error about one of several also says which server.
fn about(error: Error, (engine, name, ask): &Part) -> Error {
    error.at(&engine.store.place()).about(ask.kind, name)
}

/// Lets go of what was had before one failed, and says what went wrong with that too. What takes longer than an answer does
/// goes on in the background.
async fn undo(error: Error, had: Vec<Option<Hold>>) -> Error {
    let holds: Vec<Hold> = had.into_iter().flatten().collect();
    let Some(env) = holds.first().map(|hold| hold.tenure.engine.env.clone()) else { return error };
    match timeout(&*env, config::REPLY_TIMEOUT, unlock_all(holds)).await {
        Some(Err(more)) => error.and(&more),
        Some(Ok(())) | None => error,
    }
}

/// Lets go of all at once, the last one first, and says everything that went wrong. A member that was lost comes first: it decides
/// what the work was worth, a release that got no answer does not.
pub(crate) async fn unlock_all(holds: Vec<Hold>) -> Result<()> {
    let mut work: Vec<BoxFuture<'static, Result<()>>> = Vec::with_capacity(holds.len());
    for hold in holds.into_iter().rev() {
        let place = hold.tenure.engine.store.place();
        work.push(Box::pin(async move { releasing::unlock(hold).await.map_err(|e| e.at(&place)) }));
    }
    let answers = join_all(work).await;
    let mut troubles: Vec<Error> = answers.into_iter().rev().filter_map(Result::err).collect();
    troubles.sort_by_key(|trouble| trouble.kind() != ErrorKind::Lost);
    let all = troubles.into_iter().reduce(|first, next| first.and(&next));
    all.map_or(Ok(()), Err)
}
