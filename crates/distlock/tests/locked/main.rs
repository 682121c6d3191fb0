//! Functions with a lock around them, and the profiles that say which.
#![cfg(feature = "macros")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod nesting;
mod outcomes;
mod profiles;

use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
