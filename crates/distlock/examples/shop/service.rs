//! The service: three ways to put a lock around a handler.

use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, FromRequestParts, Path, State};
use axum::http::request::Parts;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use distlock::web::{LockKey, LockLayer, Locked};
use distlock::{Locks, locked};

use crate::database::Database;

/// How long asking somebody else takes: a payment provider, a mail server. No transaction is open meanwhile.
const ELSEWHERE: Duration = Duration::from_millis(5);
/// Longer than the longest queue in front of a lock.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Shop {
    locks: Locks,
    database: Database,
}

impl Shop {
    pub(crate) fn new(locks: Locks, database: Database) -> Shop {
        Shop { locks, database }
    }

    pub(crate) fn routes(self) -> Router {
        // Way two: a layer around a route. The handler knows nothing of locks.
        let one_by_one = LockLayer::new(&self.locks, |request: &Request<_>| {
            let account = request.uri().path().split('/').nth(2)?;
            Some(format!("account:{account}"))
        });
        Router::new()
            .route("/pay/{account}/{amount}", post(pay))
            .layer(one_by_one.wait(PATIENCE))
            .route("/sign-up/{email}", post(sign_up))
            .route("/careless/sign-up/{email}", post(sign_up_carelessly))
            .route("/withdraw/{account}/{amount}", post(withdraw))
            .with_state(self)
    }

    /// Way one: an attribute on the function that does the work. `false` if there is such a member already.
    #[locked("member:{email}", wait = PATIENCE, via = self.locks)]
    async fn sign_up(&self, email: &str) -> Result<bool, Trouble> {
        self.add_member(email).await
    }

    async fn add_member(&self, email: &str) -> Result<bool, Trouble> {
        if self.database.members(email)?.0 > 0 {
            return Ok(false);
        }
        tokio::time::sleep(ELSEWHERE).await;
        self.database.welcome(email)?;
        Ok(true)
    }

    /// Reads, asks the payment provider, writes. Whoever calls it holds the account's lock.
    async fn take(&self, account: &str, amount: i64) -> Result<(), Trouble> {
        let balance = self.database.balance(account)?.ok_or(Trouble::NoAccount)?;
        if balance < amount {
            return Err(Trouble::TooLittle);
        }
        tokio::time::sleep(ELSEWHERE).await;
        Ok(self.database.book(account, amount, balance - amount)?)
    }
}

async fn sign_up(
    State(shop): State<Shop>,
    Path(email): Path<String>,
) -> Result<StatusCode, Trouble> {
    Ok(if shop.sign_up(&email).await? { StatusCode::CREATED } else { StatusCode::OK })
}

async fn sign_up_carelessly(
    State(shop): State<Shop>,
    Path(email): Path<String>,
) -> Result<StatusCode, Trouble> {
    Ok(if shop.add_member(&email).await? { StatusCode::CREATED } else { StatusCode::OK })
}

async fn pay(
    State(shop): State<Shop>,
    Path((account, amount)): Path<(String, i64)>,
) -> Result<(), Trouble> {
    shop.take(&account, amount).await
}

/// Way three: the lock is an argument. Who does not get it at once is told to come back.
async fn withdraw(
    State(shop): State<Shop>,
    Locked { key, guard }: Locked<Withdrawal>,
) -> Result<(), Trouble> {
    // Stopped if the lock is lost; nothing is written then.
    guard.while_held(shop.take(&key.account, key.amount)).await??;
    // Free before the client hears of it.
    Ok(guard.unlock().await?)
}

struct Withdrawal {
    account: String,
    amount: i64,
}

impl<S: Send + Sync> FromRequestParts<S> for Withdrawal {
    type Rejection = axum::extract::rejection::PathRejection;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let Path((account, amount)) = Path::from_request_parts(parts, state).await?;
        Ok(Withdrawal { account, amount })
    }
}

impl LockKey for Withdrawal {
    fn lock_name(&self) -> String {
        format!("account:{}", self.account)
    }
}

impl FromRef<Shop> for Locks {
    fn from_ref(shop: &Shop) -> Locks {
        shop.locks.clone()
    }
}

/// Why something was not done.
pub(crate) enum Trouble {
    TooLittle,
    NoAccount,
    Lock(distlock::Error),
    Database(rusqlite::Error),
}

impl From<distlock::Error> for Trouble {
    fn from(error: distlock::Error) -> Trouble {
        Trouble::Lock(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Trouble {
        Trouble::Database(error)
    }
}

impl IntoResponse for Trouble {
    fn into_response(self) -> Response {
        let status = match self {
            Trouble::TooLittle => StatusCode::PAYMENT_REQUIRED,
            Trouble::NoAccount => StatusCode::NOT_FOUND,
            Trouble::Lock(error) => {
                eprintln!("{error}");
                StatusCode::SERVICE_UNAVAILABLE
            }
            Trouble::Database(error) => {
                eprintln!("{error}");
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        status.into_response()
    }
}
