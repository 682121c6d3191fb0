//! The short commands, and what commands share.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use crate::redisson;
use crate::servers;

/// The benchmarks. Their output is theirs alone, so that it can be read by a program.
pub(crate) fn bench(args: &[String]) -> Result<ExitCode, String> {
    let servers = servers::ensure(&root(), &target_dir())?;
    let mut command = cargo();
    command.args(["bench", "--package", "distlock", "--all-features", "--bench", "locks", "--"]);
    command.args(args).envs(servers.variables());
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(exit_code(status))
}

/// One of the library's examples. What it needs is looked for before it is compiled, which takes minutes.
pub(crate) fn example(args: &[String]) -> Result<ExitCode, String> {
    let known = examples()?;
    let Some((name, args)) = args.split_first() else {
        println!("{}", known.join("\n"));
        return Ok(ExitCode::SUCCESS);
    };
    if !known.contains(name) {
        return Err(format!("no such example: {name}; there are {}", known.join(", ")));
    }
    let mut command = cargo();
    command.args(["run", "--release", "--package", "distlock", "--example", name, "--"]);
    command.args(args);
    if name == "java_and_rust" {
        let lacks =
            |what: &str, why: String| format!("{name} needs {what}: {why}; nothing was compiled");
        let redis = servers::redis().map_err(|why| lacks("redis-server", why))?;
        let peer = redisson::ensure(&root(), &target_dir());
        let peer = peer.map_err(|why| lacks("Java, Maven and Redisson", why))?;
        command.env(servers::REDIS, redis).env(redisson::VARIABLE, peer);
    }
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(exit_code(status))
}

fn examples() -> Result<Vec<String>, String> {
    let dir = root().join("crates/distlock/examples");
    let entries = dir.read_dir().map_err(|error| format!("{}: {error}", dir.display()))?;
    let names =
        entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

/// What a change must pass.
pub(crate) fn ci() -> Result<ExitCode, String> {
    let mut command = Command::new("bash");
    command.arg(root().join(".ci/run")).current_dir(root()).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("cannot run bash: {error}"))?;
    Ok(exit_code(status))
}

/// The servers alone.
pub(crate) fn setup() -> Result<ExitCode, String> {
    let servers = servers::ensure(&root(), &target_dir())?;
    for (name, path) in servers.variables() {
        println!("export {name}='{}'", path.display());
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    // None: a signal ended it.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

/// The cargo that runs this program.
pub(crate) fn cargo_program() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub(crate) fn cargo() -> Command {
    let mut command = Command::new(cargo_program());
    command.current_dir(root());
    command
}

pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

pub(crate) fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}
