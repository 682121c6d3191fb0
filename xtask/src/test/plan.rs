//! From all tests and the command line to the jobs that are run.

use super::job::{DOC_TESTS, Job, Work};
use super::list::Test;
use super::matrix::{self, Tier};
use super::options::{Ignored, Options};
use super::programs::{Executable, Kind};
use super::times::Times;

const IGNORED: &str = "ignored: long tier";

/// What runs, in this order.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Several at once, the slowest first.
    pub(crate) beside: Vec<Job>,
    /// One at a time, at the end.
    pub(crate) alone: Vec<Job>,
    /// The reason of each test that is skipped without being started.
    pub(crate) skipped: Vec<String>,
    /// How many tests are left to `--all`.
    pub(crate) left_out: usize,
    /// How many tests run, the documentation tests counted as one.
    pub(crate) total: usize,
}

/// `without_redis`: why there is no Redis, if there is none.
pub(crate) fn plan(
    executables: &[Executable],
    tests: &[Test],
    options: &Options,
    times: &Times,
    without_redis: Option<&str>,
) -> Result<Plan, String> {
    let mut plan = Plan::default();
    let mut units: Vec<Vec<usize>> = vec![Vec::new(); executables.len()];
    for (number, test) in tests.iter().enumerate() {
        let assigned = matrix::assign(test)?;
        if !options.lets_run(&test.path, &test.name) {
            continue;
        }
        if assigned.tier > Tier::One && !options.all && !options.is_part() {
            plan.left_out += 1;
            continue;
        }
        match (assigned.is_long, options.ignored) {
            (true, Ignored::Skip) => {
                plan.skipped.push(IGNORED.into());
                continue;
            }
            (false, Ignored::Only) => continue,
            _ => {}
        }
        // A caller who names a part gets that part.
        if let Some(why) = without_redis.filter(|_| assigned.needs_server && !options.is_part()) {
            plan.skipped.push(why.to_owned());
            continue;
        }
        plan.total += 1;
        // A server of its own, or one that tests share, is told by the environment of a process.
        if test.kind == Kind::Unit && !assigned.needs_server {
            units[test.executable].push(number);
            continue;
        }
        let seconds = times.expect(&test.name);
        let job = Job { name: test.name.clone(), work: Work::One(number), seconds };
        if assigned.alone { plan.alone.push(job) } else { plan.beside.push(job) }
    }
    for (executable, chosen) in units.into_iter().enumerate() {
        if !chosen.is_empty() {
            plan.beside.push(unit_job(executables, tests, executable, chosen, times));
        }
    }
    // Cargo refuses to run the documentation tests of programs alone.
    let has_library = executables.iter().any(|executable| executable.is_library);
    if options.has_doc_tests() && (has_library || !options.has_executables()) {
        // It compiles: the sooner it starts, the better.
        let seconds = f64::INFINITY;
        plan.beside.push(Job { name: DOC_TESTS.into(), work: Work::Doc, seconds });
        plan.total += 1;
    }
    plan.beside.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    plan.alone.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(plan)
}

fn unit_job(
    executables: &[Executable],
    tests: &[Test],
    executable: usize,
    chosen: Vec<usize>,
    times: &Times,
) -> Job {
    let Executable { package, target, .. } = &executables[executable];
    let name = format!("{package}/{target} (unit tests)");
    let wanted = |test: &&Test| test.executable == executable && !test.is_ignored;
    let is_whole = tests.iter().filter(wanted).count() == chosen.len()
        && chosen.iter().all(|&test| !tests[test].is_ignored);
    let seconds = times.expect(&name);
    Job { name, work: Work::Unit { executable, tests: chosen, is_whole }, seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        executables: Vec<Executable>,
        tests: Vec<Test>,
    }

    fn world() -> World {
        let mut world = World { executables: Vec::new(), tests: Vec::new() };
        let all: [(_, _, &[&str]); 3] = [
            ("distlock", Kind::Unit, &["a::x", "a::y", "redis::tests::z"]),
            ("it", Kind::Integration, &["quick", "scale::many", "late::ignored"]),
            ("promises", Kind::Integration, &["m::s::p::virtual", "m::s::p::valkey"]),
        ];
        for (target, kind, paths) in all {
            for path in paths {
                world.tests.push(Test {
                    executable: world.executables.len(),
                    kind,
                    path: (*path).into(),
                    name: format!("distlock/{target}::{path}"),
                    is_ignored: path.contains("ignored") || path.starts_with("redis::tests"),
                });
            }
            world.executables.push(Executable {
                package: "distlock".into(),
                package_dir: "/".into(),
                kind,
                is_library: kind == Kind::Unit,
                target: target.into(),
                path: "/bin/true".into(),
            });
        }
        world
    }

    fn planned(args: &str, without_redis: Option<&str>) -> Plan {
        let args: Vec<String> = args.split_whitespace().map(str::to_owned).collect();
        let options = Options::parse(&args).unwrap();
        let World { executables, tests } = world();
        let mut times = Times::default();
        times.set("distlock/promises::m::s::p::virtual", 9.0);
        plan(&executables, &tests, &options, &times, without_redis).unwrap()
    }

    fn names(jobs: &[Job]) -> Vec<&str> {
        jobs.iter().map(|job| job.name.strip_prefix("distlock/").unwrap_or(&job.name)).collect()
    }

    #[test]
    fn tier_1_has_the_slowest_first() {
        let plan = planned("", None);
        let first = ["doc tests", "promises::m::s::p::virtual"];
        assert_eq!(names(&plan.beside)[..2], first);
        let rest = ["distlock::redis::tests::z", "it::quick", "distlock (unit tests)"];
        assert_eq!(names(&plan.beside)[2..], rest);
        assert_eq!((plan.alone.len(), plan.left_out, plan.total), (0, 2, 6));
        assert_eq!(plan.skipped, [IGNORED]);
    }

    #[test]
    fn all_and_every_part_have_tier_2() {
        assert_eq!(names(&planned("--all", None).alone), ["it::scale::many"]);
        assert_eq!(names(&planned("scale::", None).alone), ["it::scale::many"]);
        assert_eq!(names(&planned("--test it", None).alone), ["it::scale::many"]);
        assert_eq!(names(&planned("--all -- --ignored", None).beside), ["it::late::ignored"]);
        assert_eq!(planned("--all -- --include-ignored", None).total, 9);
    }

    #[test]
    fn a_filter_runs_some_unit_tests() {
        let work = |args| planned(args, None).beside.remove(0).work;
        let unit = |tests, is_whole| Work::Unit { executable: 0, tests, is_whole };
        assert_eq!(work("a::x"), unit(vec![0], false));
        assert_eq!(work("a::"), unit(vec![0, 1], true));
        assert_eq!(work("redis::tests"), Work::One(2));
        assert_eq!(planned("no_such_test", None).total, 0);
    }

    #[test]
    fn without_redis_only_tests_without_server_run() {
        let plan = planned("", Some("no Redis"));
        let expected = ["doc tests", "promises::m::s::p::virtual", "distlock (unit tests)"];
        assert_eq!(names(&plan.beside), expected);
        assert_eq!(plan.skipped.iter().filter(|why| *why == "no Redis").count(), 2);
        assert_eq!(names(&planned("quick", Some("no Redis")).beside), ["it::quick"]);
    }
}
