//! Holds that take long are warned of.

use std::future::IntoFuture;
use std::sync::{Arc, Mutex};

use distlock::{Event, Observer, Subject};

use super::{Ground, HOUR, WAYS, Way, ms, secs};
use crate::cancel::poll_once;
use crate::suites::{Recorder, eventually};

/// Renewed and leased alike: one warning, while it is held.
pub async fn a_hold_that_takes_long_is_warned_of_once(ground: Ground) {
    let seen = Recorder::new();
    let builder = ground.builder().observer(seen.clone()).watchdog(secs(5)).slow_hold(ms(200));
    let locks = builder.connect().await.expect("the store can be opened");
    let mut held = Vec::new();
    for way in WAYS {
        for lease in [None, Some(HOUR)] {
            let name = ground.name(&format!("{way:?}{}", lease.is_some()));
            held.push((way, name.clone(), way.take(&locks, &name, lease, None).await));
        }
    }
    for (way, name, _) in &held {
        let warned = || async { seen.count(name, "slow") == 1 };
        eventually(&format!("{way:?}: a warning"), warned).await;
        let slow = seen.of(name).into_iter().find_map(|event| match event {
            Event::SlowHold { held } => Some(held),
            _ => None,
        });
        assert!(slow.is_some_and(|held| held >= ms(200)), "{way:?}: {slow:?}");
    }
    // Several times as long: no second one.
    tokio::time::sleep(ms(900)).await;
    for (way, name, held) in held {
        assert_eq!(seen.count(&name, "slow"), 1, "{way:?}");
        held.unlock().await;
        way.sweep(&locks, &name).await;
    }
}

/// What is released in time is never warned of; an heir counts from when it got in.
pub async fn what_was_released_in_time_is_not_warned_of(ground: Ground) {
    let seen = Recorder::new();
    let slow = secs(8);
    let builder = ground.builder().observer(seen.clone()).slow_hold(slow);
    let locks = builder.connect().await.expect("the store can be opened");
    let name = ground.name("k");
    for _ in 0..20 {
        drop(locks.mutex(&name).lock().await.expect("it is free"));
    }
    let first = locks.mutex(&name).lock().await.expect("it is free");
    let mut waiter = locks.mutex(&name).lock().into_future();
    poll_once(&mut waiter).await;
    // In real time this promise is about what is not there anyway, and need not take long.
    let time = if ground.site() == super::Site::Virtual { slow / 2 + secs(1) } else { ms(50) };
    tokio::time::sleep(time).await;
    first.unlock().await.expect("it was held");
    let heir = waiter.await.expect("it gets free");
    tokio::time::sleep(time).await;
    heir.unlock().await.expect("it was held");
    tokio::time::sleep(2 * time).await;
    assert_eq!(seen.count(&name, "slow"), 0);
}

/// What a hold is for is told with what happens to it.
pub async fn a_warning_says_what_the_hold_is_for(ground: Ground) {
    #[derive(Debug, Default)]
    struct Labels(Mutex<Vec<Option<String>>>);
    impl Observer for Labels {
        fn observe(&self, lock: Subject<'_>, event: Event) {
            if let Event::SlowHold { .. } = event {
                let label = lock.label.map(str::to_owned);
                self.0.lock().expect("nothing panics here").push(label);
            }
        }
    }
    let labels = Arc::new(Labels::default());
    let builder = ground.saying("billing").observer(labels.clone()).slow_hold(ms(50));
    let locks = builder.connect().await.expect("the store can be opened");
    let held = Way::Mutex.take(&locks, &ground.name("k"), Some(HOUR), Some("ship order")).await;
    let told = || async { !labels.0.lock().expect("nothing panics here").is_empty() };
    eventually("a warning", told).await;
    let told = labels.0.lock().expect("nothing panics here").clone();
    assert_eq!(told, [Some("ship order".to_owned())]);
    held.unlock().await;
}
