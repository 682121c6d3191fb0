//! Jobs: what runs as one process, and its results.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::environment::Environment;
use super::keeper::Keeper;
use super::list::Test;
use super::options::Options;
use super::outcome::{Many, Outcome};
use super::process::{self, Ended};
use super::programs::Executable;
use crate::run::cargo;
use crate::tally::Tally;

/// How long one test may take before it counts as hung: far more than any takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);
/// A process of many tests, or one that compiles, has more to do.
const LIMITS_OF_MANY: u32 = 3;

/// The name of the documentation tests in reports.
pub(crate) const DOC_TESTS: &str = "doc tests";

/// What one process does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One test, by its number.
    One(usize),
    /// Unit tests of one executable.
    Unit { executable: usize, tests: Vec<usize>, is_whole: bool },
    /// The documentation tests, which cargo runs.
    Doc,
}

/// Work that is to be done.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) work: Work,
    /// For scheduling.
    pub(crate) seconds: f64,
}

/// The outcome of a test, or of several documentation tests at once.
#[derive(Clone, Debug)]
pub(crate) struct TestResult {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// What runs it again.
    pub(crate) again: Work,
    /// How many tests it stands for.
    pub(crate) count: u64,
    pub(crate) output: String,
}

/// A job that was done.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) name: String,
    pub(crate) seconds: f64,
    pub(crate) results: Vec<TestResult>,
}

/// Runs jobs.
pub(crate) struct Runner<'a> {
    pub(crate) executables: &'a [Executable],
    pub(crate) tests: &'a [Test],
    pub(crate) environment: &'a Environment,
    pub(crate) options: &'a Options,
    pub(crate) keeper: Keeper,
    /// Where output is captured.
    pub(crate) captures: PathBuf,
    /// How many threads a process with many tests has.
    pub(crate) threads: usize,
    pub(crate) limit: Duration,
}

impl Runner<'_> {
    /// Runs a job for the first time, or `again`: then it logs everything.
    pub(crate) fn run(&self, job: &Job, again: bool) -> Done {
        let (mut command, limit) = match &job.work {
            Work::One(test) => (self.one(*test), self.limit),
            Work::Unit { executable, tests, is_whole } => {
                (self.unit(*executable, tests, *is_whole), self.limit * LIMITS_OF_MANY)
            }
            Work::Doc => (self.doc(), self.limit * LIMITS_OF_MANY),
        };
        if again {
            command.env("RUST_LOG", "debug").env("RUST_BACKTRACE", "full");
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let capture = self.captures.join(NEXT.fetch_add(1, Ordering::Relaxed).to_string());
        let ended = process::run(&self.keeper, command, &capture, limit);
        let name = job.name.clone();
        match ended {
            Ok(ended) => {
                let results = self.results(job, &ended);
                Done { name, seconds: ended.seconds, results }
            }
            Err(why) => {
                let mut result =
                    result(&name, Outcome::Failed(why), job.work.clone(), String::new());
                if let Work::Unit { tests, .. } = &job.work {
                    result.count = tests.len() as u64;
                }
                Done { name, seconds: 0.0, results: vec![result] }
            }
        }
    }

    fn one(&self, test: usize) -> Command {
        let test = &self.tests[test];
        let mut command = self.environment.command(&self.executables[test.executable]);
        command.args(["--exact", &test.path, "--nocapture"]);
        if test.is_ignored {
            command.arg("--include-ignored");
        }
        command
    }

    fn unit(&self, executable: usize, tests: &[usize], is_whole: bool) -> Command {
        let mut command = self.environment.command(&self.executables[executable]);
        // What passed tests wrote too: they may have skipped what they should do.
        command.args(["--show-output", "--test-threads", &self.threads.to_string()]);
        if tests.iter().any(|&test| self.tests[test].is_ignored) {
            command.arg("--include-ignored");
        }
        if !is_whole {
            command.arg("--exact").args(tests.iter().map(|&test| &self.tests[test].path));
        }
        command
    }

    fn doc(&self) -> Command {
        let mut command = cargo();
        self.environment.apply(&mut command);
        command.args(["test", "--doc", "--no-fail-fast", "--all-features"]);
        let selection = self.options.selection.iter().filter(|arg| *arg != "--doc");
        command.args(self.options.scope()).args(selection).args(&self.options.building);
        command.args(["--", "--test-threads", &self.threads.to_string()]);
        command.args(&self.options.names);
        command.args(self.options.skip.iter().flat_map(|part| ["--skip", part]));
        command
    }

    fn results(&self, job: &Job, ended: &Ended) -> Vec<TestResult> {
        match &job.work {
            Work::One(_) => {
                let outcome = Outcome::of(ended);
                vec![result(&job.name, outcome, job.work.clone(), ended.output.clone())]
            }
            Work::Unit { tests, .. } => {
                let many = Many::parse(&ended.output);
                let results = tests.iter().map(|&number| {
                    let test = &self.tests[number];
                    let (outcome, mut output) = many.outcome(&test.path, ended);
                    if output.is_empty() && matches!(outcome, Outcome::Failed(_)) {
                        output.clone_from(&ended.output);
                    }
                    result(&test.name, outcome, Work::One(number), output)
                });
                results.collect()
            }
            Work::Doc => doc_results(job, ended),
        }
    }
}

/// Cargo tells how many passed; which failed is in its output.
fn doc_results(job: &Job, ended: &Ended) -> Vec<TestResult> {
    let mut tally = Tally::default();
    tally.feed(ended.output.as_bytes());
    let counted = |outcome, count| TestResult {
        count,
        ..result(&job.name, outcome, job.work.clone(), ended.output.clone())
    };
    let mut results = vec![counted(Outcome::Passed, tally.passed)];
    if tally.ignored > 0 {
        let why = "documentation that is not compiled".to_owned();
        results.push(counted(Outcome::Skipped(why), tally.ignored));
    }
    if !ended.is_success() {
        // At least one: cargo itself may have failed.
        results.push(counted(Outcome::Failed(ended.reason()), tally.failed.max(1)));
    }
    results
}

fn result(name: &str, outcome: Outcome, again: Work, output: String) -> TestResult {
    TestResult { name: name.to_owned(), outcome, again, count: 1, output }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn doc_tests_are_counted_by_their_results() {
        let job = Job { name: DOC_TESTS.into(), work: Work::Doc, seconds: 0.0 };
        let output = "test result: ok. 7 passed; 0 failed; 2 ignored; 0 measured\n\
            test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\n";
        let ended = |code: i32, output: &str| Ended {
            status: Some(ExitStatus::from_raw(code << 8)),
            seconds: 1.0,
            output: output.into(),
        };
        let counts = |code, output| {
            let results = doc_results(&job, &ended(code, output));
            results.iter().map(|result| result.count).collect::<Vec<_>>()
        };
        assert_eq!(counts(101, output), [8, 2, 2]);
        assert_eq!(counts(0, "test result: ok. 7 passed; 0 failed; 0 ignored\n"), [7]);
        assert_eq!(counts(101, "error: could not compile\n"), [0, 1]);
    }
}
