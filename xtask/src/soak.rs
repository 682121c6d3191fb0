//! `cargo xtask soak`: the long tests.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::run::{cargo, exit_code, root, target_dir};
use crate::servers::{self, Servers};
use crate::tally::Tally;

/// Late packets in network namespaces once, then the tests of load at full length, optimised, until the time is over or one fails.
pub(crate) fn soak(args: &[String]) -> Result<ExitCode, String> {
    let minutes = match args {
        [] => 60.0,
        [minutes] => minutes.parse().map_err(|_| format!("not a number: {minutes}"))?,
        _ => return Err("soak takes a number of minutes".into()),
    };
    let end = Instant::now() + Duration::from_secs_f64(60.0 * f64::max(minutes, 0.0));
    let mut servers = servers::ensure(&root(), &target_dir())?;
    servers.ensure_namespaces();
    let (status, tally) = tee(tests(&["late::kernel", "--ignored"], &servers))?;
    if !status.success() {
        conclude(&servers, status, &tally);
        return Ok(exit_code(status));
    }
    for round in 1.. {
        println!("soak: round {round}");
        let mut command = tests(&["share::", "scale::"], &servers);
        command.env("DISTLOCK_LONG", "1");
        let (status, tally) = tee(command)?;
        if !status.success() || Instant::now() >= end {
            conclude(&servers, status, &tally);
            return Ok(exit_code(status));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Some of the library's integration tests, optimised. They measure: one after the other.
fn tests(which: &[&str], servers: &Servers) -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "distlock", "--all-features", "--test", "it"]);
    command.arg("--").args(which).args(["--nocapture", "--test-threads", "1"]);
    command.envs(servers.variables());
    command
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
