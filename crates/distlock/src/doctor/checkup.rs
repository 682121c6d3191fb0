//! The request for a report.

use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use super::Report;
use crate::env::BoxFuture;
use crate::store::{Kind, Store};

/// What a [`Store`] examines: plain data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Examine {
    /// What names start with.
    pub prefix: String,
    /// The kinds that must work.
    pub kinds: Vec<Kind>,
}

/// A check of the store of locks. Made by [`Locks::doctor`](crate::Locks::doctor); await it.
///
/// ```
/// # distlock::block_on(async {
/// use distlock::{Locks, store::Kind};
///
/// let report = Locks::memory().doctor().kinds(&[Kind::Mutex, Kind::Fair]).await;
/// assert!(report.is_reached());
/// # });
/// ```
#[must_use = "a checkup does nothing until it is awaited"]
pub struct Checkup {
    store: Arc<dyn Store>,
    examine: Examine,
}

impl Checkup {
    pub(crate) fn new(store: Arc<dyn Store>, prefix: &str) -> Checkup {
        let kinds = Kind::ALL.to_vec();
        Checkup { store, examine: Examine { prefix: prefix.to_owned(), kinds } }
    }

    /// Sets the kinds that must work: missing permissions that only other kinds need are not reported. All kinds unless set.
    pub fn kinds(mut self, kinds: &[Kind]) -> Checkup {
        self.examine.kinds = kinds.to_vec();
        self
    }
}

impl IntoFuture for Checkup {
    type Output = Report;
    type IntoFuture = BoxFuture<'static, Report>;

    fn into_future(self) -> BoxFuture<'static, Report> {
        Box::pin(async move { Report::new(self.store.examine(&self.examine).await) })
    }
}

impl fmt::Debug for Checkup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checkup").field("examine", &self.examine).finish_non_exhaustive()
    }
}
