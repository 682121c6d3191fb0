//! `cargo xtask model`: the model of the engine's lanes.

use std::process::ExitCode;

use crate::run::{cargo, exit_code};

const HELP: &str = "\
cargo xtask model [--long]

Searches every state that the lanes of a few processes, their callers and a store can reach, with
messages that are lost or late, callers that leave and processes that die, and prints how many
those are. Fails with the list of actions that leads to a violation.

  --long   more callers and more faults: takes minutes
";

/// The searches are tests of the library: they use what is private to it.
pub(crate) fn model(args: &[String]) -> Result<ExitCode, String> {
    let mut command = cargo();
    // Of the whole workspace, as the tests are built: so nothing is compiled twice.
    command.args(["test", "--quiet", "--workspace", "--lib", "--all-features"]);
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => command.args(["engine::lane::model", "--", "--nocapture"]),
        // Optimised: the searches take longer than the compiler.
        ["--long"] => {
            command.args(["--release", "engine::lane::model", "--"]);
            command.args(["--nocapture", "--include-ignored", "--test-threads", "1"])
        }
        ["--help" | "-h"] => {
            print!("{HELP}");
            return Ok(ExitCode::SUCCESS);
        }
        _ => return Err(format!("unknown arguments: {}\n\n{HELP}", args.join(" "))),
    };
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    Ok(exit_code(status))
}
