//! The environment in which a test runs: what cargo would set, and how it finds servers and programs.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::programs::{Executable, Programs};
use super::shared::SharedServers;
use super::signals;
use crate::run::cargo_program;
use crate::servers::Servers;

/// Names the directory of the programs that tests start.
const PROGRAMS: &str = "DISTLOCK_PROGRAMS";
/// Names the socket of the program that starts the servers which tests share.
const SHARED_SERVERS: &str = "DISTLOCK_SERVERS";
/// Tells tests with repetitions to do fewer of them.
const EFFORT: &str = "DISTLOCK_EFFORT";
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// What is the same for every test.
pub(crate) struct Environment {
    variables: Vec<(&'static str, OsString)>,
    shared: Option<SharedServers>,
}

impl Environment {
    /// Enough to list tests.
    pub(crate) fn new(programs: &Programs) -> Result<Environment, String> {
        let mut variables = vec![
            ("CARGO", cargo_program()),
            ("RUST_BACKTRACE", "1".into()),
            (LIBRARIES, libraries(programs)?),
        ];
        if let Some(dir) = &programs.dir {
            variables.push((PROGRAMS, dir.into()));
        }
        Ok(Environment { variables, shared: None })
    }

    /// For tier 1: tests with repetitions do fewer of them.
    pub(crate) fn shorten(&mut self) {
        self.variables.push((EFFORT, "short".into()));
    }

    /// Adds the servers: the programs for tests that start their own, and those that tests share.
    pub(crate) fn add_servers(&mut self, servers: &Servers, shared: Option<SharedServers>) {
        self.variables.extend(servers.variables().map(|(name, path)| (name, path.into())));
        self.shared = shared;
    }

    /// A command that runs an executable as cargo would.
    pub(crate) fn command(&self, executable: &Executable) -> Command {
        let mut command = signals::command(&executable.path);
        self.apply(&mut command);
        command.current_dir(&executable.package_dir);
        command.env("CARGO_MANIFEST_DIR", &executable.package_dir);
        command.env("CARGO_MANIFEST_PATH", executable.package_dir.join("Cargo.toml"));
        command.env("CARGO_PKG_NAME", &executable.package);
        command
    }

    /// Sets the variables that do not depend on the package.
    pub(crate) fn apply(&self, command: &mut Command) {
        // It says how many jobs the runner runs at once; a job is told by an argument how many threads it may use.
        command.env_remove("RUST_TEST_THREADS").env_remove(SHARED_SERVERS);
        command.env_remove(EFFORT);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(socket) = self.shared.as_ref().and_then(SharedServers::socket) {
            command.env(SHARED_SERVERS, socket);
        }
    }
}

/// A procedural macro's unit tests are linked to the compiler's own libraries.
fn libraries(programs: &Programs) -> Result<OsString, String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let mut dirs: Vec<PathBuf> = programs.dir.iter().map(|dir| dir.join("deps")).collect();
    dirs.push(sysroot.join("lib"));
    if let Some(inherited) = env::var_os(LIBRARIES) {
        dirs.extend(env::split_paths(&inherited));
    }
    env::join_paths(dirs).map_err(|error| format!("{LIBRARIES}: {error}"))
}
