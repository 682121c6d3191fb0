//! How long each test took the last time it ran: what is slow is started first.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::matrix;

/// Measured seconds by name.
#[derive(Debug, Default)]
pub(crate) struct Times(BTreeMap<String, f64>);

impl Times {
    /// What earlier runs measured: nothing, where there was none.
    pub(crate) fn read(file: &Path) -> Times {
        let lines = fs::read_to_string(file).unwrap_or_default();
        let times = lines.lines().filter_map(|line| {
            let (name, seconds) = line.split_once('\t')?;
            Some((name.to_owned(), seconds.parse().ok()?))
        });
        Times(times.collect())
    }

    /// How long it will take, as far as is known.
    pub(crate) fn expect(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_else(|| matrix::hint(name))
    }

    pub(crate) fn set(&mut self, name: &str, seconds: f64) {
        self.0.insert(name.to_owned(), seconds);
    }

    pub(crate) fn write(&self, file: &Path) -> Result<(), String> {
        let lines: String =
            self.0.iter().map(|(name, seconds)| format!("{name}\t{seconds:.3}\n")).collect();
        fs::write(file, lines).map_err(|error| format!("cannot write {}: {error}", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::scratch::Scratch;

    #[test]
    fn a_run_keeps_what_others_measured() {
        let dir = Scratch::new().unwrap();
        let file = dir.path().join("times.tsv");
        fs::write(&file, "a/it::x\t2.5\nno number\na/it::y\t3\n").unwrap();
        let mut times = Times::read(&file);
        times.set("a/it::x", 1.25);
        times.write(&file).unwrap();
        let times = Times::read(&file);
        assert_eq!((times.expect("a/it::x"), times.expect("a/it::y")), (1.25, 3.0));
        assert_eq!(times.expect("a/it::crowds::sixteen_meet"), 3.0);
        assert_eq!(times.expect("a/it::z"), 1.0);
    }
}
