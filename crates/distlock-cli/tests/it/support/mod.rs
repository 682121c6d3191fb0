//! A directory of locks and the real binary to use it with.

pub(crate) mod schema;
pub(crate) mod terminal;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Longer than anything takes; only a hang gets there.
const PATIENCE: Duration = Duration::from_secs(20);

/// The options for every kind that a run can have alone, under one name, in one store. Readers share theirs.
pub(crate) const KINDS: [&[&str]; 9] = [
    &["--kind", "mutex"],
    &["--kind", "fair"],
    &["--kind", "rw"],
    &["--kind", "rw", "--read"],
    &["--kind", "fenced"],
    &["--kind", "spin"],
    &["--kind", "simple"],
    &["--kind", "semaphore", "--permits", "1"],
    &["--kind", "leased_semaphore", "--permits", "1"],
];

/// A directory of its own for one test, gone when the test is.
pub(crate) struct Bench {
    dir: PathBuf,
    /// Where the locks are, if not in the directory.
    server: Option<String>,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("distlock-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Bench { dir: path, server: None }
    }

    /// With the locks elsewhere.
    pub(crate) fn on(url: String) -> Bench {
        let mut bench = Bench::new();
        bench.server = Some(url);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn url(&self) -> String {
        match &self.server {
            Some(url) => url.clone(),
            None => format!("file:{}", self.path("locks").display()),
        }
    }

    /// `distlock` with these arguments, on this directory's locks, in this directory.
    pub(crate) fn distlock<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_distlock"));
        command.args(args).current_dir(&self.dir).env("DISTLOCK_URL", self.url());
        command.env("DISTLOCK_AUDIT", self.path("audit.log")).env_remove("NO_COLOR");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// `distlock run … -- sh -c script`.
    pub(crate) fn run(&self, options: &[&str], name: &str, script: &str) -> Command {
        let command = [name, "--", "sh", "-c", script];
        self.distlock(["run"].iter().chain(options).chain(&command).copied())
    }

    /// A run that is inside until it is told to leave.
    pub(crate) fn hold(&self, options: &[&str], name: &str) -> Holder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let ready = format!("ready{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let script = format!("trap 'exit 0' TERM; echo > {ready}; read line; exit 0");
        let child = self.run(options, name, &script).stdin(Stdio::piped()).spawn().unwrap();
        let holder = Holder(child);
        self.await_file(&ready);
        holder
    }

    /// What a command with `--json` says.
    pub(crate) fn json<'a>(&self, args: impl IntoIterator<Item = &'a str>) -> serde_json::Value {
        let mut command = self.distlock(args);
        command.arg("--json");
        let output = output(command);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What `show` says about a lock.
    pub(crate) fn show(&self, name: &str) -> serde_json::Value {
        self.json(["show", name])
    }

    /// What `show` says about a lock of some kind.
    pub(crate) fn show_as(&self, kind: &str, name: &str) -> serde_json::Value {
        self.json(["show", "--kind", kind, name])
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        self.show(name)["held"].as_bool().unwrap()
    }

    /// Waits until the file is there with a whole line in it, and returns what is in it.
    pub(crate) fn await_file(&self, name: &str) -> String {
        let path = self.path(name);
        wait_until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
        fs::read_to_string(&path).unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A lock that is being let go may come in between.
        let gone = || fs::remove_dir_all(&self.dir).is_ok() || !self.dir.exists();
        match std::thread::panicking() {
            true => drop(gone()),
            false => wait_until("an empty directory", gone),
        }
    }
}

/// A command that runs under a lock.
pub(crate) struct Holder(pub(crate) Child);

impl Holder {
    /// Lets it end, and says how it did.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.0.stdin.take());
        self.end()
    }

    /// Waits for an end that something else brings about.
    pub(crate) fn end(mut self) -> Option<i32> {
        await_exit(&mut self.0).code()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It is gone already unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs it to its end.
pub(crate) fn output(mut command: Command) -> Output {
    let mut child = command.spawn().unwrap();
    await_exit(&mut child);
    child.wait_with_output().unwrap()
}

pub(crate) fn code(command: Command) -> i32 {
    let output = output(command);
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

pub(crate) fn await_exit(child: &mut Child) -> ExitStatus {
    let mut status = None;
    wait_until("exit", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

pub(crate) fn kill(child: &Child, signal: Signal) {
    rustix::process::kill_process(Pid::from_child(child), signal).unwrap();
}

pub(crate) fn pid_in(text: &str) -> u32 {
    text.trim().parse().unwrap()
}

/// Whether the process runs; one that nobody has reaped yet does not.
pub(crate) fn is_alive(pid: u32) -> bool {
    !matches!(state(pid), None | Some('Z' | 'X'))
}

/// Whether a signal has stopped the process.
pub(crate) fn is_stopped(pid: u32) -> bool {
    state(pid) == Some('T')
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.ok().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next())
}

/// Ends what a test has left running.
pub(crate) fn end(pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, Signal::KILL).unwrap();
}

/// Waits until the program catches the signals that ask it to end: from then on they do not just kill it.
pub(crate) fn await_handlers(child: &Child) {
    await_caught(child, &[Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT]);
}

/// Waits until the program catches these signals, as far as they are not ignored.
pub(crate) fn await_caught(child: &Child, signals: &[Signal]) {
    let heard = signals.iter().copied().filter(|signal| !is_ignored(*signal));
    let wanted: u64 = heard.map(bit).sum();
    let status = format!("/proc/{}/status", child.id());
    wait_until("signal handlers", || mask(&status, "SigCgt:") & wanted == wanted);
}

/// Whether the process that started the tests ignores this signal, as `nohup` and shells with jobs in the background do: all that the
/// tests start inherits it.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    mask("/proc/self/status", "SigIgn:") & bit(signal) != 0
}

/// Whether a test about this signal has to be skipped; says so, so that it does not count as passed.
pub(crate) fn is_skipped(signal: Signal) -> bool {
    let ignored = is_ignored(signal);
    if ignored {
        println!("SKIPPED: {signal:?} is ignored by the process that started the tests");
    }
    ignored
}

fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

fn mask(status: &str, field: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix(field));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
