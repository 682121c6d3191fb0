//! Functions with a lock around them, and the profiles that say which.
mod nesting;
mod outcomes;
mod profiles;

use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
