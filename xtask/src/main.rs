//! The project's own commands: `cargo xtask test|bench|example|soak|sim|model|deps|ci|setup`.

mod deps;
mod model;
mod redisson;
mod run;
mod servers;
mod sim;
mod soak;
mod tally;
mod test;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test [ARGS]    installs the servers that are missing, then runs the tests of tier 1;
                 --all: of tier 2 too; --list: prints which test runs where;
                 -p CRATE, --test FILE, NAME: some of them; test --help: every option
  bench [ARGS]   installs the servers that are missing, then runs the benchmarks;
                 ARGS go to the benchmark: --json, --quick, or the workloads to run: w1 w3
  example NAME [ARGS]
                 looks for what the example needs and installs what is missing, then compiles
                 and runs it; without NAME: lists the examples
  soak [MINUTES] late packets in network namespaces (as root), then the tests of load,
                 at full length, again and again for that long; 60
  sim [ARGS]     runs the library in simulated processes, over a network and a server that
                 misbehave: --seeds N, --seed S to replay one; sim --help: every option
  model [--long] searches every state that the lanes of a few processes can reach, and prints
                 how many those are; --long: more callers and faults
  deps           checks the sources and licences of all dependencies, and that those banned
                 in deny.toml are absent
  ci             what a change must pass: .ci/run
  setup          installs the servers that are missing, and prints the variables that
                 name them: eval \"$(cargo xtask setup)\"
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let rest: Vec<String> = args.collect();
    let done = match command.as_deref() {
        Some("test") => test::test(&rest),
        Some("bench") => run::bench(&rest),
        Some("example") => run::example(&rest),
        Some("soak") => soak::soak(&rest),
        Some("sim") => sim::sim(&rest),
        Some("model") => model::model(&rest),
        Some("deps") => deps::deps(&rest),
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
