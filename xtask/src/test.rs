//! `cargo xtask test`: builds the tests, runs each in a process of its own, and says what came out.

mod again;
mod console;
mod environment;
mod job;
mod keeper;
mod list;
mod logs;
mod matrix;
mod options;
mod outcome;
mod plan;
mod process;
mod programs;
mod report;
mod schedule;
mod scratch;
mod shared;
mod signals;
mod table;
mod times;

use std::env;
use std::process::{Command, ExitCode};
use std::thread::available_parallelism;
use std::time::Instant;

use console::Console;
use environment::Environment;
use job::{Done, Job, Runner, TestResult};
use keeper::Keeper;
use logs::Logs;
pub(crate) use options::HELP;
use options::Options;
use outcome::Outcome;
use plan::Plan;
use programs::Programs;
use report::Summary;
use schedule::Slots;
use shared::SharedServers;
use times::Times;

use crate::run::{root, target_dir};
use crate::servers::{self, Servers};

/// How many jobs run at once, unless the command line says so.
const THREADS: &str = "RUST_TEST_THREADS";

/// The command.
pub(crate) fn test(args: &[String]) -> Result<ExitCode, String> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Ok(ExitCode::SUCCESS);
    }
    let options = Options::parse(args)?;
    let start = Instant::now();
    let (programs, servers) = prepare(&options)?;
    let mut environment = Environment::new(&programs)?;
    let executables = &programs.executables;
    let tests = list::list(executables, |executable| environment.command(executable))?;
    if options.lists_everything() {
        let stale = matrix::stale(&tests);
        if !stale.is_empty() {
            return Err(format!("xtask/src/test/matrix.rs is stale:\n{}", stale.join("\n")));
        }
    }
    if options.list {
        table::table(&tests)?.iter().for_each(|line| println!("{line}"));
        return Ok(ExitCode::SUCCESS);
    }

    let times_file = target_dir().join("test-times.tsv");
    let mut times = Times::read(&times_file);
    let without_redis = (!servers.has_redis()).then_some("no Redis");
    let plan = plan::plan(executables, &tests, &options, &times, without_redis)?;
    if plan.total == 0 && plan.skipped.is_empty() {
        println!("no test matches: {}", args.join(" "));
        println!("{}", Summary::default().lines().last().map_or("", String::as_str));
        return Ok(ExitCode::FAILURE);
    }
    let logs = Logs::new(target_dir().join("test-logs"), root())?;
    let shared = share_servers(&programs, &servers, &environment, &logs);
    environment.add_servers(&servers, shared);
    if !options.all && !options.is_part() {
        environment.shorten();
    }
    let cores = available_parallelism().map_or(2, usize::from);
    let slots = slots(&options, cores)?;
    let runner = Runner {
        executables,
        tests: &tests,
        environment: &environment,
        options: &options,
        keeper: Keeper::start()?,
        captures: logs.captures(),
        threads: cores.min(slots.usual),
        limit: job::LIMIT,
    };
    let building = start.elapsed().as_secs_f64();
    let mut summary = execute(&runner, &plan, slots, &logs);
    summary.building = building;
    summary.servers = servers.summary();
    summary.times.iter().for_each(|(seconds, name)| times.set(name, *seconds));
    if let Err(why) = times.write(&times_file) {
        eprintln!("xtask: {why}");
    }
    summary.lines().iter().for_each(|line| println!("{line}"));
    Ok(if summary.is_green() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Builds, and meanwhile installs the servers that are missing. A list of tests needs no servers.
fn prepare(options: &Options) -> Result<(Programs, Servers), String> {
    std::thread::scope(|scope| {
        let servers = scope.spawn(|| match options.list {
            true => Ok(Servers::none()),
            false => servers::ensure(&root(), &target_dir()).map(|mut servers| {
                if options.all {
                    servers.ensure_clock();
                }
                servers
            }),
        });
        let programs = match options.has_executables() {
            true => Programs::build(options),
            false => Ok(Programs::default()),
        };
        let servers = servers.join().map_err(|_| "installing the servers panicked")?;
        Ok((programs?, servers?))
    })
}

/// Starts the program whose servers tests share. Without it they start servers of their own, which takes longer.
fn share_servers(
    programs: &Programs,
    servers: &Servers,
    environment: &Environment,
    logs: &Logs,
) -> Option<SharedServers> {
    let mut command = Command::new(programs.find(shared::PROGRAM)?);
    environment.apply(&mut command);
    command.envs(servers.variables());
    let started = SharedServers::start(command, &logs.file("testkit-servers.log"));
    started.map_err(|why| eprintln!("xtask: tests start their own servers: {why}")).ok()
}

/// Many tests wait for time to pass, so more of them than there are cores can go on at once; but not so many that those
/// which work keep a holder from renewing in time.
fn slots(options: &Options, cores: usize) -> Result<Slots, String> {
    if let Some(threads) = options.threads {
        return Ok(Slots::exactly(threads));
    }
    match env::var(THREADS) {
        Ok(threads) => threads
            .parse()
            .ok()
            .filter(|&threads| threads > 0)
            .map(Slots::exactly)
            .ok_or_else(|| format!("{THREADS} must be a number greater than 0: {threads}")),
        Err(_) => Ok(Slots { usual: 2 * cores, most: 20 * cores }),
    }
}

/// Runs the plan: first what runs beside others, then what runs alone, then what failed once more.
fn execute(runner: &Runner<'_>, plan: &Plan, slots: Slots, logs: &Logs) -> Summary {
    let start = Instant::now();
    let mut summary = Summary { left_out: plan.left_out, ..Summary::default() };
    plan.skipped.iter().for_each(|why| *summary.skipped.entry(why.clone()).or_default() += 1);
    let mut console = Console::new(plan.total, runner.options.nocapture);
    let mut failed = Vec::new();
    for (jobs, slots) in [(&plan.beside, slots), (&plan.alone, Slots::exactly(1))] {
        let first = |job: &Job| runner.run(job, false);
        schedule::run(jobs, slots, console.tick(), first, |done| match done {
            Some(done) => {
                console.done(&done);
                failed.extend(count(done, &mut summary));
            }
            None => console.progress(),
        });
    }
    let second = |job: &Job| runner.run(job, true);
    let tell = |line: &str| console.line(line);
    again::again(failed, !runner.options.no_retry, logs, second, tell, &mut summary);
    summary.running = start.elapsed().as_secs_f64();
    summary
}

/// Counts what passed and what was skipped, and gives back what failed.
fn count(done: Done, summary: &mut Summary) -> Vec<TestResult> {
    summary.times.push((done.seconds, done.name));
    let mut failed = Vec::new();
    for result in done.results {
        match &result.outcome {
            Outcome::Passed => summary.passed += result.count,
            Outcome::Skipped(why) => {
                *summary.skipped.entry(why.clone()).or_default() += result.count;
            }
            Outcome::Failed(_) => failed.push(result),
        }
    }
    failed
}

#[cfg(test)]
mod tests;
