//! Several locks, all or none.
//!
//! Nobody waits while it holds something: if one of them is busy, the others are let go, that one is waited for (in its own
//! lane, by the one wait loop), and with it in hand the others are tried again. So callers that name the same locks in
//! another order cannot keep each other out for ever, and no order has to be agreed on between servers.

use std::sync::Arc;
use std::time::Duration;

use super::acquire::{Acquiring, Ask, Wait};
use super::attempt::{Together, attempt_together};
use super::hold::Hold;
use super::{Detached, Engine, release};
use crate::env::Moment;
use crate::error::{Error, Result};

/// One of the locks: where, which, and what is asked.
pub(crate) type Part = (Arc<Engine>, Arc<str>, Ask);

/// After losing a race the next one is begun a little later, by chance, so that two who race do not go on in step.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Takes all, in this order: stores as the caller has them, names sorted within a store.
pub(crate) async fn acquire_all(parts: Vec<Part>, wait: Wait) -> Result<Option<Vec<Hold>>> {
    let parts = in_order(parts);
    let Some(env) = parts.first().map(|(engine, ..)| engine.env.clone()) else {
        return Ok(Some(Vec::new()));
    };
    let deadline = match wait {
        Wait::Once => env.now(),
        Wait::For(wait) => env.now().after(wait),
        Wait::Forever => Moment::NEVER,
    };
    let mut had: Vec<Option<Hold>> = parts.iter().map(|_| None).collect();
    let mut races = 0;
    loop {
        let busy = match try_the_rest(&parts, &mut had).await? {
            None => return Ok(Some(had.into_iter().flatten().collect())),
            Some(busy) => busy,
        };
        // In the background; whoever of this process asks for them again waits for that.
        had.iter_mut().for_each(|hold| *hold = None);
        if matches!(wait, Wait::Once) || env.now() >= deadline {
            return Ok(None);
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
            None => return Ok(None),
        }
    }
}

/// The caller's stores in the caller's order, names sorted within each, none twice.
fn in_order(parts: Vec<Part>) -> Vec<Part> {
    let mut stores: Vec<Arc<Engine>> = Vec::new();
    for (engine, ..) in &parts {
        if !stores.iter().any(|store| Arc::ptr_eq(store, engine)) {
            stores.push(engine.clone());
        }
    }
    let at = |engine: &Arc<Engine>| stores.iter().position(|store| Arc::ptr_eq(store, engine));
    let mut parts = parts;
    parts.sort_by(|(a, an, _), (b, bn, _)| at(a).cmp(&at(b)).then_with(|| an.cmp(bn)));
    parts.dedup_by(|(a, an, aa), (b, bn, ba)| {
        Arc::ptr_eq(a, b) && an == bn && aa.what.class() == ba.what.class()
    });
    parts
}

/// Tries those that are missing, once each. Says which one is busy, if one is.
async fn try_the_rest(parts: &[Part], had: &mut [Option<Hold>]) -> Result<Option<usize>> {
    let mut at = 0;
    while at < parts.len() {
        if had[at].is_some() {
            at += 1;
            continue;
        }
        let store = &parts[at].0;
        let alike = |(part, hold): &(&Part, &Option<Hold>)| {
            hold.is_none() && Arc::ptr_eq(&part.0, store) && part.2.is_plain()
        };
        let count = parts[at..].iter().zip(&had[at..]).take_while(alike).count();
        if count > 1 {
            let group = parts[at..at + count].to_vec();
            match Detached::new(&store.env, attempt_together(group)).await? {
                Together::Won(holds) => {
                    for (place, hold) in had[at..].iter_mut().zip(holds) {
                        *place = Some(hold);
                    }
                    at += count;
                    continue;
                }
                Together::Busy(busy) => return Ok(Some(at + busy)),
                Together::Apart => {}
            }
        }
        match take(&parts[at], Wait::Once).await? {
            Some(hold) => had[at] = Some(hold),
            None => return Ok(Some(at)),
        }
        at += 1;
    }
    Ok(None)
}

async fn take((engine, name, ask): &Part, wait: Wait) -> Result<Option<Hold>> {
    let what = ask.what.waiting(wait, engine.fair_patience);
    Acquiring::new(engine.clone(), name, Ask { wait, what, ..ask.clone() }).await
}

/// Lets go of all, the last one first, and says everything that went wrong.
pub(crate) async fn unlock_all(holds: Vec<Hold>) -> Result<()> {
    let mut troubles: Vec<Error> = Vec::new();
    for hold in holds.into_iter().rev() {
        if let Err(e) = release::unlock(hold).await {
            troubles.push(e);
        }
    }
    let Some(first) = troubles.first() else { return Ok(()) };
    if troubles.len() == 1 {
        return Err(first.clone());
    }
    let all: Vec<String> = troubles.iter().map(Error::to_string).collect();
    Err(Error::new(first.kind(), all.join("; ")))
}
