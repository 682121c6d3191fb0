//! The log of a run: one line per event, the same text for the same seed.

use std::collections::HashMap;
use std::fmt::{self, Write};

use distlock::Owner;

use super::plan::Millis;

/// The lines of a run, and short names for the owners in them.
#[derive(Debug, Default)]
pub(super) struct Trace {
    text: String,
    owners: HashMap<Owner, String>,
    known: Vec<usize>,
}

impl Trace {
    pub(super) fn line(&mut self, at: Millis, line: fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:>4}.{:03} {line}", at / 1_000, at % 1_000);
    }

    /// The name of an owner: its process, and how many of that process were seen before. Ids on the wire differ from run to run.
    pub(super) fn owner(&mut self, process: usize, owner: Owner) -> &str {
        if self.known.len() <= process {
            self.known.resize(process + 1, 0);
        }
        let known = &mut self.known[process];
        self.owners.entry(owner).or_insert_with(|| {
            *known += 1;
            format!("p{process}#{known}")
        })
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}
