//! Commands that run only while a lock is held. These promises need a server, each its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::store::{Command, Reply};
use distlock::{ErrorKind, Guard, Locks, State};
use tokio::task::JoinSet;

use crate::{Match, Proxy, Server};

const HOUR: Duration = Duration::from_secs(3600);

async fn open(server: &Server) -> Locks {
    Locks::connect(&server.url()).await.expect("the server answers")
}

fn set(value: &str) -> Command {
    Command::new("SET").key("{k}:data").arg(value)
}

fn ok() -> Reply {
    Reply::Bytes(b"OK".to_vec())
}

/// One of each kind, under a name of its own.
fn name(kind: &str) -> String {
    format!("{{k}}:{kind}")
}

async fn lock(locks: &Locks, kind: &str, lease: Duration) -> Guard {
    let guard = match kind {
        "mutex" => locks.mutex(name(kind)).lock().lease(lease).await,
        "spin" => locks.spin(name(kind)).lock().lease(lease).await,
        "fair" => locks.fair(name(kind)).lock().lease(lease).await,
        "simple" => locks.simple(name(kind)).lock().lease(lease).await,
        other => panic!("{other}"),
    };
    guard.expect("it gets free")
}

async fn force(locks: &Locks, kind: &str) -> bool {
    let forced = match kind {
        "simple" => locks.simple(name(kind)).force_unlock().await,
        "fair" => locks.fair(name(kind)).force_unlock().await,
        _ => locks.mutex(name(kind)).force_unlock().await,
    };
    forced.expect("the server answers")
}

/// A holder whose lock was taken away, or whose lease ended, cannot write, whether or not somebody else is in by then; and it
/// knows afterwards.
pub async fn who_lost_the_lock_cannot_write(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    for kind in ["mutex", "spin", "fair", "simple"] {
        let guard = lock(&here, kind, HOUR).await;
        assert_eq!(guard.send(&set("mine")).await.expect("it is held"), ok());
        assert!(force(&elsewhere, kind).await);
        assert_eq!(guard.state(), State::Held, "nobody has told it yet");
        let late = guard.send(&set("late")).await.expect_err("it is not held");
        assert_eq!(late.kind(), ErrorKind::Lost, "{kind}: {late}");
        assert_eq!(late.lock_name(), Some(&*name(kind)));
        assert!(guard.is_lost());

        let guard = lock(&here, kind, HOUR).await;
        assert!(force(&elsewhere, kind).await);
        let next = lock(&elsewhere, kind, HOUR).await;
        assert_eq!(next.send(&set("theirs")).await.expect("it is held"), ok());
        let late = guard.send(&set("late")).await.expect_err("it is not held");
        assert_eq!(late.kind(), ErrorKind::Lost, "{kind}: {late}");
        assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "theirs");
        next.unlock().await.expect("it was held");

        let guard = lock(&here, kind, Duration::from_millis(50)).await;
        guard.lost().await;
        let late = guard.send(&set("late")).await.expect_err("its lease ended");
        assert_eq!(late.kind(), ErrorKind::Lost, "{kind}: {late}");
        assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "theirs");
    }
    let fenced = here.fenced("{k}").lock().await.expect("it is free");
    assert_eq!(fenced.send(&set("fenced")).await.expect("it is held"), ok());
    elsewhere.fenced("{k}").force_unlock().await.expect("the server answers");
    let late = fenced.send(&set("late")).await.expect_err("it is not held");
    assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
    assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "fenced");
}

