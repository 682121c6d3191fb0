//! Nothing is left when it is not held any more; every promise ends with a look for that.

use std::future::{Future, IntoFuture, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::{Ground, HOUR, WAYS, Way, fields, ms, open, secs};
use crate::suites::eventually;

/// A guard that is dropped, one that is forced out, and a lease that ends: what its holder said goes with it.
pub async fn what_was_said_goes_with_the_hold(ground: Ground) {
    let locks = open(&ground, "billing").await;
    for way in WAYS {
        let name = ground.name(&format!("{way:?}"));
        let gone = async |how: &str| {
            let gone = || async { fields(&ground, &name).await.unwrap_or_default() == 0 };
            eventually(&format!("{way:?}: nothing is said after {how}"), gone).await;
            let unheld = || async { way.says(&locks, &name).await.is_none() };
            eventually(&format!("{way:?}: nobody is shown after {how}"), unheld).await;
        };
        drop(way.take(&locks, &name, Some(HOUR), Some("dropped")).await);
        gone("a drop").await;

        let held = way.take(&locks, &name, Some(HOUR), Some("forced")).await;
        assert!(way.force(&locks, &name).await, "{way:?}");
        // In the same step: there is nothing to wait for.
        assert_eq!(fields(&ground, &name).await.unwrap_or_default(), 0, "{way:?}: forced");
        drop(held);
        gone("force").await;

        if way.has_lease() {
            let held = way.take(&locks, &name, Some(ms(300)), Some("expires")).await;
            tokio::time::timeout(secs(10), held.guard().lost()).await.expect("its lease ends");
            gone("its lease").await;
            drop(held);
        }
        way.sweep(&locks, &name).await;
    }
}

/// Forced out by a program that says nothing, and so leaves what was said: the next holder is not mistaken for it, and what was
/// left goes by itself.
pub async fn what_others_leave_is_shown_to_nobody(ground: Ground) {
    let (says, silent) = (open(&ground, "billing").await, ground.open().await);
    for way in WAYS.into_iter().filter(|way| way.has_ttl()) {
        let name = ground.name(&format!("{way:?}"));
        // Long enough to be forced out in, on a machine that stands still for seconds.
        let held = way.take(&says, &name, Some(secs(8)), Some("forced")).await;
        assert!(way.force(&silent, &name).await, "{way:?}");
        let next = way.take(&silent, &name, Some(HOUR), None).await;
        assert_eq!(way.says(&says, &name).await, None, "{way:?}");
        next.unlock().await;
        drop(held);
    }
}

/// A waiter that gives up has said nothing, and neither has one that is cancelled in the middle of its attempt.
pub async fn whoever_does_not_get_it_says_nothing(ground: Ground) {
    let (here, elsewhere) = (open(&ground, "a").await, open(&ground, "b").await);
    for way in [Way::Mutex, Way::Fair, Way::Simple] {
        let name = ground.name(&format!("{way:?}"));
        let held = way.take(&here, &name, Some(HOUR), Some("held")).await;
        let request = match way {
            Way::Fair => elsewhere.fair(&name).try_lock(),
            Way::Simple => elsewhere.simple(&name).try_lock(),
            _ => elsewhere.mutex(&name).try_lock(),
        };
        let got = request.wait(ms(60)).label("late").await.expect("the store answers");
        assert!(got.is_none(), "{way:?}");
        assert_eq!(fields(&ground, &name).await.unwrap_or(1), 1, "{way:?}");
        held.unlock().await;
        for _ in 0..10 {
            let request = match way {
                Way::Fair => elsewhere.fair(&name).lock(),
                Way::Simple => elsewhere.simple(&name).lock(),
                _ => elsewhere.mutex(&name).lock(),
            };
            let mut request = request.label("cancelled").into_future();
            // In memory it is there at once, and dropped as a guard.
            let once =
                |cx: &mut Context<'_>| Poll::Ready(Pin::new(&mut request).poll(cx).is_ready());
            poll_fn(once).await;
            drop(request);
        }
        let gone = || async { fields(&ground, &name).await.unwrap_or_default() == 0 };
        eventually("whoever was cancelled in time has it no more", gone).await;
    }
}
