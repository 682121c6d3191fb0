//! The closing lines of a run.

use std::collections::BTreeMap;

/// With more flaky tests than this a run is red.
const MOST_FLAKY: u64 = 2;
/// How many of the slowest are named.
const SLOWEST: usize = 10;

/// A test that failed, once or twice.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) name: String,
    pub(crate) reason: String,
    /// How many tests it stands for: the documentation tests fail together.
    pub(crate) count: u64,
    /// Where its outputs are.
    pub(crate) logs: Vec<String>,
}

/// What came out of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) passed: u64,
    pub(crate) failed: Vec<Trouble>,
    pub(crate) flaky: Vec<Trouble>,
    /// How many tests were skipped for each reason.
    pub(crate) skipped: BTreeMap<String, u64>,
    /// Seconds and name of each job.
    pub(crate) times: Vec<(f64, String)>,
    /// How many tests are left to `--all`.
    pub(crate) left_out: usize,
    /// A line for each server.
    pub(crate) servers: Vec<String>,
    pub(crate) building: f64,
    pub(crate) running: f64,
}

impl Summary {
    pub(crate) fn is_green(&self) -> bool {
        self.failed.is_empty() && !self.is_too_flaky()
    }

    fn is_too_flaky(&self) -> bool {
        count(&self.flaky) > MOST_FLAKY
    }

    /// Everything that is said at the end. The last line has the counts alone: programs read it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        troubles(&mut lines, "failed", &self.failed);
        troubles(&mut lines, "flaky: failed, then passed when run again, alone", &self.flaky);
        if self.is_too_flaky() {
            lines.push(format!("more than {MOST_FLAKY} flaky tests: they count as failed"));
        }
        for (reason, count) in &self.skipped {
            lines.push(format!("skipped: {count} × {reason}"));
        }
        if self.left_out > 0 {
            lines.push(format!(
                "not run: {} tests of tier 2; `cargo xtask test --all` runs them",
                self.left_out
            ));
        }
        lines.extend(self.servers.iter().cloned());
        let mut times: Vec<_> = self.times.iter().collect();
        times.sort_by(|a, b| b.0.total_cmp(&a.0));
        if !times.is_empty() {
            lines.push("slowest:".into());
        }
        for (seconds, name) in times.into_iter().take(SLOWEST) {
            lines.push(format!("{seconds:8.1} s  {name}"));
        }
        let (building, running) = (self.building, self.running);
        lines.push(format!("building {building:.0} s, running {running:.0} s"));
        let (failed, flaky) = (count(&self.failed), count(&self.flaky));
        let (passed, skipped) = (self.passed, self.skipped.values().sum::<u64>());
        let seconds = building + running;
        lines.push(format!(
            "passed {passed}, failed {failed}, flaky {flaky}, skipped {skipped} in {seconds:.0} s"
        ));
        let (passed, failed) = match self.is_too_flaky() {
            true => (passed, failed + flaky),
            false => (passed + flaky, failed),
        };
        lines.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
        lines
    }
}

fn count(troubles: &[Trouble]) -> u64 {
    troubles.iter().map(|trouble| trouble.count).sum()
}

fn troubles(lines: &mut Vec<String>, title: &str, troubles: &[Trouble]) {
    if troubles.is_empty() {
        return;
    }
    lines.push(format!("{title}:"));
    for trouble in troubles {
        lines.push(format!("  {}: {}", trouble.name, trouble.reason));
        lines.extend(trouble.logs.iter().map(|log| format!("    {log}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(name: &str) -> Trouble {
        Trouble {
            name: name.into(),
            reason: "exit code 101".into(),
            count: 1,
            logs: vec![format!("{name}.1.log"), format!("{name}.2.log")],
        }
    }

    fn summary(failed: usize, flaky: usize) -> Summary {
        let troubles = |n: usize| (0..n).map(|n| trouble(&format!("t{n}"))).collect();
        Summary {
            passed: 100,
            failed: troubles(failed),
            flaky: troubles(flaky),
            skipped: [("no Java".to_owned(), 3), ("ignored: long tier".to_owned(), 4)].into(),
            times: (0..12).map(|n| (f64::from(n), format!("job {n}"))).collect(),
            left_out: 5,
            servers: vec!["tested against Redis: 7".into()],
            building: 10.4,
            running: 20.0,
        }
    }

    #[test]
    fn a_green_run_tells_the_counts_last() {
        let summary = summary(0, 2);
        assert!(summary.is_green());
        let lines = summary.lines();
        let [.., before, last] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!(last, "102 passed, 0 failed, 7 skipped");
        assert_eq!(before, "passed 100, failed 0, flaky 2, skipped 7 in 30 s");
        for line in ["skipped: 3 × no Java", "    t1.2.log", "tested against Redis: 7"] {
            assert!(lines.iter().any(|l| l == line), "{line}: {lines:#?}");
        }
        let slowest: Vec<_> = lines.iter().filter(|line| line.contains(" s  job")).collect();
        assert_eq!(slowest.len(), SLOWEST);
        assert_eq!(slowest[0], "    11.0 s  job 11");
    }

    #[test]
    fn three_flaky_tests_are_red() {
        let summary = summary(0, 3);
        assert!(!summary.is_green());
        assert_eq!(summary.lines().last().unwrap(), "100 passed, 3 failed, 7 skipped");
    }

    #[test]
    fn one_failed_test_is_red_and_nothing_at_all_has_counts_too() {
        assert!(!summary(1, 0).is_green());
        assert_eq!(summary(1, 1).lines().last().unwrap(), "101 passed, 1 failed, 7 skipped");
        let nothing = Summary::default();
        assert_eq!(nothing.lines().last().unwrap(), "0 passed, 0 failed, 0 skipped");
    }
}
