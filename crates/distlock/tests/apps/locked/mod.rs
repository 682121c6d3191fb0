//! Functions with a lock around them, and the profiles that say which.
mod functions;
mod kinds;
mod names;
mod nesting;
mod outcomes;
mod profiles;
mod scopes;

use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
