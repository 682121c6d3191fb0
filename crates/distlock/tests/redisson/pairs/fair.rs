//! `fair` beside `RedissonClient.getFairLock`: one queue for both.

use distlock::{Guard, Locks, Result};
use distlock_testkit::peer::{Entry, Pending, Thread};
use distlock_testkit::suites::eventually;
use distlock_testkit::worker;
use tokio::task::JoinHandle;

use crate::pairs::asleep;

exclusive_beside_java!(fair, Kind::Fair, Line::Queue);

/// One in the queue, of either side.
enum Waiter {
    Java(Thread, Pending<Entry>),
    Rust(JoinHandle<Result<Guard>>),
}

/// One that has come in.
enum Inside {
    Java(Thread),
    Rust(Guard),
}

impl Waiter {
    /// Takes a place behind those who are there, and listens.
    async fn java(pair: &Pair, thread: &Thread, name: &str) -> Waiter {
        let before = pair.queue(name).await;
        let waiting = thread.lock_for(JAVA, name, HOUR);
        one_more(pair, name, &before).await;
        Waiter::Java(thread.clone(), waiting)
    }

    async fn rust(pair: &Pair, locks: &Locks, name: &str) -> Waiter {
        let before = pair.queue(name).await;
        let waiting = tokio::spawn(locks.fair(name).lock().lease(HOUR).into_future());
        one_more(pair, name, &before).await;
        Waiter::Rust(waiting)
    }

    fn is_in(&mut self) -> bool {
        match self {
            Waiter::Java(_, waiting) => waiting.is_done(),
            Waiter::Rust(waiting) => waiting.is_finished(),
        }
    }

    async fn enters(self) -> Inside {
        match self {
            Waiter::Java(thread, waiting) => {
                waiting.within(secs(30)).await;
                Inside::Java(thread)
            }
            Waiter::Rust(waiting) => {
                let guard = timeout(secs(30), waiting).await.expect("it is called");
                Inside::Rust(guard.expect("no panic").expect("it gets free"))
            }
        }
    }
}

/// Waits until somebody is in the queue who was not before, and listens. One of the others may leave meanwhile.
async fn one_more(pair: &Pair, name: &str, before: &[String]) {
    let listens = || async {
        let queue = pair.queue(name).await;
        let Some(owner) = queue.iter().find(|owner| !before.contains(owner)) else { return false };
        pair.channels().await.contains(&format!("redisson_lock__channel:{{{name}}}:{owner}"))
    };
    eventually("one more is in the queue", listens).await;
}

impl Inside {
    async fn leaves(self, name: &str) {
        match self {
            Inside::Java(thread) => drop(thread.unlock(JAVA, name).await),
            Inside::Rust(guard) => guard.unlock().await.expect("it was held"),
        }
    }
}

/// One after the other comes in, and leaves, while those behind it wait.
async fn in_turn(line: Vec<Waiter>, name: &str) {
    let mut line = line.into_iter();
    while let Some(next) = line.next() {
        let inside = next.enters().await;
        let too_early = line.as_mut_slice().iter_mut().any(Waiter::is_in);
        assert!(!too_early, "somebody was overtaken");
        inside.leaves(name).await;
    }
}

/// Whoever asked first gets in first, whichever side it is on and whoever held it before.
pub(super) async fn a_mixed_queue_keeps_its_order(pair: Pair) {
    let name = pair.name("k");
    let (here, elsewhere) = (pair.rust().await, pair.rust().await);
    let threads: Vec<Thread> = (0..5).map(|n| pair.java(&format!("t{n}"))).collect();
    for round in 0..4 {
        let first = match round % 2 {
            0 => Inside::Rust(here.fair(&name).lock().lease(HOUR).await.expect("it is free")),
            _ => {
                threads[4].lock_for(JAVA, &name, HOUR).await;
                Inside::Java(threads[4].clone())
            }
        };
        // Java Rust Java Rust …, and the other way round, with two of a kind in the middle.
        let mut line = Vec::new();
        for place in 0..8 {
            let rust = (place + place / 4 + round) % 2 == 1;
            line.push(match rust {
                true => Waiter::rust(&pair, [&here, &elsewhere][place / 2 % 2], &name).await,
                false => Waiter::java(&pair, &threads[place / 2], &name).await,
            });
        }
        first.leaves(&name).await;
        in_turn(line, &name).await;
    }
}

/// Java leaves the queue when its wait is over: the others keep their places.
pub(super) async fn a_wait_of_javas_that_runs_out_leaves_the_others_in_line(pair: Pair) {
    let name = pair.name("k");
    let locks = pair.rust().await;
    let threads: Vec<Thread> = (0..4).map(|n| pair.java(&format!("t{n}"))).collect();
    for impatient_at in 0..3 {
        let guard = locks.fair(&name).lock().lease(HOUR).await.expect("it is free");
        let mut line = Vec::new();
        let mut impatient = None;
        for place in 0..4 {
            if place == impatient_at {
                let (pair, name, owner) = (&pair, &name, &threads[3].owner().await);
                let mut waiting = threads[3].try_lock(JAVA, name, IN_VAIN, Some(HOUR));
                // On a machine that stands still its wait may be over before anybody looks.
                let placed = || {
                    let over = waiting.is_done();
                    async move { over || pair.queue(name).await.contains(owner) }
                };
                eventually("it has its place", placed).await;
                impatient = Some(waiting);
            }
            line.push(match place % 2 {
                0 => Waiter::java(&pair, &threads[place / 2], &name).await,
                _ => Waiter::rust(&pair, &locks, &name).await,
            });
        }
        let impatient = impatient.expect("it has its place").await;
        assert!(impatient.is_none(), "two are inside");
        pair.queued(&name, 4).await;
        guard.unlock().await.expect("it was held");
        in_turn(line, &name).await;
    }
}

