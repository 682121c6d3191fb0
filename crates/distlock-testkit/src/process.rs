//! Workers in processes of their own, so that `kill -9` and `SIGSTOP` are real.
//!
//! A worker is a program of this crate (`src/bin/NAME.rs`) that reads commands from its standard
//! input and answers on its standard output, a line each. It ends when its input does.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;

use crate::spawn;

/// How long a worker may take to say something, where the test does not say.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Names the directory where cargo has put the workers and, in `examples`, the examples (`target/debug`): those that are
/// there are taken to be up to date.
pub const PROGRAMS: &str = "DISTLOCK_PROGRAMS";

/// Says how to run a worker. See [`worker`].
#[derive(Debug)]
pub struct Builder {
    name: String,
    program: Option<PathBuf>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

/// A running worker. It dies with this value, and also with the test process.
#[derive(Debug)]
pub struct Worker {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: mpsc::UnboundedReceiver<String>,
}

/// The worker of that name: a program in this crate's `src/bin`.
pub fn worker(name: impl Into<String>) -> Builder {
    Builder { name: name.into(), program: None, args: Vec::new(), env: Vec::new() }
}

/// A program of somebody else's that speaks as workers do.
pub fn foreign(name: impl Into<String>, program: impl Into<PathBuf>) -> Builder {
    Builder { program: Some(program.into()), ..worker(name) }
}

impl Builder {
    /// One more argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Builds the worker, if that has not been done yet, and starts it.
    ///
    /// # Panics
    /// When it cannot be built or started.
    pub async fn start(self) -> Worker {
        let name = self.name.clone();
        let known = self.program;
        let find = move || known.unwrap_or_else(|| program(&name));
        let program = tokio::task::spawn_blocking(find).await.expect("the worker can be built");
        let mut command = spawn::command(&program);
        command.args(&self.args).envs(self.env).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = spawn::spawn(command).expect("a program just built can be started");
        let stdout = child.stdout.take().expect("the output is piped");
        let stdin = child.stdin.take();
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            // Ends with the worker's output, or with the test that read it.
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Worker { name: self.name, child, stdin, lines }
    }
}

impl Worker {
    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process is there, even if it is stopped.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a line. A worker that is gone does not get it.
    pub fn send(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("the input has not been closed");
        // A worker may be killed at any moment: that it is gone shows in what it no longer says.
        let _ = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
    }

    /// Closes its input: a worker that behaves ends.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    /// The next line it says; `None` when it has said its last.
    ///
    /// # Panics
    /// When it says nothing for [`PATIENCE`].
    pub async fn line(&mut self) -> Option<String> {
        self.line_within(PATIENCE).await
    }

    /// [`line`](Worker::line) with a limit of the test's own.
    ///
    /// # Panics
    /// When it says nothing for that long.
    pub async fn line_within(&mut self, limit: Duration) -> Option<String> {
        let line = tokio::time::timeout(limit, self.lines.recv()).await;
        line.unwrap_or_else(|_| panic!("{} has said nothing for {limit:?}", self.name))
    }

    /// Waits for a line that starts with `prefix`, and gives it. Lines before it are passed over.
    ///
    /// # Panics
    /// When there is none within [`PATIENCE`], or the worker ends; with what it said instead.
    pub async fn wait_for(&mut self, prefix: &str) -> String {
        self.wait_for_within(prefix, PATIENCE).await
    }

    /// [`wait_for`](Worker::wait_for) with a limit of the test's own.
    ///
    /// # Panics
    /// Like [`wait_for`](Worker::wait_for).
    pub async fn wait_for_within(&mut self, prefix: &str, limit: Duration) -> String {
        let mut passed = Vec::new();
        let lines = &mut self.lines;
        let search = async {
            while let Some(line) = lines.recv().await {
                if line.starts_with(prefix) {
                    return Some(line);
                }
                passed.push(line);
            }
            None
        };
        let why = match tokio::time::timeout(limit, search).await {
            Ok(Some(line)) => return line,
            Ok(None) => "before it ended".to_owned(),
            Err(_) => format!("within {limit:?}"),
        };
        panic!("{} did not say {prefix:?} {why}, only {passed:#?}", self.name)
    }

