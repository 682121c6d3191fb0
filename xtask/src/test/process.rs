//! Runs one process of tests to its end, or to its limit.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::keeper::Keeper;

/// How often a process is asked whether it has ended: soon for the short ones, rarely for the long ones.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LAST_LOOK: Duration = Duration::from_millis(20);

/// How a process ended.
pub(crate) struct Ended {
    /// `None`: it did not end within the limit and was killed.
    pub(crate) status: Option<ExitStatus>,
    pub(crate) seconds: f64,
    /// What it wrote to its standard output and its standard error, in the order in which it wrote it.
    pub(crate) output: String,
}

impl Ended {
    pub(crate) fn is_success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Why it is no success, for people to read.
    pub(crate) fn reason(&self) -> String {
        let Some(status) = self.status else {
            return format!("hung: killed after {:.0} s", self.seconds);
        };
        match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by signal {signal}"),
            (None, None) => status.to_string(),
        }
    }
}

/// Runs `command` in a process group of its own. Its output goes to the file `capture` first: processes that it leaves behind
/// may keep a file open, but they would keep the reader of a pipe waiting.
pub(crate) fn run(
    keeper: &Keeper,
    mut command: Command,
    capture: &Path,
    limit: Duration,
) -> Result<Ended, String> {
    let trouble = |error: io::Error| format!("{}: {error}", capture.display());
    let file = File::create(capture).map_err(trouble)?;
    let copy = file.try_clone().map_err(trouble)?;
    command.stdin(Stdio::null()).stdout(file).stderr(copy).process_group(0);
    let program = command.get_program().to_string_lossy().into_owned();
    let start = Instant::now();
    let mut child = command.spawn().map_err(|error| format!("cannot run {program}: {error}"))?;
    keeper.keep(child.id());
    let status = wait(&mut child, start + limit);
    // Also after a good end: what a test leaves behind would disturb the next.
    keeper.kill(child.id());
    let status = status.map_err(|error| format!("cannot wait for {program}: {error}"))?;
    if status.is_none() {
        // The group is being killed; this is for its leader, in case the keeper is gone.
        let _ = child.kill();
        let _ = child.wait();
    }
    let seconds = start.elapsed().as_secs_f64();
    let output = std::fs::read(capture).map_err(trouble)?;
    let output = String::from_utf8_lossy(&output).into_owned();
    std::fs::remove_file(capture).map_err(trouble)?;
    Ok(Ended { status, seconds, output })
}

/// `None` when it has not ended by then.
fn wait(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = FIRST_LOOK;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = LAST_LOOK.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::scratch::Scratch;

    fn sh(script: &str, limit: Duration) -> Ended {
        let dir = Scratch::new().unwrap();
        let keeper = Keeper::start().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(&keeper, command, &dir.path().join("out"), limit).unwrap()
    }

    #[test]
    fn both_outputs_are_captured_in_order() {
        let ended = sh("echo one; echo two >&2; echo three; exit 3", Duration::from_secs(60));
        assert_eq!(ended.output, "one\ntwo\nthree\n");
        assert!(!ended.is_success());
        assert_eq!(ended.reason(), "exit code 3");
    }

    #[test]
    fn a_process_that_hangs_is_killed_with_its_children() {
        let script = "sleep 600 & echo $!; wait";
        let ended = sh(script, Duration::from_secs(2));
        assert!(ended.status.is_none());
        assert!(ended.reason().starts_with("hung"), "{}", ended.reason());
        let child = Path::new("/proc").join(ended.output.trim()).join("cmdline");
        let end = Instant::now() + Duration::from_secs(30);
        // A zombie has no command line any more.
        while std::fs::read(&child).is_ok_and(|line| !line.is_empty()) {
            assert!(Instant::now() < end, "the child of a killed process lives on");
            std::thread::sleep(LAST_LOOK);
        }
    }

    #[test]
    fn a_child_left_behind_does_not_keep_the_runner_waiting() {
        let ended = sh("sleep 600 & exit 0", Duration::from_secs(300));
        assert!(ended.is_success());
        assert!(ended.seconds < 60.0);
    }
}
