//! Failed tests run once more, alone: one that passes then is flaky.

use super::job::{Done, Job, TestResult};
use super::logs::Logs;
use super::outcome::Outcome;
use super::report::{Summary, Trouble};

/// Where so many fail, the reason is not chance: the others are not run again.
pub(crate) const MOST: usize = 20;

/// Runs the failed tests again, and sorts them into failed and flaky. `tell` gets a line for each.
pub(crate) fn again(
    failed: Vec<TestResult>,
    is_on: bool,
    logs: &Logs,
    run: impl Fn(&Job) -> Done,
    mut tell: impl FnMut(&str),
    summary: &mut Summary,
) {
    if is_on && failed.len() > MOST {
        tell(&format!("{} tests failed: only the first {MOST} run again", failed.len()));
    }
    for (number, first) in failed.into_iter().enumerate() {
        let Outcome::Failed(reason) = first.outcome else { continue };
        let mut trouble = Trouble {
            logs: vec![logs.keep(&first.name, 1, &first.output)],
            name: first.name,
            reason,
            count: first.count,
        };
        if !is_on || number >= MOST {
            summary.failed.push(trouble);
            continue;
        }
        let job = Job { name: trouble.name.clone(), work: first.again, seconds: 0.0 };
        let done = run(&job);
        let output: String = done.results.first().map(|r| r.output.clone()).unwrap_or_default();
        trouble.logs.push(logs.keep(&trouble.name, 2, &output));
        let reason = done.results.into_iter().find_map(|result| match result.outcome {
            Outcome::Failed(reason) => Some(reason),
            _ => None,
        });
        match reason {
            None => {
                tell(&format!("FLAKY {}: passed when run again, alone", trouble.name));
                summary.flaky.push(trouble);
            }
            Some(reason) => {
                tell(&format!("FAILED AGAIN {}: {reason}", trouble.name));
                trouble.reason = reason;
                summary.failed.push(trouble);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::test::job::Work;
    use crate::test::scratch::Scratch;

    fn failed(number: usize) -> TestResult {
        TestResult {
            name: format!("distlock/it::{number}"),
            outcome: Outcome::Failed("exit code 101".into()),
            again: Work::One(number),
            count: 1,
            output: "the first time".into(),
        }
    }

    /// Runs `count` failed tests again: those with an even number pass then. Gives how many were run.
    fn rerun(count: usize, is_on: bool) -> (Summary, usize, Scratch) {
        let dir = Scratch::new().unwrap();
        let logs = Logs::new(dir.path().join("logs"), dir.path().to_owned()).unwrap();
        let runs = Cell::new(0);
        let run = |job: &Job| {
            runs.set(runs.get() + 1);
            let Work::One(number) = job.work else { panic!("{job:?}") };
            let mut result = failed(number);
            result.output = "the second time".into();
            if number % 2 == 0 {
                result.outcome = Outcome::Passed;
            }
            Done { name: job.name.clone(), seconds: 0.1, results: vec![result] }
        };
        let mut summary = Summary::default();
        again((0..count).map(failed).collect(), is_on, &logs, run, |_| {}, &mut summary);
        (summary, runs.get(), dir)
    }

    #[test]
    fn passing_the_second_time_is_flaky_and_both_outputs_are_kept() {
        let (summary, runs, dir) = rerun(2, true);
        assert_eq!(runs, 2);
        assert_eq!(summary.flaky[0].name, "distlock/it::0");
        assert_eq!(summary.failed[0].name, "distlock/it::1");
        assert_eq!(summary.flaky[0].logs, ["logs/distlock.it.0.1.log", "logs/distlock.it.0.2.log"]);
        let second = std::fs::read_to_string(dir.path().join(&summary.flaky[0].logs[1])).unwrap();
        assert_eq!(second, "the second time");
    }

    #[test]
    fn without_retry_every_failure_counts() {
        let (summary, runs, _dir) = rerun(4, false);
        assert_eq!((summary.failed.len(), summary.flaky.len(), runs), (4, 0, 0));
        assert_eq!(summary.failed[0].logs.len(), 1);
    }

    #[test]
    fn of_many_failures_only_the_first_run_again() {
        let (summary, runs, _dir) = rerun(MOST + 5, true);
        assert_eq!((summary.failed.len(), summary.flaky.len(), runs), (15, 10, MOST));
    }
}
