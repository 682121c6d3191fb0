//! Counts tests in the output of `cargo test`.

use std::fmt;

/// The sum of every `test result:` line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
    line: Vec<u8>,
}

impl Tally {
    /// Takes more of the output, cut anywhere.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut self.line);
                self.count(&String::from_utf8_lossy(&line));
            } else {
                self.line.push(byte);
            }
        }
    }

    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; …`
    fn count(&mut self, line: &str) {
        let Some((_, counts)) = line.strip_prefix("test result: ").and_then(|l| l.split_once(". "))
        else {
            return;
        };
        for part in counts.split("; ") {
            let Some((number, what)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match what {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { passed, failed, ignored, .. } = self;
        write!(f, "{passed} passed, {failed} failed, {ignored} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_add_up_however_they_are_cut() {
        let output = "running 3 tests\ntest a ... ok\n\
            test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out\n\n\
            test result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; finished in 0.1s\n";
        for size in 1..output.len() {
            let mut tally = Tally::default();
            output.as_bytes().chunks(size).for_each(|chunk| tally.feed(chunk));
            assert_eq!(tally.to_string(), "13 passed, 2 failed, 1 skipped");
        }
    }
}
