//! The project's own commands: `cargo xtask test|bench|soak|ci|setup`.

mod redisson;
mod run;
mod servers;
mod tally;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [ARGS]    installs the servers that are missing, then runs every test;
                 ARGS go to `cargo test`: -p CRATE, --test FILE, NAME, -- --nocapture
  bench [ARGS]   installs the servers that are missing, then runs the benchmarks;
                 ARGS go to the benchmark: --json, --quick, or the workloads to run: w1 w3
  soak [MINUTES] late packets in network namespaces (as root), then the tests of load,
                 at full length, again and again for that long; 60
  ci             what a change must pass: .ci/run
  setup          installs the servers that are missing, and prints the variables that
                 name them: eval \"$(cargo xtask setup)\"
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.collect();
    let done = match command.as_deref() {
        Some("test") => run::test(&rest),
        Some("bench") => run::bench(&rest),
        Some("soak") => run::soak(&rest),
        Some("ci") => run::ci(),
        Some("setup") => run::setup(),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(other) => Err(format!("no such command: {other}\n\n{HELP}")),
        None => Err(HELP.to_owned()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("xtask: {error}");
        ExitCode::from(2)
    })
}
