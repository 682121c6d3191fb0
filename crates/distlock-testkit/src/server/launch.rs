//! Starting a server and knowing that the one that answers is ours.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Connection, RedisResult};

use super::process::kill;
use super::{Access, Process, Server, Tls};
use crate::{port, spawn};

/// How long a server may take until it answers, on a machine that does other things.
const STARTUP: Duration = Duration::from_secs(30);
/// Between two tries to reach a server that starts.
const BACKOFF: Duration = Duration::from_millis(2);
/// How often another port is tried after the chosen one was taken.
const PORTS: usize = 8;

/// How to start a server, and how to start it again.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) access: Arc<Access>,
    pub(super) program: PathBuf,
    pub(super) namespace: Option<String>,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) keep_data: bool,
    /// Whether it is a sentinel, which has a file of settings and keeps no data.
    pub(super) sentinel: bool,
}

/// What became of a start.
enum Start {
    Ready(Child),
    PortTaken,
}

/// Starts a server on a port that is free.
pub(super) fn first(plan: Plan) -> Server {
    for _ in 0..PORTS {
        let port = port::free();
        if let Start::Ready(child) = start(&plan, port) {
            return plan.started(port, child);
        }
    }
    panic!("{PORTS} free ports in a row were taken before the server could bind them");
}

/// Starts a server on this port; `None` if somebody has it already.
pub(super) fn at(plan: Plan, port: u16) -> Option<Server> {
    match start(&plan, port) {
        Start::Ready(child) => Some(plan.started(port, child)),
        Start::PortTaken => None,
    }
}

/// Starts a server again on the port it had.
pub(super) async fn again(plan: &Arc<Plan>, port: u16) -> Child {
    let plan = Arc::clone(plan);
    apart(move || match start(&plan, port) {
        Start::Ready(child) => child,
        Start::PortTaken => panic!("port {port} was taken while its server was down"),
    })
    .await
}

/// Runs blocking work beside the test's runtime: its tasks go on, and a paused clock stands still.
pub(super) async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

fn start(plan: &Plan, port: u16) -> Start {
    // The old socket would speak for the old process.
    let _ = fs::remove_file(plan.access.socket());
    let log =
        fs::File::create(plan.access.log_file()).expect("the server's own directory is writable");
    let errors = log.try_clone().expect("an open file can be shared");
    let mut command = match &plan.namespace {
        None => spawn::command(&plan.program),
        // It becomes the program, and so has its process id.
        Some(name) => {
            let mut command = spawn::command("ip");
            command.args(["netns", "exec", name]).arg(&plan.program);
            command
        }
    };
    command.args(plan.command_line(port)).current_dir(plan.access.dir.path());
    command.envs(plan.env.iter().cloned());
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let mut child = match spawn::spawn(command) {
        Ok(child) => child,
        Err(error) => panic!("cannot start {}: {error}", plan.program.display()),
    };

    let since = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be asked whether it runs") {
            let log = plan.access.log();
            if log.contains("Address already in use") {
                return Start::PortTaken;
            }
            panic!("{} ended with {status}; it logged:\n{log}", plan.program.display());
        }
        match plan.access.connect().and_then(|mut connection| process_id(&mut connection)) {
            // The socket lies in a directory that is ours alone, and still: be sure.
            Ok(pid) if pid == child.id() => return Start::Ready(child),
            Ok(pid) => panic!("process {pid} answers where {} was started", child.id()),
            Err(error) if since.elapsed() > STARTUP => {
                kill(&mut child);
                panic!("no answer after {STARTUP:?}: {error}; the log:\n{}", plan.access.log());
            }
            Err(_) => std::thread::sleep(BACKOFF),
        }
    }
}

fn process_id(connection: &mut Connection) -> RedisResult<u32> {
    redis::cmd("PING").exec(connection)?;
    let info: redis::InfoDict = redis::cmd("INFO").arg("server").query(connection)?;
    Ok(info.get("process_id").expect("INFO server names the process"))
}

impl Plan {
    fn started(self, port: u16, child: Child) -> Server {
        Server { access: Arc::clone(&self.access), port, process: Process::own(self, child) }
    }

    fn command_line(&self, port: u16) -> Vec<OsString> {
        let port = port.to_string();
        let mut line: Vec<OsString> = Vec::new();
        if self.sentinel {
            // It writes what it finds out into that file, and finds it there after a restart.
            line.extend([self.access.dir.join("conf").into(), "--sentinel".into()]);
        }
        let mut add = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            line.push(name.into());
            line.push(value.as_ref().into());
        };
        add("--bind", &"127.0.0.1");
        add("--dir", &self.access.dir.path());
        add("--unixsocket", &self.access.socket());
        match &self.access.tls {
            None => add("--port", &port),
            Some((tls, files)) => {
                add("--port", &"0");
                add("--tls-port", &port);
                add("--tls-ca-cert-file", &files.ca);
                add("--tls-cert-file", &files.server_cert);
                add("--tls-key-file", &files.server_key);
                let asks = if *tls == Tls::Mutual { "yes" } else { "no" };
                add("--tls-auth-clients", &asks);
            }
        }
        if !self.sentinel {
            add("--save", &"");
            add("--appendonly", &if self.keep_data { "yes" } else { "no" });
        }
        if self.keep_data {
            add("--appendfsync", &"always");
        }
        if let Some(password) = &self.access.password {
            add("--requirepass", password);
        }
        line.extend(self.args.iter().cloned());
        line
    }
}