    /// Sends a line and waits for the next that it says.
    ///
    /// # Panics
    /// When it says nothing for [`PATIENCE`], or has ended.
    pub async fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line().await.unwrap_or_else(|| panic!("{} ended before {line:?}", self.name))
    }

    /// Takes what it says from now on: for somebody who reads it elsewhere.
    pub(crate) fn take_lines(&mut self) -> mpsc::UnboundedReceiver<String> {
        let (_, none) = mpsc::unbounded_channel();
        std::mem::replace(&mut self.lines, none)
    }

    /// `kill -9`. Returns when the process is gone.
    pub fn kill(&mut self) {
        // Both fail only when the process has already been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// `SIGSTOP`.
    pub fn stop(&self) {
        spawn::stop(self.pid());
    }

    /// `SIGCONT`.
    pub fn cont(&self) {
        spawn::signal(self.pid(), Signal::CONT);
    }

    /// `SIGTERM`.
    pub fn terminate(&self) {
        spawn::signal(self.pid(), Signal::TERM);
    }

    /// Closes its input, reads its output to the end and gives its exit status.
    ///
    /// # Panics
    /// When it does not end within [`PATIENCE`].
    pub async fn finish(mut self) -> ExitStatus {
        self.close();
        let end = async { while self.lines.recv().await.is_some() {} };
        if tokio::time::timeout(PATIENCE, end).await.is_err() {
            panic!("{} still runs {PATIENCE:?} after its input was closed", self.name);
        }
        // Its output is closed: it is as good as gone.
        self.child.wait().expect("a child can be waited for")
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program of one of the library's examples, up to date.
///
/// # Panics
/// When it cannot be built.
pub fn example(name: &str) -> PathBuf {
    built_before(Path::new("examples"), name).unwrap_or_else(|| build("--example", name))
}

/// The program in the directory of those that the runner of the tests has built. Without one, each process has cargo look
/// whether there is something to build.
fn built_before(below: &Path, name: &str) -> Option<PathBuf> {
    let dir = PathBuf::from(env::var_os(PROGRAMS)?);
    Some(dir.join(below).join(name)).filter(|program| program.is_file())
}

/// The worker's program, up to date.
fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<Mutex<HashMap<String, PathBuf>>> = OnceLock::new();
    let built = BUILT.get_or_init(Mutex::default);
    let mut built = built.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(path) = built.get(name) {
        return path.clone();
    }
    // Cargo says so to the integration tests of this crate alone.
    let path = match env::var_os(format!("CARGO_BIN_EXE_{name}")) {
        Some(path) => PathBuf::from(path),
        None => built_before(Path::new(""), name).unwrap_or_else(|| build("--bin", name)),
    };
    built.insert(name.to_owned(), path.clone());
    path
}

/// Has cargo build a worker or an example, with the same features and profile, into the same directory as the
/// test that runs: after `cargo xtask test` nothing is left to build.
fn build(what: &str, name: &str) -> PathBuf {
    let test = env::current_exe().expect("the test knows its own path");
    // TARGET/PROFILE/deps/test
    let profile_dir = test.ancestors().nth(2).expect("a test lies in the target directory");
    let target_dir = profile_dir.parent().expect("a test lies in the target directory");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--workspace", "--all-features", what, name]);
    command.arg("--target-dir").arg(target_dir).current_dir(env!("CARGO_MANIFEST_DIR"));
    // What cargo says to a test about its package. Build scripts that look at it would run anew, and half of the dependencies
    // with them.
    for (name, _) in env::vars_os() {
        let about = name.to_string_lossy();
        if about.starts_with("CARGO_PKG_") || about.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if profile_dir.file_name().is_some_and(|profile| profile == "release") {
        command.arg("--release");
    }
    let output = command.stdin(Stdio::null()).output().expect("cargo can be run");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cannot build {name}:\n{errors}");
    let dir =
        if what == "--example" { profile_dir.join("examples") } else { profile_dir.to_owned() };
    let program = dir.join(name);
    assert!(program.is_file(), "cargo built no {}", program.display());
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_worker_is_built_where_cargo_does_not_name_it() {
        // A unit test is such a place, like the tests of every other crate.
        assert!(env::var_os("CARGO_BIN_EXE_testkit-echo").is_none());
        let mut echo = worker("testkit-echo").start().await;
        echo.wait_for("ready").await;
    }
}