/// A request of ours that is dropped leaves the queue: the others keep their places.
pub(super) async fn a_request_of_ours_that_is_dropped_leaves_the_others_in_line(pair: Pair) {
    let name = pair.name("k");
    let locks = pair.rust().await;
    let threads: Vec<Thread> = (0..3).map(|n| pair.java(&format!("t{n}"))).collect();
    for dropped_at in 0..3 {
        threads[2].lock_for(JAVA, &name, HOUR).await;
        let mut line = Vec::new();
        let mut dropped = None;
        for place in 0..4 {
            if place == dropped_at {
                dropped = Some(Waiter::rust(&pair, &locks, &name).await);
            }
            line.push(match place % 2 {
                0 => Waiter::java(&pair, &threads[place / 2], &name).await,
                _ => Waiter::rust(&pair, &locks, &name).await,
            });
        }
        if let Some(Waiter::Rust(waiting)) = dropped {
            waiting.abort();
        }
        pair.queued(&name, 4).await;
        threads[2].unlock(JAVA, &name).await;
        in_turn(line, &name).await;
    }
}

/// A JVM that is killed in the queue costs those behind it seconds, of either side.
pub(super) async fn a_dead_waiter_of_javas_costs_seconds(pair: Pair) {
    let name = pair.name("k");
    let doomed = pair.own_peer().await;
    let (dead, other) = (doomed.thread("a"), doomed.thread("b"));
    let locks = pair.rust().await;
    let guard = locks.fair(&name).lock().lease(HOUR).await.expect("it is free");
    let mut line = Vec::new();
    let first = Waiter::java(&pair, &dead, &name).await;
    line.push(Waiter::rust(&pair, &locks, &name).await);
    let second = Waiter::java(&pair, &other, &name).await;
    line.push(Waiter::java(&pair, &pair.java("c"), &name).await);
    line.push(Waiter::rust(&pair, &locks, &name).await);
    doomed.kill();
    drop((first, second));
    // The server has noticed.
    let listening = || async {
        let channels = pair.channels().await;
        channels.iter().filter(|channel| channel.contains(&name)).count() == 3
    };
    eventually("the dead no longer listen", listening).await;
    guard.unlock().await.expect("it was held");
    in_turn(line, &name).await;
}

/// A process of ours that is killed in the queue costs those behind it seconds, of either side.
pub(super) async fn a_dead_waiter_of_ours_costs_seconds(pair: Pair) {
    let name = pair.name("k");
    let mut doomed = worker("worker").start().await;
    doomed.wait_for("ready").await;
    doomed.ask(&format!("connect {} 9000", pair.url())).await;
    let locks = pair.rust().await;
    let guard = locks.fair(&name).lock().lease(HOUR).await.expect("it is free");
    doomed.send(&format!("fair {name}"));
    pair.queued(&name, 1).await;
    let line = vec![
        Waiter::java(&pair, &pair.java("a"), &name).await,
        Waiter::rust(&pair, &locks, &name).await,
        Waiter::java(&pair, &pair.java("b"), &name).await,
    ];
    doomed.kill();
    let listening = || async {
        let channels = pair.channels().await;
        channels.iter().filter(|channel| channel.contains(&name)).count() == 3
    };
    eventually("the dead no longer listen", listening).await;
    guard.unlock().await.expect("it was held");
    in_turn(line, &name).await;
}

/// A Java thread that is interrupted while it waits stays in the queue, which is a fault of Redisson's: those behind it get in
/// all the same.
pub(super) async fn an_interrupted_thread_costs_seconds(pair: Pair) {
    let name = pair.name("k");
    let locks = pair.rust().await;
    let guard = locks.fair(&name).lock().lease(HOUR).await.expect("it is free");
    let interrupted = pair.java("a");
    let waiting = interrupted.try_lock(JAVA, &name, HOUR, Some(HOUR));
    pair.queued(&name, 1).await;
    let owner = pair.queue(&name).await.remove(0);
    pair.listening(&format!("redisson_lock__channel:{{{name}}}:{owner}"), 1).await;
    let line = vec![
        Waiter::rust(&pair, &locks, &name).await,
        Waiter::java(&pair, &pair.java("b"), &name).await,
    ];
    // One that is about to sleep would leave its subscription behind.
    asleep(&interrupted).await;
    interrupted.interrupt().await;
    let thrown = waiting.result().await.expect_err("it was interrupted");
    assert_eq!(thrown.class, "InterruptedException");
    assert_eq!(pair.queue(&name).await.len(), 3, "Redisson learned to leave");
    guard.unlock().await.expect("it was held");
    in_turn(line, &name).await;
}

/// What neither a death nor a wait that ran out may do: the watchdog of one side holds it, and the other keeps its place for longer
/// than a lease.
pub(super) async fn a_place_lasts_for_longer_than_a_lease(pair: Pair) {
    let name = pair.name("k");
    let locks = pair.rust().await;
    let (holder, waiter) = (pair.java("a"), pair.java("b"));
    holder.lock(JAVA, &name).await;
    let line =
        vec![Waiter::rust(&pair, &locks, &name).await, Waiter::java(&pair, &waiter, &name).await];
    let places = pair.queue(&name).await;
    // Whoever asks in between changes nothing.
    let none = locks.fair(&name).try_lock().wait(secs(10)).await.expect("the server answers");
    assert!(none.is_none(), "two are inside");
    pair.queued(&name, 2).await;
    assert_eq!(pair.queue(&name).await, places);
    holder.unlock(JAVA, &name).await;
    in_turn(line, &name).await;
}
