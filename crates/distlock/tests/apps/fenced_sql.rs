//! Fencing tokens checked by a database: the patterns of docs/fencing.md, word for word.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::{FencedGuard, Locks};
use rusqlite::Connection;
use tokio::task::JoinSet;

/// A database file of its own, removed at the end.
struct Bank(PathBuf);

impl Bank {
    fn open(name: &str) -> Bank {
        let file = format!("distlock-{}-{name}.sqlite", std::process::id());
        let bank = Bank(std::env::temp_dir().join(file));
        let _ = std::fs::remove_file(&bank.0);
        let tables = "CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
                                            fence BIGINT NOT NULL DEFAULT 0);
                      CREATE TABLE entry (account INTEGER NOT NULL, amount INTEGER NOT NULL);
                      CREATE TABLE fence (name TEXT PRIMARY KEY, token BIGINT NOT NULL);
                      INSERT INTO account (id, balance) VALUES (1, 100);";
        bank.connect().execute_batch(tables).unwrap();
        bank
    }

    fn connect(&self) -> Connection {
        let connection = Connection::open(&self.0).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        // What a crash of the machine would leave is not what is tested.
        connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
        connection
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn token(guard: &FencedGuard) -> i64 {
    i64::try_from(guard.token()).unwrap()
}

/// True if it was written.
fn write(bank: &Connection, balance: i64, token: i64) -> bool {
    let update = "UPDATE account SET balance = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2";
    bank.execute(update, (balance, token)).unwrap() == 1
}

fn raise(bank: &Connection, token: i64) -> bool {
    let update = "UPDATE account SET fence = ?1 WHERE id = 1 AND fence <= ?1";
    bank.execute(update, [token]).unwrap() == 1
}

fn balance(bank: &Connection) -> i64 {
    bank.query_row("SELECT balance FROM account WHERE id = 1", [], |row| row.get(0)).unwrap()
}

/// One that sleeps through the end of its lease, and its successor.
async fn paused_and_next(locks: &Locks) -> (FencedGuard, FencedGuard) {
    let paused = locks.fenced("account:1").lock().lease(Duration::from_millis(30)).await.unwrap();
    let next = locks.fenced("account:1").lock().lease(Duration::from_secs(3600)).await.unwrap();
    assert!(paused.is_lost());
    (paused, next)
}

#[tokio::test]
async fn a_paused_holders_late_write_touches_no_row() {
    let bank = Bank::open("late");
    let (paused, next) = paused_and_next(&Locks::memory()).await;
    let db = bank.connect();
    assert!(write(&db, 90, token(&next)));
    assert!(!write(&db, 50, token(&paused)));
    assert!(write(&db, 80, token(&next)), "the same holder again");
    assert_eq!(balance(&db), 80);
}

#[tokio::test]
async fn a_transaction_that_cannot_raise_the_fence_does_nothing() {
    let bank = Bank::open("transaction");
    let (paused, next) = paused_and_next(&Locks::memory()).await;
    let mut db = bank.connect();
    for (guard, amount, passes) in [(&next, -10, true), (&paused, -50, false), (&next, -5, true)] {
        let transaction = db.transaction().unwrap();
        let raised = raise(&transaction, token(guard));
        assert_eq!(raised, passes);
        let entry = "INSERT INTO entry (account, amount) VALUES (1, ?1)";
        transaction.execute(entry, [amount]).unwrap();
        let update = "UPDATE account SET balance = balance + ?1 WHERE id = 1";
        transaction.execute(update, [amount]).unwrap();
        if raised { transaction.commit().unwrap() } else { transaction.rollback().unwrap() }
    }
    assert_eq!(balance(&db), 85);
    let entries = db.query_row("SELECT SUM(amount) FROM entry", [], |row| row.get::<_, i64>(0));
    assert_eq!(entries.unwrap(), -15);
}

#[tokio::test]
async fn a_resource_without_a_row_gets_one() {
    let bank = Bank::open("row");
    let (paused, next) = paused_and_next(&Locks::memory()).await;
    let db = bank.connect();
    let show = |guard: &FencedGuard| {
        let upsert = "INSERT INTO fence (name, token) VALUES (?1, ?2) ON CONFLICT (name)
                      DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token";
        db.execute(upsert, ("report.csv", token(guard))).unwrap() == 1
    };
    assert!(show(&paused), "nobody newer has been here yet");
    assert!(show(&next));
    assert!(!show(&paused));
    assert!(show(&next));
}

/// Many add one by reading and writing back, some of them past their lease: whoever raised the fence before it read loses
/// no update, and what was refused did nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_is_exact_although_locks_are_lost() {
    let bank = Arc::new(Bank::open("count"));
    let (written, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let locks = Locks::memory();
    let mut tasks = JoinSet::new();
    for task in 0..6_u64 {
        let (locks, bank) = (locks.clone(), bank.clone());
        let (written, refused) = (written.clone(), refused.clone());
        tasks.spawn(async move {
            for round in 0..20_u64 {
                let lease = Duration::from_millis(15);
                let guard = locks.fenced("account:1").lock().lease(lease).await.unwrap();
                let read = {
                    let db = bank.connect();
                    raise(&db, token(&guard)).then(|| balance(&db))
                };
                let pause = (task * 5 + round * 7) % 24;
                if pause > 14 {
                    tokio::time::sleep(Duration::from_millis(pause + 5)).await; // past its lease
                }
                let wrote = read.is_some_and(|sum| write(&bank.connect(), sum + 1, token(&guard)));
                let count = if wrote { &written } else { &refused };
                count.fetch_add(1, Ordering::SeqCst);
                let _ = guard.unlock().await; // it may have been lost
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let (written, refused) = (written.load(Ordering::SeqCst), refused.load(Ordering::SeqCst));
    assert_eq!(balance(&bank.connect()), 100 + i64::try_from(written).unwrap());
    assert_eq!(written + refused, 120);
    assert!(written > 0 && refused > 0, "{written} written, {refused} refused");
}
