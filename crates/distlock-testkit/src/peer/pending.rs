//! A command under way, and what becomes of it.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tokio::sync::oneshot;

/// How long an answer may take, where the test does not say.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command that has been sent. Awaiting it gives its answer, and panics where Java threw something.
///
/// Dropping it changes nothing for Java.
#[must_use = "a command fails silently unless its answer is read"]
pub struct Pending<T> {
    what: String,
    inbox: oneshot::Receiver<Answer>,
    early: Option<Answer>,
    read: fn(Answer) -> T,
}

/// What Java says of a command.
#[derive(Debug)]
pub(super) struct Answer(Value);

/// An exception, by its simple name; `Gone` where the process ended instead of answering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thrown {
    /// The simple name of its class.
    pub class: String,
    /// What it said.
    pub message: String,
}

impl<T> Pending<T> {
    pub(super) fn new(
        what: String,
        inbox: oneshot::Receiver<Answer>,
        read: fn(Answer) -> T,
    ) -> Pending<T> {
        Pending { what, inbox, early: None, read }
    }

    /// Whether there is an answer yet.
    pub fn is_done(&mut self) -> bool {
        if self.early.is_none() {
            self.early = self.inbox.try_recv().ok();
        }
        self.early.is_some()
    }

    /// The answer, or what Java threw.
    ///
    /// # Panics
    /// When there is neither within 30 s.
    pub async fn result(self) -> Result<T, Thrown> {
        self.result_within(PATIENCE).await
    }

    /// The answer.
    ///
    /// # Panics
    /// When there is none within `limit`, or Java threw something.
    pub async fn within(self, limit: Duration) -> T {
        let what = self.what.clone();
        let result = self.result_within(limit).await;
        result.unwrap_or_else(|thrown| panic!("{what}: {thrown}"))
    }

    async fn result_within(self, limit: Duration) -> Result<T, Thrown> {
        let answer = match self.early {
            Some(answer) => Ok(answer),
            None => tokio::time::timeout(limit, self.inbox)
                .await
                .unwrap_or_else(|_| panic!("{}: no answer within {limit:?}", self.what)),
        };
        let gone = |_| Thrown { class: "Gone".to_owned(), message: String::new() };
        let answer = answer.map_err(gone)?;
        match answer.0["error"].as_str() {
            None => Ok((self.read)(answer)),
            Some(class) => {
                let message = answer.0["message"].as_str().unwrap_or_default().to_owned();
                Err(Thrown { class: class.to_owned(), message })
            }
        }
    }
}

impl<T: Send + 'static> IntoFuture for Pending<T> {
    type Output = T;
    type IntoFuture = Pin<Box<dyn Future<Output = T> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.within(PATIENCE))
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pending").field(&self.what).finish()
    }
}

impl fmt::Display for Thrown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)
    }
}

impl Answer {
    pub(super) fn new(answer: Value) -> Answer {
        Answer(answer)
    }

    pub(super) fn into_json(self) -> Value {
        self.0
    }

    /// As whom it ran: `UUID:THREAD`.
    pub(super) fn owner(&self) -> String {
        self.0["owner"].as_str().expect("every answer names its owner").to_owned()
    }

    pub(super) fn from(&self) -> SystemTime {
        self.time("from")
    }

    pub(super) fn at(&self) -> SystemTime {
        self.time("at")
    }

    fn time(&self, field: &str) -> SystemTime {
        let nanos = self.0[field].as_u64().expect("every answer has its times");
        SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    pub(super) fn is_null(&self) -> bool {
        self.0["value"].is_null()
    }

    pub(super) fn truth(&self) -> bool {
        self.0["value"].as_bool().unwrap_or_else(|| panic!("not a truth value: {}", self.0))
    }

    pub(super) fn number(&self) -> i64 {
        self.0["value"].as_i64().unwrap_or_else(|| panic!("not a number: {}", self.0))
    }

    pub(super) fn words(&self) -> Vec<String> {
        let list = self.0["value"].as_array().unwrap_or_else(|| panic!("not a list: {}", self.0));
        list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub(super) fn value(&self) -> &Value {
        &self.0["value"]
    }
}
