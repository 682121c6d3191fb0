//! Keeps what is known of a fleet true: asks again when something is in doubt, and now and then besides.
//!
//! A subscriber is not told when its server becomes a replica, and hears less from then on; so that is looked for.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::fleet::Shared;
use crate::env::{Env, Moment};
use crate::redis::pubsub::Doubt;

/// The shortest and the longest time between two surveys: a storm of redirections is one question, and a shard that is
/// down for long is no reason to ask without a pause.
const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_LONGEST: Duration = Duration::from_millis(500);

/// Runs until the fleet is dropped.
pub(crate) async fn keep(fleet: Weak<Shared>, doubt: Arc<Doubt>, env: Arc<dyn Env>) {
    let mut pause = PAUSE_FIRST;
    loop {
        let round = fleet.upgrade().and_then(|fleet| fleet.round());
        let round = round.map_or(Moment::NEVER, |round| soon(&*env, round));
        let due = match doubt.is_raised() {
            true => true,
            false => tokio::select! {
                () = doubt.news.notified() => doubt.is_raised(),
                () = sleep(&*env, round) => true,
            },
        };
        let Some(fleet) = fleet.upgrade() else { return };
        // It may be woken for that while the fleet is still being dropped, and nothing would wake it again.
        if doubt.is_closed() {
            return;
        }
        if !due {
            continue;
        }
        let asked_for = doubt.take();
        tokio::select! {
            renewed = fleet.renew() => pause = match renewed {
                Ok(false) if asked_for => (pause * 2).min(PAUSE_LONGEST),
                Ok(_) => PAUSE_FIRST,
                Err(why) => {
                    let what = match fleet.source.has_one() {
                        true => "cannot find out which server is the primary",
                        false => "cannot read the slot map of the cluster",
                    };
                    tracing::debug!(target: "distlock", error = %why, "{what}");
                    // Nobody else may notice that it still is in doubt.
                    doubt.raise();
                    (pause * 2).min(PAUSE_LONGEST)
                }
            },
            () = doubt.closed() => return,
        }
        drop(fleet);
        env.sleep_until(soon(&*env, pause)).await;
    }
}

async fn sleep(env: &dyn Env, until: Moment) {
    match until {
        Moment::NEVER => std::future::pending().await,
        until => env.sleep_until(until).await,
    }
}

/// Between half and all of it, so that clients of one fleet do not ask in step.
fn soon(env: &dyn Env, pause: Duration) -> Moment {
    let jitter = env.random() as u32 as f64 / f64::from(u32::MAX);
    env.now().after(pause.mul_f64(0.5 + jitter / 2.0))
}
