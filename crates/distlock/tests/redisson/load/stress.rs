//! Two JVMs and two processes of ours, each with two threads or tasks, fight for one lock.

use std::time::Duration;

use distlock_testkit::history::History;
use distlock_testkit::peer::Kind;
use distlock_testkit::{Pair, Worker, worker};

/// A fight: what the two of each process do.
struct Fight {
    rust: [&'static str; 2],
    java: [&'static str; 2],
    /// The lock's name, or names with commas between them, on each side.
    names: [&'static str; 2],
    /// How many may be inside at once.
    most: usize,
    /// How many permits there are before it begins, and must be again when it is over.
    permits: Option<usize>,
    /// How many times as long as usual it lasts.
    longer: u32,
}

const fn alone(rust: &'static str, java: &'static str) -> Fight {
    let (rust, java) = ([rust, rust], [java, java]);
    Fight { rust, java, names: ["k", "k"], most: 1, permits: None, longer: 1 }
}

const fn permits(rust: &'static str, java: &'static str, most: usize) -> Fight {
    Fight { most, permits: Some(most), ..alone(rust, java) }
}

/// How long each fight lasts.
fn time() -> Duration {
    match std::env::var_os("DISTLOCK_LONG") {
        Some(_) => Duration::from_secs(10),
        None => Duration::from_secs(2),
    }
}

pub(super) async fn mutex(pair: Pair) {
    fight(pair, alone("mutex", "plain")).await;
}

/// And everybody gets its share.
pub(super) async fn fair(pair: Pair) {
    // A JVM that has just started would take part later than the others.
    for peer in [pair.peer(), pair.second_peer().await] {
        for task in 0..2 {
            let (thread, name) = (peer.thread(&format!("java{task}")), pair.name("before"));
            thread.lock(Kind::Fair, &name).await;
            thread.unlock(Kind::Fair, &name).await;
        }
    }
    // Longer: whoever stands still for seconds between two turns has its share all the same.
    let history = fight(pair, Fight { longer: 3, ..alone("fair", "fair") }).await;
    let entries: Vec<u64> = history.entries().into_values().collect();
    assert_eq!(entries.len(), 8, "somebody never got in: {:?}", history.entries());
    let mean = entries.iter().sum::<u64>() / 8;
    // Not more exactly: others go on while one stands still.
    assert!(entries.iter().all(|times| 4 * times >= mean), "{entries:?}");
}

pub(super) async fn fenced(pair: Pair) {
    fight(pair, alone("fenced", "fenced")).await.check_tokens();
}

pub(super) async fn spin(pair: Pair) {
    fight(pair, alone("spin", "spin")).await;
}

/// Each side in an order of its own.
pub(super) async fn multi(pair: Pair) {
    fight(pair, Fight { names: ["a,b", "b,a"], ..alone("multi", "multi") }).await;
}

/// A writer is alone.
pub(super) async fn rw(pair: Pair) {
    let both = ["read", "write"];
    fight(pair, Fight { rust: both, java: both, most: 4, ..alone("", "") }).await;
}

/// Never more are inside than there are permits, and no permit gets lost.
pub(super) async fn semaphore(pair: Pair) {
    fight(pair.clone(), permits("semaphore", "semaphore", 3)).await;
    fight(pair, permits("semaphore", "semaphore", 1)).await;
}

/// The same.
pub(super) async fn leased_semaphore(pair: Pair) {
    fight(pair.clone(), permits("leased_semaphore", "permits", 3)).await;
    fight(pair, permits("leased_semaphore", "permits", 1)).await;
}

/// Nobody meets, no update gets lost, both sides get in, and nothing is left.
async fn fight(pair: Pair, fight: Fight) -> History {
    let mut ours = [rival(&pair).await, rival(&pair).await];
    let javas = [pair.peer(), pair.second_peer().await];
    let (key, time) = (pair.name("inside"), time() * fight.longer);
    let names = fight.names.map(|names| {
        let names: Vec<String> = names.split(',').map(|name| pair.name(name)).collect();
        names.join(",")
    });
    if let Some(permits) = fight.permits {
        // A number under the name: what trySetPermits of either kind writes.
        pair.server().cli(&["SET", &names[0], &permits.to_string()]).await;
    }
    let ms = time.as_millis();
    for (n, process) in ours.iter_mut().enumerate() {
        for (task, kind) in fight.rust.iter().enumerate() {
            process.send(&format!("stress {kind} {} {key} rust{n}-{task} {ms}", names[0]));
        }
    }
    let mut threads = Vec::new();
    for peer in javas {
        for (task, kind) in fight.java.iter().enumerate() {
            threads.push(peer.thread(&format!("java{task}")).stress(kind, &names[1], &key, time));
        }
    }
    // A Java reader that is about to sleep when the writer leaves sleeps for the rest of that lease, of a minute.
    let limit = time + Duration::from_secs(90);
    for process in &mut ours {
        for _ in 0..2 {
            let done = process.line_within(limit).await.expect("it goes on");
            assert!(done.starts_with("done "), "{done}");
        }
    }
    for thread in threads {
        thread.within(limit).await;
    }
    for process in ours {
        assert!(process.finish().await.success());
    }
    if let Some(permits) = fight.permits {
        let left: usize = pair.server().ask(&["GET", &names[0]]).await;
        assert_eq!(left, permits, "a permit got lost, or came back twice");
        pair.server().cli(&["DEL", &names[0]]).await;
    }
    let history = History::take(pair.place(), &key).await;
    history.check(fight.most);
    let turns = history.turns(|who| who.starts_with("rust"));
    let entries: Vec<u64> = history.entries().into_values().collect();
    let number = pair.version().number();
    println!("stress, {}, Redisson {number}: {entries:?}, {turns} turns", fight.rust[1]);
    for side in ["java", "rust"] {
        let got_in = history.entries().keys().any(|who| who.contains(side));
        assert!(got_in, "nobody of {side} got in: {:?}", history.entries());
    }
    history
}

async fn rival(pair: &Pair) -> Worker {
    let mut rival = worker("rival").arg(pair.url()).arg(pair.place().url()).start().await;
    rival.wait_for("ready").await;
    rival
}
