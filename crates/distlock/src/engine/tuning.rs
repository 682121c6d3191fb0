//! What a program can set of the engine.

use std::sync::Arc;
use std::time::Duration;

use crate::locks::config;
use crate::runtime::Backoff;
use crate::store::ClaimKind;

/// The settings.
#[derive(Clone, Debug)]
pub(crate) struct Tuning {
    /// How long a hold without a lease lives after its last renewal.
    pub(crate) watchdog: Duration,
    /// How long a waiter of a fair lock that is not heard of keeps its place.
    pub(crate) fair_patience: Duration,
    /// How those who wait poll, if they do not listen.
    pub(crate) spin: Option<Backoff>,
    /// What serves a `mutex`: [`ClaimKind::Exclusive`] unless set.
    pub(crate) mutex_as: ClaimKind,
    /// What the program calls itself, if holders say who they are.
    pub(crate) service: Option<Arc<str>>,
    /// After how long a hold is worth a warning.
    pub(crate) slow_hold: Option<Duration>,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            watchdog: config::WATCHDOG,
            fair_patience: config::FAIR_PATIENCE,
            spin: None,
            mutex_as: ClaimKind::Exclusive,
            service: None,
            slow_hold: None,
        }
    }
}
