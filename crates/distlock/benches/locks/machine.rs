//! Other processes, and what the kernel and the server say about them.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use distlock_testkit::Server;

use crate::{crowd, fight};

/// What this process was told to be by the benchmark that started it.
pub(crate) async fn worker(args: &[String]) -> ExitCode {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["fight", ref rest @ ..] => fight::worker(rest).await,
        ["hold", url, count, watchdog] => crowd::hold(url, count, watchdog).await,
        ["wait", url, count] => crowd::wait(url, count).await,
        _ => panic!("no such worker: {args:?}"),
    }
    ExitCode::SUCCESS
}

/// A process of this same program that talks in lines.
pub(crate) struct Worker {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    pub(crate) fn start(args: &[&str]) -> Worker {
        let program = std::env::current_exe().expect("a program knows where it is");
        let mut command = Command::new(program);
        command.arg("--worker").args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program can be started once more");
        let output = BufReader::new(child.stdout.take().expect("the output is piped"));
        Worker { child, output }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("the input is piped");
        writeln!(input, "{line}").expect("the worker listens");
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the worker answers");
        line.trim_end().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a line on the standard input, or its end.
pub(crate) async fn told() -> String {
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line.trim_end().to_owned())
    });
    line.await.expect("reading does not panic").unwrap_or_default()
}

/// The time that a process has spent on the processors.
pub(crate) fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in brackets, may hold anything.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok());
    Duration::from_millis(10) * ticks.sum::<u64>() as u32
}

/// The memory that a process has.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// How many commands clients have sent for locks since the counters were at 0; what scripts call does not count.
pub(crate) async fn commands(server: &Server) -> u64 {
    let stats = server.command_stats().await;
    let sent = ["evalsha", "eval", "set", "script|load", "subscribe", "unsubscribe"];
    sent.iter().filter_map(|name| stats.get(*name)).map(|stats| stats.calls).sum()
}
