//! The database of the service: SQLite, in a file that processes share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, Result, TransactionBehavior};
use tokio::task::spawn_blocking;

use crate::scratch::Scratch;

/// How long a commit waits for the commits of others, each of which takes less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(20);

/// No address is `UNIQUE` and no balance is checked: that would be the other way to keep what the locks keep here.
const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE member (id INTEGER PRIMARY KEY, email TEXT NOT NULL);
    CREATE TABLE gift (member INTEGER NOT NULL REFERENCES member);
    CREATE TABLE account (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
    CREATE TABLE payment (account TEXT NOT NULL REFERENCES account, amount INTEGER NOT NULL CHECK (amount <> 0));";

/// A database; cheap to clone. The one who [created](Database::create) it takes it away again.
#[derive(Clone, Debug)]
pub struct Database {
    path: PathBuf,
    idle: Arc<Mutex<Vec<Connection>>>,
    _dir: Option<Arc<Scratch>>,
}

/// What stands in an account and in its book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// What is left.
    pub balance: i64,
    /// What was paid out of it, deposits taken off.
    pub paid: i64,
    /// How many entries are in the book.
    pub entries: u32,
}

impl Database {
    /// An empty one in a directory of its own.
    ///
    /// # Panics
    /// When SQLite cannot make one.
    pub fn create() -> Database {
        let dir = Arc::new(Scratch::new());
        let database = Database { _dir: Some(dir.clone()), ..Database::open(&dir.join("db")) };
        database.now(|connection| connection.execute_batch(TABLES));
        database
    }

    /// One that is there already, and stays.
    pub fn open(path: &Path) -> Database {
        Database { path: path.to_owned(), idle: Arc::default(), _dir: None }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens an account.
    ///
    /// # Panics
    /// When there is one of that name.
    pub fn open_account(&self, name: &str, balance: i64) {
        self.now(|connection| {
            connection.execute("INSERT INTO account VALUES (?, ?)", (name, balance))
        });
    }

    /// An account as it is committed.
    ///
    /// # Panics
    /// When there is none of that name.
    pub fn account(&self, name: &str) -> Account {
        const QUERY: &str = "SELECT balance, total(amount), count(amount)
            FROM account LEFT JOIN payment ON account = name WHERE name = ?";
        self.now(|connection| {
            connection.query_row(QUERY, [name], |row| {
                let paid: f64 = row.get(1)?;
                Ok(Account { balance: row.get(0)?, paid: paid as i64, entries: row.get(2)? })
            })
        })
    }

    /// How many members have this e-mail address, and how many gifts they got.
    ///
    /// # Panics
    /// When SQLite cannot say.
    pub fn members(&self, email: &str) -> (u32, u32) {
        const QUERY: &str = "SELECT count(DISTINCT id), count(gift.member)
            FROM member LEFT JOIN gift ON gift.member = id WHERE email = ?";
        self.now(|connection| {
            connection.query_row(QUERY, [email], |row| Ok((row.get(0)?, row.get(1)?)))
        })
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Session {
        Session { database: self.clone(), writes: Vec::new() }
    }

    /// For a test that looks: blocks, and cannot go wrong.
    fn now<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> T {
        self.with(work).expect("SQLite does what it is told")
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle().pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let connection = Connection::open(&self.path)?;
                connection.busy_timeout(PATIENCE)?;
                // A test does not outlive a power cut.
                connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON;")?;
                connection
            }
        };
        let outcome = work(&mut connection);
        idle().push(connection);
        outcome
    }

    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let database = self.clone();
        spawn_blocking(move || database.with(work)).await.expect("a query does not panic")
    }
}

/// A transaction as most services have them: on a database that is set to `READ COMMITTED`, through a library that keeps
/// writes back until the commit. It reads what is committed at that moment, and writes all or nothing at its end.
///
/// SQLite's own transactions are stricter: those that clash are refused, whether there is a lock or not.
#[derive(Debug)]
pub struct Session {
    database: Database,
    writes: Vec<Write>,
}

#[derive(Debug)]
enum Write {
    Member { email: String },
    Payment { account: String, amount: i64, balance: i64 },
}

impl Session {
    /// Whether anybody has this e-mail address.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn has_member(&self, email: &str) -> Result<bool> {
        let email = email.to_owned();
        let query = "SELECT 1 FROM member WHERE email = ?";
        let found = self
            .database
            .ask(move |connection| connection.query_row(query, [email], |_| Ok(())).optional());
        Ok(found.await?.is_some())
    }

    /// Will write a member with a gift.
    pub fn add_member(&mut self, email: &str) {
        self.writes.push(Write::Member { email: email.to_owned() });
    }

    /// What is in the account.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn balance(&self, account: &str) -> Result<i64> {
        let account = account.to_owned();
        let query = "SELECT balance FROM account WHERE name = ?";
        let asked = self
            .database
            .ask(move |connection| connection.query_row(query, [account], |row| row.get(0)));
        asked.await
    }

    /// Will write a payment into the book, and what is left in the account after it.
    pub fn book(&mut self, account: &str, amount: i64, balance: i64) {
        self.writes.push(Write::Payment { account: account.to_owned(), amount, balance });
    }

    /// Writes everything, or nothing. Whoever drops a session instead has written nothing.
    ///
    /// # Errors
    /// What SQLite says.
    pub async fn commit(self) -> Result<()> {
        let Session { database, writes } = self;
        let work = move |connection: &mut Connection| {
            let all = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for write in &writes {
                match write {
                    Write::Member { email } => {
                        all.execute("INSERT INTO member (email) VALUES (?)", [email])?;
                        let id = all.last_insert_rowid();
                        all.execute("INSERT INTO gift VALUES (?)", [id])?;
                    }
                    Write::Payment { account, amount, balance } => {
                        let change = "UPDATE account SET balance = ? WHERE name = ?";
                        all.execute(change, (balance, account))?;
                        all.execute("INSERT INTO payment VALUES (?, ?)", (account, amount))?;
                    }
                }
            }
            all.commit()
        };
        database.ask(work).await
    }
}
