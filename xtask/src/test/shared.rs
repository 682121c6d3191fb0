//! The servers that tests share: a program of the testkit starts them when the first test asks for one.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::scratch::Scratch;

/// The program of the testkit.
pub(crate) const PROGRAM: &str = "testkit-servers";
/// How long it may take to listen, and to end with its servers.
const LIMIT: Duration = Duration::from_secs(30);

/// The running program. It ends with this value, and its servers with it.
pub(crate) struct SharedServers {
    child: Mutex<Child>,
    socket: PathBuf,
    _dir: Scratch,
}

impl SharedServers {
    /// Starts it, and waits until it listens. What it complains about goes to the file `log`.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<SharedServers, String> {
        let dir = Scratch::new()?;
        let socket = dir.path().join("servers");
        let log = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        command.arg(&socket).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // It learns of the runner's end from its input; Ctrl-C would end it without its servers.
        command.process_group(0);
        let child = command.spawn().map_err(|error| format!("cannot run {PROGRAM}: {error}"))?;
        let mut shared = SharedServers { child: Mutex::new(child), socket, _dir: dir };
        let child = shared.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let output = child.stdout.take().ok_or("its output is not piped")?;
        match first_line(output).recv_timeout(LIMIT).as_deref() {
            Ok("ready") => Ok(shared),
            Ok(line) => Err(format!("{PROGRAM} is not ready, it says: {line}")),
            Err(_) => Err(format!("{PROGRAM} did not become ready")),
        }
    }

    /// Where it listens, as long as it runs.
    pub(crate) fn socket(&self) -> Option<&Path> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(child.try_wait(), Ok(None)).then_some(self.socket.as_path())
    }
}

/// Sends the first line, and reads on, so that the program can always write.
fn first_line(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Only the first line is waited for.
            let _ = sender.send(line);
        }
    });
    receiver
}

impl Drop for SharedServers {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        drop(child.stdin.take());
        let deadline = Instant::now() + LIMIT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() >= deadline {
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> (Scratch, Result<SharedServers, String>) {
        let dir = Scratch::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let shared = SharedServers::start(command, &dir.path().join("log"));
        (dir, shared)
    }

    #[test]
    fn the_program_ends_when_its_input_does() {
        let (dir, shared) = start("echo ready; cat; echo ended >&2");
        let shared = shared.unwrap();
        assert!(shared.socket().is_some());
        drop(shared);
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), "ended\n");
    }

    #[test]
    fn a_program_that_died_has_no_socket() {
        let (_dir, shared) = start("echo ready");
        let shared = shared.unwrap();
        let deadline = Instant::now() + LIMIT;
        while shared.socket().is_some() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_program_that_cannot_start_says_so() {
        assert!(start("echo no servers here").1.is_err());
        assert!(start("exit 1").1.is_err());
    }
}
