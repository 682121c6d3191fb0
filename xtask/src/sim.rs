//! `cargo xtask sim`: the simulator.

use std::process::ExitCode;

use crate::run::{cargo, exit_code};

/// Builds the simulator optimised, and passes the arguments on: it has the help and checks them.
pub(crate) fn sim(args: &[String]) -> Result<ExitCode, String> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--release", "--package", "distlock-testkit"]);
    command.args(["--bin", "simulate", "--"]).args(args);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(exit_code(status))
}
