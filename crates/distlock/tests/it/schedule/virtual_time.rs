//! On a clock that stands still unless everybody waits, so that hours cost nothing.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use distlock::ErrorKind;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::schedule::Runs;
use crate::schedule::fleet::{Fleet, PERIOD, SECOND};

#[tokio::test(start_paused = true)]
async fn five_nodes_run_each_of_a_hundred_ticks_once() {
    let mut fleet = Fleet::new(100);
    for node in 0..5_u32 {
        // Some are done before others look, some are not.
        fleet.node(Duration::ZERO, Duration::ZERO, node * Duration::from_millis(300)).await;
    }
    fleet.end().await;
    fleet.runs.assert_each_once(&fleet.ticks);
}

#[tokio::test(start_paused = true)]
async fn clocks_that_differ_by_more_than_a_period_run_each_tick_once() {
    let mut fleet = Fleet::new(100);
    for (ahead, behind) in [(0, 0), (0, 7), (61, 0), (0, 150), (600, 0)] {
        fleet.node(ahead * SECOND, behind * SECOND, SECOND).await;
    }
    fleet.end().await;
    fleet.runs.assert_each_once(&fleet.ticks);
    let last = fleet.runs.all().last().copied().unwrap();
    assert_eq!(last.1, 4, "the one that is ahead is the first to come");
}

/// The fastest clock goes away in the middle: the others go on where it stopped.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_ahead_and_goes_away_leaves_no_gap() {
    let mut fleet = Fleet::new(50);
    fleet.node(Duration::ZERO, Duration::ZERO, SECOND).await;
    fleet.node(Duration::ZERO, 5 * SECOND, SECOND).await;
    let fast = fleet.locks(200 * SECOND, Duration::ZERO).await;
    let (runs, ticks) = (fleet.runs.clone(), fleet.ticks.clone());
    let stop = sleep(3600 * SECOND + 20 * PERIOD);
    let job = |tick: distlock::Tick| {
        runs.note(&tick, 9);
        async {}
    };
    fast.schedule("job").times(ticks).until(stop).run(job).await.unwrap();
    fleet.end().await;
    fleet.runs.assert_each_once(&fleet.ticks);
    let nodes: Vec<usize> = fleet.runs.all().iter().map(|run| run.1).collect();
    assert!(nodes.contains(&9) && nodes.last() != Some(&9), "{nodes:?}");
}

#[tokio::test(start_paused = true)]
async fn runs_that_are_longer_than_the_period_do_not_overlap_and_coalesce() {
    let fleet = Fleet::new(40);
    let inside = Arc::new(AtomicU32::new(0));
    let mut nodes = JoinSet::new();
    for node in 0..3 {
        let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
        let (runs, ticks, inside) = (fleet.runs.clone(), fleet.ticks.clone(), inside.clone());
        nodes.spawn(async move {
            let job = |tick: distlock::Tick| {
                runs.note(&tick, node);
                let inside = inside.clone();
                async move {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two run at once");
                    sleep(PERIOD * 5 / 2).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                }
            };
            locks.schedule("job").times(ticks).run(job).await
        });
    }
    while let Some(node) = nodes.join_next().await {
        node.unwrap().unwrap();
    }
    let ran = fleet.runs.by_tick();
    assert!(ran.values().all(|nodes| nodes.len() == 1), "{ran:?}");
    // Two and a half periods each: it runs on without a gap, and always the latest tick.
    let first_and_last = (ran.first_key_value().unwrap().0, ran.last_key_value().unwrap().0);
    assert_eq!(first_and_last, (&fleet.ticks[0], &fleet.ticks[39]));
    assert!((16..=17).contains(&ran.len()), "{} runs", ran.len());
    let order: Vec<SystemTime> = fleet.runs.all().iter().map(|run| run.0).collect();
    assert!(order.is_sorted());
}

