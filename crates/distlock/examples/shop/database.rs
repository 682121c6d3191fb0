//! SQLite, with short transactions: what happens between two of them is what the lock is for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior};

/// No address is `UNIQUE` and no balance is checked, so that only the locks stand in the way. A real shop has both as well:
/// a lock keeps people from colliding, a constraint is the last line of defence.
const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE member (email TEXT NOT NULL);
    CREATE TABLE mail (email TEXT NOT NULL);
    CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
    CREATE TABLE payment (account TEXT NOT NULL, amount INTEGER NOT NULL);";

/// A database in a directory of its own; cheap to clone.
#[derive(Clone)]
pub(crate) struct Database(Arc<Inner>);

struct Inner {
    connection: Mutex<Connection>,
    dir: PathBuf,
}

impl Database {
    pub(crate) fn create() -> crate::Outcome<Database> {
        let dir = std::env::temp_dir().join(format!("shop-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        let connection = Connection::open(dir.join("db"))?;
        connection.busy_timeout(Duration::from_secs(20))?;
        connection.execute_batch(TABLES)?;
        Ok(Database(Arc::new(Inner { connection: Mutex::new(connection), dir })))
    }

    pub(crate) fn open_account(&self, name: &str, balance: i64) -> Result<()> {
        self.with(|db| db.execute("INSERT INTO account VALUES (?, ?)", (name, balance))).map(|_| ())
    }

    /// What is in the account, and how many payments are in its book.
    pub(crate) fn account(&self, name: &str) -> Result<(i64, u32)> {
        let query = "SELECT balance, (SELECT count(*) FROM payment WHERE account = name)
            FROM account WHERE name = ?";
        self.with(|db| db.query_row(query, [name], |row| Ok((row.get(0)?, row.get(1)?))))
    }

    pub(crate) fn balance(&self, name: &str) -> Result<Option<i64>> {
        let query = "SELECT balance FROM account WHERE name = ?";
        self.with(|db| db.query_row(query, [name], |row| row.get(0)).optional())
    }

    /// Writes the payment and what is left, or neither.
    pub(crate) fn book(&self, name: &str, amount: i64, left: i64) -> Result<()> {
        self.with(|db| {
            let both = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            both.execute("INSERT INTO payment VALUES (?, ?)", (name, amount))?;
            both.execute("UPDATE account SET balance = ? WHERE name = ?", (left, name))?;
            both.commit()
        })
    }

    /// How many members have this address, and how many mails went to it.
    pub(crate) fn members(&self, email: &str) -> Result<(u32, u32)> {
        let query = "SELECT (SELECT count(*) FROM member WHERE email = ?1),
            (SELECT count(*) FROM mail WHERE email = ?1)";
        self.with(|db| db.query_row(query, [email], |row| Ok((row.get(0)?, row.get(1)?))))
    }

    /// Writes the member and the mail that goes out, or neither.
    pub(crate) fn welcome(&self, email: &str) -> Result<()> {
        self.with(|db| {
            let both = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
            both.execute("INSERT INTO member VALUES (?)", [email])?;
            both.execute("INSERT INTO mail VALUES (?)", [email])?;
            both.commit()
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        work(&mut self.0.connection.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
