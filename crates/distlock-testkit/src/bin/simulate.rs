//! Runs simulated seeds: `cargo xtask sim`.

use std::env;
use std::process::ExitCode;
use std::time::Instant;

use distlock_testkit::sim::{Mode, Plan, run};

const HELP: &str = "\
cargo xtask sim [OPTIONS]

Runs the library in simulated processes, over a network and a server that misbehave. Each seed is one run.

  --seeds N      how many seeds; 1000
  --from S       the first seed; 0
  --seed S       this seed alone
  --mode MODE    safety: faults until the end; liveness: faults end; both unless given
  --trace        prints the plan and the trace of each run
";

/// How much of the trace a failure prints.
const TAIL: usize = 60;

struct Options {
    seeds: std::ops::Range<u64>,
    modes: Vec<Mode>,
    trace: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match options(&args) {
        Ok(options) => simulate(&options),
        Err(error) => {
            eprintln!("simulate: {error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn options(args: &[String]) -> Result<Options, String> {
    let (mut count, mut from, mut only) = (1_000, 0, None);
    let mut options =
        Options { seeds: 0..0, modes: vec![Mode::Safety, Mode::Liveness], trace: false };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value =
            || args.next().ok_or_else(|| format!("{arg} needs a value")).map(String::as_str);
        let number = |text: &str| text.parse().map_err(|_| format!("not a number: {text}"));
        match arg.as_str() {
            "--seeds" => count = number(value()?)?,
            "--from" => from = number(value()?)?,
            "--seed" => only = Some(number(value()?)?),
            "--trace" => options.trace = true,
            "--mode" => {
                options.modes = match value()? {
                    "safety" => vec![Mode::Safety],
                    "liveness" => vec![Mode::Liveness],
                    other => return Err(format!("no such mode: {other}")),
                }
            }
            other => return Err(format!("no such option: {other}")),
        }
    }
    options.seeds = match only {
        Some(seed) => seed..seed.saturating_add(1),
        None => from..u64::saturating_add(from, count),
    };
    Ok(options)
}

fn simulate(options: &Options) -> ExitCode {
    let begun = Instant::now();
    let (mut runs, mut granted, mut virtual_time) = (0_u64, 0, 0.0);
    for seed in options.seeds.clone() {
        for &mode in &options.modes {
            let plan = Plan::new(seed, mode);
            let text = options.trace.then(|| plan.to_string());
            let done = run(plan);
            if let Some(text) = text {
                print!("{text}{}", done.trace);
            }
            runs += 1;
            granted += done.granted;
            virtual_time += done.lasted.as_secs_f64();
            if !done.violations.is_empty() {
                return failed(seed, mode, &done.violations, &done.trace);
            }
        }
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "sim: {runs} runs of {} seeds without a violation: {granted} holds, {:.1} hours of virtual time, in {took:.1} s ({:.0} runs/s)",
        options.seeds.end - options.seeds.start,
        virtual_time / 3_600.0,
        runs as f64 / took
    );
    ExitCode::SUCCESS
}

fn failed(seed: u64, mode: Mode, violations: &[String], trace: &str) -> ExitCode {
    let lines: Vec<&str> = trace.lines().collect();
    for line in &lines[lines.len().saturating_sub(TAIL)..] {
        println!("{line}");
    }
    println!("\nseed {seed}, {}: {} violations", mode.as_str(), violations.len());
    for violation in violations {
        println!("  {violation}");
    }
    println!("replay it: cargo xtask sim --seed {seed} --mode {} --trace", mode.as_str());
    ExitCode::FAILURE
}
