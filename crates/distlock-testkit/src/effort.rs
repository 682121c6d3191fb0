//! How often a test does what it could do without end.

use std::env;

/// `short` in the runs of tier 1, which has the same checks as tier 2 with fewer repetitions.
const VARIABLE: &str = "DISTLOCK_EFFORT";

/// How often: `short` where `DISTLOCK_EFFORT=short` asks for it, `full` otherwise.
pub fn effort<T>(full: T, short: T) -> T {
    if env::var_os(VARIABLE).is_some_and(|value| value == "short") { short } else { full }
}