/// A reader and a writer can send while they hold, each its own half.
pub async fn readers_and_writers_can_while_they_hold(server: Server) {
    let (here, elsewhere) = (open(&server).await, open(&server).await);
    let (rw, other) = (here.rw("{k}"), elsewhere.rw("{k}"));
    let writer = rw.write().lease(HOUR).await.expect("it is free");
    assert_eq!(writer.send(&set("written")).await.expect("it is held"), ok());
    let reader = writer.downgrade().await.expect("it is held");
    assert_eq!(reader.send(&set("read")).await.expect("it is held"), ok());
    let beside = other.read().lease(HOUR).await.expect("readers share");
    assert_eq!(beside.send(&set("beside")).await.expect("it is held"), ok());
    assert!(other.force_unlock_read().await.expect("the server answers"));
    for guard in [&reader, &beside] {
        let late = guard.send(&set("late")).await.expect_err("it was taken away");
        assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
    }
    let writer = rw.write().lease(HOUR).await.expect("it is free");
    assert!(other.force_unlock_write().await.expect("the server answers"));
    let next = other.read().lease(HOUR).await.expect("it is free");
    let late = writer.send(&set("late")).await.expect_err("it was taken away");
    assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
    assert_eq!(server.ask::<String>(&["GET", "{k}:data"]).await, "beside");

    // A reader whose own lease ended, while another keeps the lock.
    let brief = rw.read().lease(Duration::from_millis(50)).await.expect("readers share");
    brief.lost().await;
    assert_eq!(brief.send(&set("late")).await.expect_err("lost").kind(), ErrorKind::Lost);
    assert_eq!(next.send(&set("next")).await.expect("it is held"), ok());
    next.unlock().await.expect("it was held");
}

/// Who got the lock from its neighbour in this process can write at once, although the server hears of it a moment later.
pub async fn an_heir_can_write_at_once(server: Server) {
    let locks = open(&server).await;
    for kind in ["mutex", "simple"] {
        let mut first = lock(&locks, kind, HOUR).await;
        for turn in 0..200 {
            let next = tokio::spawn({
                let locks = locks.clone();
                async move { lock(&locks, kind, HOUR).await }
            });
            tokio::task::yield_now().await;
            first.unlock().await.expect("it was held");
            first = next.await.expect("no panic");
            let sent = first.send(&set(&turn.to_string())).await;
            assert_eq!(sent.unwrap_or_else(|e| panic!("turn {turn}: {e}")), ok());
        }
        first.unlock().await.expect("it was held");
    }
}

