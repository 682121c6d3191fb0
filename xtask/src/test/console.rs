//! What the runner says while tests run.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::job::{DOC_TESTS, Done, TestResult};
use super::outcome::Outcome;

/// How many lines of a failed test's output are shown; the log has them all.
const LAST_LINES: usize = 60;
/// Between two lines of progress in a log.
const IN_A_LOG: Duration = Duration::from_secs(10);
const ON_A_TERMINAL: Duration = Duration::from_millis(250);

/// Prints what is worth a line, and how far the run is.
pub(crate) struct Console {
    total: usize,
    done: usize,
    failed: usize,
    start: Instant,
    /// When progress was last told.
    told: Instant,
    is_terminal: bool,
    /// Whether the outputs of all tests are shown.
    nocapture: bool,
}

impl Console {
    pub(crate) fn new(total: usize, nocapture: bool) -> Console {
        let now = Instant::now();
        let is_terminal = std::io::stdout().is_terminal();
        Console { total, done: 0, failed: 0, start: now, told: now, is_terminal, nocapture }
    }

    /// How long to wait at most before progress is told again.
    pub(crate) fn tick(&self) -> Duration {
        if self.is_terminal { ON_A_TERMINAL } else { IN_A_LOG }
    }

    /// Tells of a job's end.
    pub(crate) fn done(&mut self, done: &Done) {
        self.done += if done.name == DOC_TESTS { 1 } else { done.results.len() };
        for result in &done.results {
            self.failed += usize::from(matches!(result.outcome, Outcome::Failed(_)));
            if self.nocapture && !result.output.is_empty() {
                self.line(&format!("---- {}\n{}", result.name, result.output.trim_end()));
            }
            if let Some(text) = told(result, done.seconds, self.nocapture) {
                self.line(&text);
            }
        }
        self.progress();
    }

    /// Tells how far the run is, if that was not told lately.
    pub(crate) fn progress(&mut self) {
        if self.told.elapsed() < self.tick() {
            return;
        }
        self.told = Instant::now();
        let seconds = self.start.elapsed().as_secs();
        let status = status(self.done, self.total, self.failed, seconds);
        if self.is_terminal {
            print!("\r\x1b[K{status}");
        } else {
            println!("{status}");
        }
        let _ = std::io::stdout().flush();
    }

    /// Prints a line, in the place of the line of progress where there is one.
    pub(crate) fn line(&self, text: &str) {
        let clear = if self.is_terminal { "\r\x1b[K" } else { "" };
        println!("{clear}{text}");
    }
}

/// What is said of a result: nothing of a test that passed.
fn told(result: &TestResult, seconds: f64, is_shown: bool) -> Option<String> {
    let name = &result.name;
    match &result.outcome {
        Outcome::Passed => None,
        Outcome::Skipped(why) => Some(format!("SKIPPED {name}: {why}")),
        Outcome::Failed(why) => {
            let mut text = format!("FAILED {name}: {why} ({seconds:.1} s)");
            if !is_shown {
                text.push_str(&last_lines(&result.output));
            }
            Some(text)
        }
    }
}

fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let hidden = lines.len().saturating_sub(LAST_LINES);
    let mut text = String::new();
    if hidden > 0 {
        text.push_str(&format!("\n    ... {hidden} lines before these are in the log"));
    }
    for line in &lines[hidden..] {
        text.push_str("\n    ");
        text.push_str(line);
    }
    text
}

fn status(done: usize, total: usize, failed: usize, seconds: u64) -> String {
    let width = total.to_string().len();
    format!("[{done:width$}/{total}] {failed} failed, {seconds} s")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::job::Work;

    #[test]
    fn progress_fits_its_total() {
        assert_eq!(status(812, 1930, 2, 95), "[ 812/1930] 2 failed, 95 s");
    }

    #[test]
    fn a_failed_test_shows_its_last_lines_and_a_passed_one_nothing() {
        let result = |outcome| TestResult {
            name: "distlock/it::x".into(),
            outcome,
            again: Work::One(0),
            count: 1,
            output: (0..100).map(|n| format!("line {n}\n")).collect(),
        };
        assert_eq!(told(&result(Outcome::Passed), 1.0, false), None);
        let skipped = told(&result(Outcome::Skipped("no Java".into())), 1.0, false);
        assert_eq!(skipped.unwrap(), "SKIPPED distlock/it::x: no Java");
        let text = told(&result(Outcome::Failed("exit code 101".into())), 1.5, false).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "FAILED distlock/it::x: exit code 101 (1.5 s)");
        assert_eq!(lines[1], "    ... 40 lines before these are in the log");
        assert_eq!((lines[2], lines.len()), ("    line 40", 62));
    }
}
