//! A small service over a real database: what people put a lock around first.
//!
//! It signs members up, one per e-mail address, and pays out of accounts that must not be overdrawn. Which locks it uses it
//! does not know: a [`Doorman`] hands them out by name.

mod database;
mod doorman;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use distlock::ErrorKind;
use distlock::env::BoxFuture;

pub use database::{Account, Database, Session};
pub use doorman::Doorman;

/// What a call of the service comes to.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What comes first, the lock or the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The lock is taken, the transaction begins and ends, the lock is released: right.
    LockOutside,
    /// The lock is taken and released within the transaction: wrong. Whoever comes next reads before this one commits.
    LockInside,
    /// Wrong.
    NoLock,
}

/// The service; cheap to clone.
#[derive(Clone)]
pub struct Service {
    doorman: Doorman,
    database: Database,
    order: Order,
    before_commit: Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>,
}

impl Service {
    /// The service as it should be.
    pub fn new(doorman: Doorman, database: Database) -> Service {
        let before_commit = Arc::new(|| -> BoxFuture<'static, ()> { Box::pin(async {}) });
        Service { doorman, database, order: Order::LockOutside, before_commit }
    }

    /// The same with lock and transaction in this order.
    #[must_use]
    pub fn order(self, order: Order) -> Service {
        Service { order, ..self }
    }

    /// The same, and every transaction waits for `hook` after it has read and before it commits.
    #[must_use]
    pub fn before_commit<F>(self, hook: impl Fn() -> F + Send + Sync + 'static) -> Service
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let before_commit = Arc::new(move || -> BoxFuture<'static, ()> { Box::pin(hook()) });
        Service { before_commit, ..self }
    }

    /// Makes a member with a welcome gift; false if there is one with this e-mail address.
    ///
    /// # Errors
    /// What the locks or the database say.
    pub async fn sign_up(&self, email: &str) -> Outcome<bool> {
        self.transact(&format!("member:{email}"), async |session| {
            if session.has_member(email).await? {
                return Ok(false);
            }
            session.add_member(email);
            Ok(true)
        })
        .await
    }

    /// Pays out of an account; false if there is too little in it. A negative amount is a deposit.
    ///
    /// # Errors
    /// What the locks or the database say; nothing was paid then, unless the commit itself failed.
    pub async fn pay(&self, account: &str, amount: i64) -> Outcome<bool> {
        self.transact(&format!("account:{account}"), async |session| {
            let balance = session.balance(account).await?;
            if balance < amount {
                return Ok(false);
            }
            session.book(account, amount, balance - amount);
            Ok(true)
        })
        .await
    }

    async fn transact<T>(
        &self,
        name: &str,
        work: impl AsyncFnOnce(&mut Session) -> Outcome<T>,
    ) -> Outcome<T> {
        match self.order {
            Order::LockOutside => {
                let guard = self.doorman.lock(name).await?;
                let mut session = self.database.begin();
                let answer = work(&mut session).await?;
                (self.before_commit)().await;
                if guard.is_lost() {
                    // The session goes, and what it would have written with it.
                    let text = "the lock was lost before the commit";
                    return Err(distlock::Error::new(ErrorKind::Lost, text).into());
                }
                session.commit().await?;
                guard.unlock().await?;
                Ok(answer)
            }
            Order::LockInside => {
                let mut session = self.database.begin();
                let guard = self.doorman.lock(name).await?;
                let answer = work(&mut session).await?;
                guard.unlock().await?;
                (self.before_commit)().await;
                session.commit().await?;
                Ok(answer)
            }
            Order::NoLock => {
                let mut session = self.database.begin();
                let answer = work(&mut session).await?;
                (self.before_commit)().await;
                session.commit().await?;
                Ok(answer)
            }
        }
    }
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service")
            .field("doorman", &self.doorman)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