/// Many count by reading and writing back, with leases so short that some are lost half-way: the count is exactly the number
/// of writes that went through.
pub async fn counting_is_exact_although_locks_are_lost(server: Server) {
    // On a machine that stands still an answer may be missing: then nobody knows whether it was written.
    let [written, lost, unsure] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for process in 0..4_u64 {
        let locks = open(&server).await;
        for task in 0..2_u64 {
            let locks = locks.clone();
            let (written, lost, unsure) = (written.clone(), lost.clone(), unsure.clone());
            tasks.spawn(async move {
                for round in 0..40_u64 {
                    let lease = Duration::from_millis(30);
                    let guard = locks.mutex("{k}").lock().lease(lease).await;
                    let guard = guard.expect("it gets free");
                    let read = guard.send(&Command::new("GET").key("{k}:n")).await;
                    let pause = (process * 7 + task * 3 + round * 5) % 40;
                    if pause > 30 {
                        tokio::time::sleep(Duration::from_millis(pause)).await; // past its lease
                    }
                    let count = match read {
                        Ok(Reply::Nil) => 0,
                        Ok(Reply::Bytes(text)) => {
                            String::from_utf8(text).expect("digits").parse().expect("a number")
                        }
                        Ok(other) => panic!("{other:?}"),
                        Err(e) => {
                            assert!(is_lost_or_outage(&e), "{e}");
                            lost.fetch_add(1, Ordering::SeqCst);
                            continue;
                        }
                    };
                    let next: u64 = count + 1;
                    let write = Command::new("SET").key("{k}:n").arg(next.to_string());
                    match guard.send(&write).await {
                        Ok(_) => written.fetch_add(1, Ordering::SeqCst),
                        Err(e) if e.kind() == ErrorKind::Indeterminate => {
                            unsure.fetch_add(1, Ordering::SeqCst)
                        }
                        Err(e) => {
                            assert!(is_lost_or_outage(&e), "{e}");
                            lost.fetch_add(1, Ordering::SeqCst)
                        }
                    };
                    let _ = guard.unlock().await; // it may have been lost since
                }
            });
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    let [written, lost, unsure] = [written, lost, unsure].map(|n| n.load(Ordering::SeqCst));
    let count = server.ask::<u64>(&["GET", "{k}:n"]).await;
    let expected = written..=written + unsure;
    assert!(expected.contains(&count), "{count}, and not {expected:?}");
    assert_eq!(written + lost + unsure, 320);
    assert!(written > 0 && lost > 0, "{written} written, {lost} lost");
}

/// Whether it is one of the errors after which a command has not run, or may not have.
fn is_lost_or_outage(error: &distlock::Error) -> bool {
    use ErrorKind::{Indeterminate, Lost, Unavailable};
    matches!(error.kind(), Lost | Unavailable | Indeterminate)
}

/// An answer that is lost says so, and the command is not sent a second time.
pub async fn a_lost_answer_is_not_asked_for_again(server: Server) {
    let proxy = Proxy::start(server.addr()).await;
    let locks = Locks::connect(&proxy.url()).await.expect("the server answers");
    let guard = locks.mutex("{k}").lock().lease(HOUR).await.expect("it is free");
    let count = Command::new("INCR").key("{k}:n");
    assert_eq!(guard.send(&count).await.expect("it is held"), Reply::Int(1));
    let swallowed = proxy.swallow_replies_to(Match::token("{k}:n"), 1);
    let error = guard.send(&count).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");
    assert_eq!(swallowed.hits(), 1);
    assert_eq!(server.ask::<u64>(&["GET", "{k}:n"]).await, 2);
    assert_eq!(guard.send(&count).await.expect("it is still held"), Reply::Int(3));
    guard.unlock().await.expect("it was held");
}

/// What the server says to a command is told from trouble with the lock, and does not cost the lock.
pub async fn a_refused_command_does_not_cost_the_lock(server: Server) {
    let locks = open(&server).await;
    let guard = locks.mutex("{k}").lock().lease(HOUR).await.expect("it is free");
    server.cli(&["RPUSH", "{k}:list", "x"]).await;
    let cases = [
        (Command::new("INCR").key("{k}:list"), ErrorKind::Conflict),
        (Command::new("NOSUCH").key("{k}:list"), ErrorKind::Config),
        (Command::new("BLPOP").key("{k}:list").arg("0"), ErrorKind::Config),
        (Command::new("DEL").key("{k}"), ErrorKind::Config),
    ];
    for (command, kind) in cases {
        let error = guard.send(&command).await.expect_err("it cannot work");
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.lock_name(), Some("{k}"));
    }
    assert_eq!(guard.state(), State::Held);
    guard.unlock().await.expect("it was held");

    // Something else where the lock was: it is lost, whatever stands there.
    let guard = locks.mutex("{k}").lock().lease(HOUR).await.expect("it is free");
    server.cli(&["SET", "{k}", "x"]).await;
    let late = guard.send(&set("late")).await.expect_err("it is gone");
    assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
    server.cli(&["DEL", "{k}"]).await;
    assert!(!server.exists("{k}:data").await);
}

/// What an outage is: told as one, and what was not sent did not run.
pub async fn a_server_that_is_gone_is_an_outage(server: Server) {
    let locks = open(&server).await;
    let guard = locks.mutex("{k}").lock().lease(HOUR).await.expect("it is free");
    server.kill();
    let error = guard.send(&set("x")).await.expect_err("nobody is there");
    let outage = matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Indeterminate);
    assert!(outage, "{error}");
    assert!(!guard.is_lost(), "nobody knows that");
    server.restart().await;
    let late = guard.send(&set("x")).await.expect_err("the server has forgotten it");
    assert_eq!(late.kind(), ErrorKind::Lost, "{late}");
}
