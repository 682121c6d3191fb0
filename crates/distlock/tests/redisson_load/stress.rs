//! Two JVMs and two processes of ours, each with two threads or tasks, fight for one lock.

use std::time::Duration;

use distlock_testkit::history::History;
use distlock_testkit::{Pair, Peer, Worker, worker};

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
    /// Whether everybody gets in. A writer meets a gap between Java's readers sooner or later: not within every two seconds.
    all: bool,
}

const fn alone(rust: &'static str, java: &'static str) -> Fight {
    Fight {
        rust: [rust, rust],
        java: [java, java],
        names: ["k", "k"],
        most: 1,
        permits: None,
        all: true,
    }
}

const fn permits(rust: &'static str, java: &'static str, most: usize) -> Fight {
    Fight { most, permits: Some(most), ..alone(rust, java) }
}

const FIGHTS: &[Fight] = &[
    alone("mutex", "plain"),
    alone("fair", "fair"),
    alone("fenced", "fenced"),
    alone("spin", "spin"),
    // In another order on the other side.
    Fight { names: ["a,b", "b,a"], ..alone("multi", "multi") },
];

/// Fights in which several may be inside at once.
const TOGETHER: &[Fight] = &[
    Fight {
        rust: ["read", "write"],
        java: ["read", "write"],
        names: ["k", "k"],
        most: 4,
        permits: None,
        all: false,
    },
    permits("semaphore", "semaphore", 3),
    permits("semaphore", "semaphore", 1),
    permits("leased_semaphore", "permits", 3),
    permits("leased_semaphore", "permits", 1),
];

/// How long each fight lasts.
fn time() -> Duration {
    match std::env::var_os("DISTLOCK_LONG") {
        Some(_) => Duration::from_secs(10),
        None => Duration::from_secs(2),
    }
}

/// Nobody meets, no update gets lost, everybody gets in, and nothing is left.
pub(super) async fn nobody_meets_in_any_kind(pair: Pair) {
    fight(pair, FIGHTS).await;
}

/// A writer is alone, never more are inside than there are permits, and no permit gets lost.
pub(super) async fn no_more_meet_than_may(pair: Pair) {
    fight(pair, TOGETHER).await;
}

async fn fight(pair: Pair, fights: &[Fight]) {
    let mut ours = [rival(&pair).await, rival(&pair).await];
    let mut javas = Vec::new();
    for _ in 0..2 {
        let peer = Peer::start(pair.version(), pair.server()).await;
        javas.push(std::sync::Arc::new(peer.expect("the other one was installed")));
    }
    for (round, fight) in fights.iter().enumerate() {
        let names = |side: usize| {
            let names =
                fight.names[side].split(',').map(|name| pair.name(&format!("{round}-{name}")));
            names.collect::<Vec<_>>().join(",")
        };
        let (key, ms) = (pair.name(&format!("{round}-inside")), time().as_millis());
        if let Some(permits) = fight.permits {
            // A number under the name: what trySetPermits of either kind writes.
            pair.server().cli(&["SET", &names(0), &permits.to_string()]).await;
        }
        for (n, process) in ours.iter_mut().enumerate() {
            for (task, kind) in fight.rust.iter().enumerate() {
                process.send(&format!("stress {kind} {} {key} rust{n}-{task} {ms}", names(0)));
            }
        }
        let mut threads = Vec::new();
        for peer in &javas {
            for (task, kind) in fight.java.iter().enumerate() {
                let thread = peer.thread(&format!("java{task}"));
                threads.push(thread.stress(kind, &names(1), &key, time()));
            }
        }
        // A Java reader that is about to sleep when the writer leaves sleeps for the rest of that lease, of a minute.
        let limit = time() + Duration::from_secs(if fight.all { 30 } else { 90 });
        for thread in threads {
            thread.within(limit).await;
        }
        for process in &mut ours {
            for _ in 0..2 {
                let done = process.line_within(limit).await.expect("it does not end");
                assert!(done.starts_with("done "), "{}: {done}", fight.rust[0]);
            }
        }
        let history = History::take(pair.server(), &key).await;
        history.check(fight.most);
        if fight.rust[0] == "fenced" {
            history.check_tokens();
        }
        let entries = history.entries();
        let turns = history.turns(|who| who.starts_with("rust"));
        println!(
            "stress, {}, Redisson {}: {turns} turns, {entries:?}",
            fight.rust[0],
            pair.version().number(),
        );
        assert!(entries.len() == 8 || !fight.all, "somebody never got in: {entries:?}");
        if let Some(permits) = fight.permits {
            let left: usize = pair.server().ask(&["GET", &names(0)]).await;
            assert_eq!(left, permits, "{}: a permit got lost, or came back twice", fight.rust[0]);
            pair.server().cli(&["DEL", &names(0)]).await;
        }
    }
    for process in ours {
        assert!(process.finish().await.success());
    }
}

async fn rival(pair: &Pair) -> Worker {
    let url = pair.server().url();
    let mut rival = worker("rival").arg(&url).arg(&url).start().await;
    rival.wait_for("ready").await;
    rival
}