/// What a job that is dropped in the middle leaves to the others: nothing, or its tick.
#[tokio::test(start_paused = true)]
async fn whoever_waits_behind_a_node_that_went_away_takes_its_tick_over_only_if_asked_to() {
    for retry in [false, true] {
        let fleet = Fleet::new(2);
        let mut nodes = Vec::new();
        for node in 0..3 {
            let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
            let schedule = locks.schedule("job").times(fleet.ticks.clone());
            let schedule = if retry { schedule.retry_if_died() } else { schedule };
            let runs = fleet.runs.clone();
            nodes.push(tokio::spawn(async move {
                let job = move |tick: distlock::Tick| {
                    runs.note(&tick, node);
                    let hangs = runs.count() == 1;
                    async move {
                        if hangs {
                            pending().await
                        }
                    }
                };
                schedule.run(job).await
            }));
        }
        sleep(3600 * SECOND + SECOND).await;
        let began = fleet.runs.all();
        assert_eq!(began.len(), 1, "{began:?}");
        nodes.remove(began[0].1).abort();
        for node in nodes {
            node.await.unwrap().unwrap();
        }
        let ran = fleet.runs.by_tick();
        assert_eq!(ran[&fleet.ticks[0]].len(), if retry { 2 } else { 1 }, "{ran:?}");
        assert_eq!(ran[&fleet.ticks[1]].len(), 1, "{ran:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_stops_the_job_and_the_schedule_goes_on() {
    let fleet = Fleet::new(2);
    let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
    let thief = locks.clone();
    let runs = fleet.runs.clone();
    let job = |tick: distlock::Tick| {
        runs.note(&tick, 0);
        let thief = thief.clone();
        async move {
            thief.mutex("job").force_unlock().await.unwrap();
            tick.scope().lost().await;
            pending().await
        }
    };
    locks.schedule("job").times(fleet.ticks.clone()).run(job).await.unwrap();
    fleet.runs.assert_each_once(&fleet.ticks);
}

/// There is no other node that could, so the one that lost its lock does.
#[tokio::test(start_paused = true)]
async fn a_node_alone_that_lost_its_lock_runs_the_tick_again_if_asked_to() {
    let fleet = Fleet::new(2);
    let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
    let (thief, runs) = (locks.clone(), fleet.runs.clone());
    let job = |tick: distlock::Tick| {
        runs.note(&tick, 0);
        let steal = (runs.count() == 1).then(|| thief.clone());
        async move {
            if let Some(thief) = steal {
                thief.mutex("job").force_unlock().await.unwrap();
                tick.scope().lost().await;
                pending().await
            }
        }
    };
    locks.schedule("job").times(fleet.ticks.clone()).retry_if_died().run(job).await.unwrap();
    let ran: Vec<SystemTime> = fleet.runs.all().iter().map(|run| run.0).collect();
    assert_eq!(ran, [fleet.ticks[0], fleet.ticks[0], fleet.ticks[1]]);
}

/// A node began with its clock two days ahead, which is mended before it has run anything.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_costs_no_ticks() {
    let (fleet, day) = (Fleet::new(1), 24 * 3600 * SECOND);
    let (locks, clock) = fleet.with_clock(2 * day).await;
    let runs = fleet.runs.clone();
    let job = move |tick: distlock::Tick| {
        runs.note(&tick, 0);
        async {}
    };
    // At the first tick of the fleet, which is in an hour, and each hour after it.
    let phase = fleet.ticks[0].duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() % 3600;
    let schedule = locks.schedule("job").every(3600 * SECOND).offset(phase as u32 * SECOND);
    let node = tokio::spawn(schedule.run(job));
    sleep(600 * SECOND).await;
    clock.set(Duration::ZERO);
    sleep(4 * 3600 * SECOND).await;
    node.abort();
    let hours: Vec<_> = (0..4).map(|hour| fleet.ticks[0] + hour * 3600 * SECOND).collect();
    fleet.runs.assert_each_once(&hours);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_the_job_finish_and_leaves_the_lock_free() {
    let fleet = Fleet::new(100);
    let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
    let (begun, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let token = tokio_util::sync::CancellationToken::new();
    let schedule = locks.schedule("job").every(PERIOD).until(token.clone().cancelled_owned());
    let job = |_| {
        let (begun, ended, token) = (begun.clone(), ended.clone(), token.clone());
        async move {
            if begun.fetch_add(1, Ordering::SeqCst) == 3 {
                token.cancel();
            }
            sleep(SECOND).await;
            ended.fetch_add(1, Ordering::SeqCst);
        }
    };
    schedule.run(job).await.unwrap();
    assert_eq!((begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst)), (4, 4));
    assert!(!locks.mutex("job").is_locked().await.unwrap());
    // Told before it begins: nothing is begun.
    let stopped = locks.schedule("job").every(PERIOD).until(async {});
    stopped.run(|_| async { panic!("it was stopped") }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_said_and_a_wrong_clock_is_forgotten() {
    let fleet = Fleet::new(1);
    let locks = fleet.locks(Duration::ZERO, Duration::ZERO).await;
    let never = |_| async { panic!("it never runs") };
    let without = locks.schedule("job").run(never).await.unwrap_err();
    assert_eq!(without.kind(), ErrorKind::Config);
    let short = locks.schedule("job").every(Duration::ZERO).run(never).await.unwrap_err();
    assert_eq!(short.kind(), ErrorKind::InvalidDuration);
    let late = locks.schedule("job").every(PERIOD).offset(Duration::MAX);
    assert_eq!(late.run(never).await.unwrap_err().kind(), ErrorKind::InvalidDuration);
    let nameless = locks.schedule("").every(PERIOD).run(never).await.unwrap_err();
    assert_eq!(nameless.kind(), ErrorKind::InvalidName);

    // A node from next year runs one tick, and nobody anything after it.
    let year = 365 * 24 * 3600 * SECOND;
    let wrong = fleet.locks(year, Duration::ZERO).await;
    let next_year = fleet.ticks[0] + year;
    wrong.schedule("job").times([next_year]).run(|_| async {}).await.unwrap();
    let late = fleet.ticks[0] + PERIOD;
    locks.schedule("job").times([late]).run(never).await.unwrap();
    assert!(locks.schedule("job").forget().await.unwrap());
    let runs = Runs::default();
    let last = late + PERIOD;
    let job = |tick: distlock::Tick| {
        runs.note(&tick, 0);
        async {}
    };
    locks.schedule("job").times([last]).run(job).await.unwrap();
    runs.assert_each_once(&[last]);
}
