//! Child processes that do not outlive the test process, however it ends.

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};

use rustix::process::{Pid, Signal, kill_process};

type Job = (Command, Sender<io::Result<Child>>);

/// A command that the kernel kills with this process, where `setpriv` is there to ask for it.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    if !has_setpriv() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

fn has_setpriv() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })
}

/// Starts `command` from a thread that lives as long as this process.
///
/// The kernel sends the signal when the *thread* that started the child ends, and a test's thread
/// ends with its test: a server shared by several tests would die with the first of them.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, inbox) = channel::<Job>();
        std::thread::Builder::new()
            .name("testkit-spawner".into())
            .spawn(move || {
                for (mut command, answer) in inbox {
                    // Whoever asked waits for the answer, so it arrives.
                    let _ = answer.send(command.spawn());
                }
            })
            .expect("a thread can be started");
        Mutex::new(jobs)
    });
    let (answer, child) = channel();
    let jobs = spawner.lock().expect("nothing panics with the spawner locked").clone();
    jobs.send((command, answer)).expect("the spawner lives as long as the process");
    child.recv().expect("the spawner answers every job")
}

/// Sends `signal` to a child that has not been waited for yet.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let raw = i32::try_from(pid).expect("a process id fits an i32");
    let pid = Pid::from_raw(raw).expect("a child's process id is not 0");
    kill_process(pid, signal).expect("a child that has not been waited for can be signalled");
}

/// `SIGSTOP`, and back only when every thread of the child has stopped: the signal alone leaves it time to act.
pub(crate) fn stop(pid: u32) {
    signal(pid, Signal::STOP);
    while !is_stopped(pid) {
        std::thread::yield_now();
    }
}

/// Whether a process does nothing.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    threads.flatten().all(|thread| {
        // A thread that ends in this moment is not going to act either.
        let Ok(stat) = std::fs::read_to_string(thread.path().join("stat")) else { return true };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 't' | 'X' | 'Z') | None)
    })
}
