//! Chance in virtual time: which pauses are drawn follows from a seed, so that what happened can be made to happen again.

use std::cell::Cell;
use std::env;

/// The one seed to take.
const SEED: &str = "DISTLOCK_SEED";
/// How many seeds to take, from 0 on.
const SEEDS: &str = "DISTLOCK_SEEDS";
/// How many there are unless it is said.
const USUAL: u64 = 4;

thread_local! {
    // A test in virtual time has one thread.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

/// The seed of the test on this thread.
pub(super) fn current() -> u64 {
    CURRENT.get()
}

/// The seeds to take.
pub(super) fn chosen() -> Result<Vec<u64>, String> {
    if let Some(seed) = number(SEED)? {
        return Ok(vec![seed]);
    }
    Ok((0..number(SEEDS)?.unwrap_or(USUAL)).collect())
}

fn number(variable: &str) -> Result<Option<u64>, String> {
    let Ok(text) = env::var(variable) else { return Ok(None) };
    let number = text.parse();
    number.map(Some).map_err(|_| format!("{variable} is a number, not {text:?}"))
}

/// Says which seed it was where a test does not get to its end.
pub(super) struct Telling {
    seed: u64,
    kept: bool,
}

impl Telling {
    /// This thread draws from that seed from now on.
    pub(super) fn begin(seed: u64) -> Telling {
        CURRENT.set(seed);
        Telling { seed, kept: false }
    }

    /// The test got to its end.
    pub(super) fn kept(mut self) {
        self.kept = true;
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.kept {
            eprintln!("not kept with {SEED}={}: set that to see it again", self.seed);
        }
    }
}
