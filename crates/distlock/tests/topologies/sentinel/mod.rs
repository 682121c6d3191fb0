//! Locks on one primary that moves: sentinels choose it, or somebody else does.
mod believing;
mod connecting;
mod failing;
mod moving;
mod strikes;
mod two_primaries;

use std::time::Duration;

/// Whoever is let in long before this was woken, and did not wait for a lease to end.
const LONG: Duration = Duration::from_secs(600);

/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);
