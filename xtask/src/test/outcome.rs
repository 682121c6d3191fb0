//! What came out of a test, read from what its process wrote.

use std::collections::HashMap;

use super::process::Ended;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// With the reason.
    Skipped(String),
    /// With the reason.
    Failed(String),
}

impl Outcome {
    /// Of a process that ran one test.
    pub(crate) fn of(ended: &Ended) -> Outcome {
        match ended.is_success() {
            true => passed(&ended.output),
            false => Outcome::Failed(ended.reason()),
        }
    }
}

/// Passed, unless the test said that it did nothing.
fn passed(output: &str) -> Outcome {
    match output.lines().find_map(skip_reason) {
        Some(reason) => Outcome::Skipped(reason.to_owned()),
        None => Outcome::Passed,
    }
}

/// `SKIPPED: no server for Valkey`. Where libtest has one thread, its own words stand in front: `test NAME ... SKIPPED: …`.
fn skip_reason(line: &str) -> Option<&str> {
    let line = match line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) {
        Some((_, said)) => said,
        None => line,
    };
    line.strip_prefix("SKIPPED:").map(str::trim)
}

/// The tests in the output of a process that ran many of them, with what each wrote: `--show-output` makes libtest tell.
pub(crate) struct Many<'a> {
    results: HashMap<&'a str, &'a str>,
    outputs: HashMap<&'a str, String>,
}

impl<'a> Many<'a> {
    pub(crate) fn parse(output: &'a str) -> Many<'a> {
        let mut many = Many { results: HashMap::new(), outputs: HashMap::new() };
        let mut section = None;
        for line in output.lines() {
            let header =
                line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
            if let Some(name) = header {
                section = Some(name);
            } else if matches!(line, "successes:" | "failures:") {
                section = None;
            } else if let Some(name) = section {
                let output = many.outputs.entry(name).or_default();
                output.push_str(line);
                output.push('\n');
            } else if let Some((name, result)) = result(line) {
                many.results.insert(name, result);
            }
        }
        many
    }

    /// How the test `name` ended, and what it wrote. A test without a result is one during which the process ended.
    pub(crate) fn outcome(&self, name: &str, ended: &Ended) -> (Outcome, String) {
        let output = self.outputs.get(name).cloned().unwrap_or_default();
        let outcome = match self.results.get(name) {
            Some(&"ok") => passed(&output),
            Some(&"FAILED") => Outcome::Failed("failed".into()),
            Some(result) if result.starts_with("ignored") => Outcome::Skipped("ignored".into()),
            Some(result) => Outcome::Failed((*result).to_owned()),
            None => Outcome::Failed(format!("no result: its process: {}", ended.reason())),
        };
        (outcome, output)
    }
}

/// `test NAME ... ok`
fn result(line: &str) -> Option<(&str, &str)> {
    let (name, result) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    Some((name.strip_suffix(" - should panic").unwrap_or(name), result))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn ended(code: i32, output: &str) -> Ended {
        let status = Some(ExitStatus::from_raw(code << 8));
        Ended { status, seconds: 1.0, output: output.into() }
    }

    #[test]
    fn a_test_that_says_so_is_skipped_with_its_reason() {
        let of = |output: &str| Outcome::of(&ended(0, output));
        let skipped = Outcome::Skipped("no server for Valkey".into());
        assert_eq!(of("running 1 test\nSKIPPED: no server for Valkey\ntest a ... ok\n"), skipped);
        assert_eq!(of("test a ... SKIPPED: no server for Valkey\nok\n"), skipped);
        assert_eq!(of("it would print \"SKIPPED: \"\ntest a ... ok\n"), Outcome::Passed);
        assert_eq!(
            Outcome::of(&ended(101, "SKIPPED: x\n")),
            Outcome::Failed("exit code 101".into())
        );
    }

    #[test]
    fn the_lines_of_many_tests_are_told_apart() {
        let output = "\nrunning 5 tests\ntest a::good ... ok\ntest a::bad ... FAILED\n\
            test a::panics - should panic ... ok\ntest a::long ... ignored, long tier\n\
            test a::idle ... ok\n\nsuccesses:\n\n---- a::idle stdout ----\nSKIPPED: no Java\n\n\n\
            successes:\n    a::good\n    a::idle\n\nfailures:\n\n---- a::bad stdout ----\n\
            thread 'a::bad' panicked\ntest a::good ... FAILED\n\n\nfailures:\n    a::bad\n\n\
            test result: FAILED. 3 passed; 1 failed; 1 ignored\n";
        let many = Many::parse(output);
        let ended = ended(101, output);
        let of = |name: &str| many.outcome(name, &ended);
        assert_eq!(of("a::good").0, Outcome::Passed);
        assert_eq!(of("a::panics").0, Outcome::Passed);
        assert_eq!(of("a::long").0, Outcome::Skipped("ignored".into()));
        assert_eq!(of("a::idle").0, Outcome::Skipped("no Java".into()));
        let (outcome, words) = of("a::bad");
        assert_eq!(outcome, Outcome::Failed("failed".into()));
        assert!(words.starts_with("thread 'a::bad' panicked\n"), "{words}");
        let (outcome, _) = of("a::lost");
        assert_eq!(outcome, Outcome::Failed("no result: its process: exit code 101".into()));
    }
}
