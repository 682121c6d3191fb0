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
  --keep-going   runs all seeds and lists those that fail
  --twice        runs each seed twice and compares the traces
  --strict       reports what is known to be wrong as well
  --trace        prints the plan and the trace of each run
";

/// How much of the trace a failure prints.
const TAIL: usize = 60;

struct Options {
    seeds: std::ops::Range<u64>,
    modes: Vec<Mode>,
    trace: bool,
    keep_going: bool,
    strict: bool,
    twice: bool,
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
    let modes = vec![Mode::Safety, Mode::Liveness];
    let mut options = Options {
        seeds: 0..0,
        modes,
        trace: false,
        keep_going: false,
        strict: false,
        twice: false,
    };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value =
            || args.next().ok_or_else(|| format!("{arg} needs a value")).map(String::as_str);
        let number = |text: &str| text.parse().map_err(|_| format!("not a number: {text}"));
        match arg.as_str() {
            "--seeds" => count = number(value()?)?,
            "--from" => from = number(value()?)?,
            "--seed" => only = Some(number(value()?)?),
            "--keep-going" => options.keep_going = true,
            "--strict" => options.strict = true,
            "--twice" => options.twice = true,
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
    let (mut runs, mut failures, mut granted, mut virtual_time) = (0_u64, 0_u64, 0, 0.0);
    for seed in options.seeds.clone() {
        for &mode in &options.modes {
            let plan = Plan::new(seed, mode);
            let plan = if options.strict { plan.strict() } else { plan };
            let text = options.trace.then(|| plan.to_string());
            let again = options.twice.then(|| plan.clone());
            let mut done = run(plan);
            if let Some(again) = again {
                done.violations.extend(difference(&done.trace, &run(again).trace));
            }
            if let Some(text) = text {
                print!("{text}{}", done.trace);
            }
            runs += 1;
            granted += done.granted;
            virtual_time += done.lasted.as_secs_f64();
            if !done.violations.is_empty() {
                failures += 1;
                let tail = if options.keep_going { 0 } else { TAIL };
                failed(seed, mode, &done.violations, &done.trace, tail);
                if !options.keep_going {
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let per_second = runs as f64 / took;
    let result = match failures {
        0 => "without a violation".to_owned(),
        some => format!("of which {some} with violations"),
    };
    println!(
        "sim: {runs} runs {result}: {granted} holds, {:.1} hours of virtual time, in {took:.1} s ({per_second:.0} runs/s)",
        virtual_time / 3_600.0
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Where two traces of one seed differ.
fn difference(one: &str, other: &str) -> Option<String> {
    let pairs = one.lines().zip(other.lines()).enumerate();
    let differs = |(line, (one, other)): (usize, (&str, &str))| {
        (one != other).then(|| format!("two runs differ in line {line}:\n    {one}\n    {other}"))
    };
    pairs.into_iter().find_map(differs).or_else(|| {
        (one.len() != other.len()).then(|| "one of two runs ends before the other".to_owned())
    })
}

fn failed(seed: u64, mode: Mode, violations: &[String], trace: &str, tail: usize) {
    let lines: Vec<&str> = trace.lines().collect();
    for line in &lines[lines.len().saturating_sub(tail)..] {
        println!("{line}");
    }
    println!("\nseed {seed}, {}: {} violations", mode.as_str(), violations.len());
    for violation in violations {
        println!("  {violation}");
    }
    println!("replay it: cargo xtask sim --seed {seed} --mode {} --trace", mode.as_str());
}
