//! What each command does.

use std::env;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::servers::{self, Servers};
use crate::tally::Tally;

/// How many tests of one program run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Every test there is.
pub(crate) fn test(args: &[String]) -> Result<ExitCode, String> {
    let servers = servers::ensure(&root(), &target_dir())?;
    let mut command = cargo();
    // One run tells everything that is broken.
    command.args(["test", "--no-fail-fast"]).args(scope(args)).arg("--all-features");
    let without = !servers.has_redis() && scope(args).is_some();
    if without {
        // Unit tests need no server, those of the Redis store apart. Whoever names a part gets that part.
        command.args(["--lib", "--bins"]);
    }
    command.args(args);
    if without && !args.iter().any(|arg| arg == "--") {
        command.args(["--", "--skip", "redis::tests"]);
    }
    command.envs(servers.variables());
    if env::var_os(THREADS).is_none() {
        // Many tests wait for time to pass, so more of them than there are cores can go on at once; but not so many that
        // those which work keep a holder from renewing in time.
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        command.env(THREADS, (2 * cores).to_string());
    }
    let (status, tally) = tee(command)?;
    conclude(&servers, status, &tally);
    Ok(exit_code(status))
}

/// The benchmarks. Their output is theirs alone, so that it can be read by a program.
pub(crate) fn bench(args: &[String]) -> Result<ExitCode, String> {
    let servers = servers::ensure(&root(), &target_dir())?;
    let mut command = cargo();
    command.args(["bench", "--package", "distlock", "--all-features", "--bench", "locks", "--"]);
    command.args(args).envs(servers.variables());
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(exit_code(status))
}

/// The long tests: late packets in network namespaces once, then the tests of load at full length, optimised, until the time is over
/// or one fails.
pub(crate) fn soak(args: &[String]) -> Result<ExitCode, String> {
    let minutes = match args {
        [] => 60.0,
        [minutes] => minutes.parse().map_err(|_| format!("not a number: {minutes}"))?,
        _ => return Err("soak takes a number of minutes".into()),
    };
    let end = Instant::now() + Duration::from_secs_f64(60.0 * f64::max(minutes, 0.0));
    let mut servers = servers::ensure(&root(), &target_dir())?;
    servers.ensure_namespaces();
    let mut command = cargo();
    command.args(["test", "--release", "--package", "distlock", "--all-features"]);
    command.args(["--test", "late", "--", "--ignored", "--nocapture", "--test-threads", "1"]);
    command.envs(servers.variables());
    let (status, tally) = tee(command)?;
    if !status.success() {
        conclude(&servers, status, &tally);
        return Ok(exit_code(status));
    }
    for round in 1.. {
        println!("soak: round {round}");
        let mut command = cargo();
        command.args(["test", "--release", "--package", "distlock", "--all-features"]);
        command.args(["--test", "share", "--test", "scale", "--", "--nocapture"]);
        // They measure: one after the other.
        command.args(["--test-threads", "1"]);
        command.env("DISTLOCK_LONG", "1").envs(servers.variables());
        let (status, tally) = tee(command)?;
        if !status.success() || Instant::now() >= end {
            conclude(&servers, status, &tally);
            return Ok(exit_code(status));
        }
    }
    Ok(ExitCode::SUCCESS)
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

/// The whole workspace, unless the arguments name a part of it.
fn scope(args: &[String]) -> Option<&'static str> {
    let own = args.iter().take_while(|arg| *arg != "--");
    let names_a_part = |arg: &String| {
        arg.starts_with("-p") || arg.starts_with("--package") || arg.starts_with("--manifest-path")
    };
    let mut parts = own.filter(|arg| names_a_part(arg));
    parts.next().is_none().then_some("--workspace")
}

/// Runs a command, passes its output on as it comes, and counts the tests in it.
fn tee(mut command: Command) -> Result<(ExitStatus, Tally), String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
    let mut output = child.stdout.take().ok_or("the output is not piped")?;
    let mut tally = Tally::default();
    let mut buffer = [0; 8192];
    loop {
        let read = output.read(&mut buffer).map_err(|error| format!("cannot read: {error}"))?;
        if read == 0 {
            break;
        }
        tally.feed(&buffer[..read]);
        let mut stdout = std::io::stdout();
        let passed_on = stdout.write_all(&buffer[..read]).and_then(|()| stdout.flush());
        passed_on.map_err(|error| format!("cannot write: {error}"))?;
    }
    let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
    Ok((status, tally))
}

fn conclude(servers: &Servers, status: ExitStatus, tally: &Tally) {
    println!();
    for line in servers.summary() {
        println!("{line}");
    }
    if !status.success() && tally.failed == 0 {
        println!("cargo test did not finish: {status}");
    }
    println!("{tally}");
}

fn exit_code(status: ExitStatus) -> ExitCode {
    // None: a signal ended it.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}

fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

fn target_dir() -> PathBuf {
    match env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_workspace_unless_a_part_is_named() {
        let scope = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            super::scope(&args)
        };
        assert_eq!(scope(&[]), Some("--workspace"));
        assert_eq!(scope(&["--test", "mutex", "--", "-p"]), Some("--workspace"));
        assert_eq!(scope(&["-p", "distlock"]), None);
        assert_eq!(scope(&["--package=distlock"]), None);
    }
}
