//! Which test runs where, and in which tier: the one table of it. `cargo xtask test --list` prints it.

mod core;

use std::fmt;

pub(crate) use self::core::CORE;
use super::list::Test;
use super::programs::Kind;

/// The executable with the promises. Its tests are named `kind::suite::promise::place`.
pub(crate) const PROMISES: &str = "promises";

/// When a test runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tier {
    /// With every `cargo xtask test`.
    One,
    /// With `cargo xtask test --all`, or when it is named.
    Two,
}

use Tier::{One, Two};

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            One => "1",
            Two => "2",
        })
    }
}

/// A store, a version of a server or a topology at which promises are tested.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: &'static str,
    /// The tier of every promise, and of those in [`CORE`].
    pub(crate) all: Tier,
    pub(crate) core: Tier,
    /// Whether there must be a Redis.
    needs_server: bool,
}

const fn place(name: &'static str, all: Tier, core: Tier, needs_server: bool) -> Place {
    Place { name, all, core, needs_server }
}

/// Every promise once on virtual time and once on a real Redis; the core on everything else. What each place has stands in the
/// testkit, `suites/place.rs`.
pub(crate) const PLACES: [Place; 28] = [
    place("memory", Two, One, false),
    place("virtual", One, One, false),
    place("file", Two, One, false),
    place("redis", One, One, true),
    place("valkey", Two, One, true),
    place("redis62", Two, One, true),
    place("acl", Two, One, true),
    place("polling", Two, One, true),
    place("tls", Two, One, true),
    place("sentinel", Two, One, true),
    place("cluster_sharded", Two, One, true),
    place("cluster_classic", Two, One, true),
    place("cluster_valkey", Two, One, true),
    place("cluster_redis62", Two, One, true),
    // Several locks as one, and majorities.
    place("two_tables", One, One, false),
    place("three_tables", One, One, false),
    place("file_and_memory", Two, One, false),
    place("memory_and_redis", Two, One, true),
    place("two_servers", Two, One, true),
    place("cluster_and_redis", Two, One, true),
    place("three_directories", Two, One, false),
    place("three_servers", One, One, true),
    place("three_set_ups", Two, One, true),
    place("three_sentinels", Two, One, true),
    place("three_clusters", Two, One, true),
    place("cluster_redis_and_memory", Two, One, true),
    place("two_servers_and_two_tables", Two, One, true),
    place("three_servers_and_two_tables", Two, One, true),
];

/// What is said of the tests of other executables than [`PROMISES`].
#[derive(Debug)]
pub(crate) struct Rule {
    /// A part of `executable::path::of::test`.
    pub(crate) pattern: &'static str,
    pub(crate) tier: Tier,
    /// Whether nothing else may run beside it: it loads the machine, or it measures.
    pub(crate) alone: bool,
    pub(crate) reason: &'static str,
}

const OTHER_SERVERS: &str = "another server; tier 1 has the same on Redis";

/// The first that matches counts. A test without a rule is in tier 1 and runs beside others.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        pattern: "redisson::load::",
        tier: Two,
        alone: true,
        reason: "crowds of Java and Rust: they load the machine",
    },
    Rule {
        pattern: "redisson_3_27::",
        tier: Two,
        alone: false,
        reason: "an older Redisson; tier 1 has the newest",
    },
    Rule {
        pattern: "redisson_3_52",
        tier: Two,
        alone: false,
        reason: "an older Redisson; tier 1 has the newest",
    },
    Rule {
        pattern: "redisson_4_cluster",
        tier: Two,
        alone: false,
        reason: "Redisson on a cluster; tier 1 has one server",
    },
    Rule {
        pattern: "multi::for_ten_seconds::",
        tier: Two,
        alone: true,
        reason: "ten seconds of load each; tier 1 has the same promise for a moment",
    },
    Rule {
        pattern: "redlock::processes::three_processes",
        tier: Two,
        alone: false,
        reason: "two minutes each, with one node missing after the other",
    },
    Rule { pattern: "::valkey", tier: Two, alone: false, reason: OTHER_SERVERS },
    Rule { pattern: "::redis62", tier: Two, alone: false, reason: OTHER_SERVERS },
    Rule { pattern: "_on_valkey", tier: Two, alone: false, reason: OTHER_SERVERS },
    Rule { pattern: "_on_redis62", tier: Two, alone: false, reason: OTHER_SERVERS },
    Rule { pattern: "::on_other_servers", tier: Two, alone: false, reason: OTHER_SERVERS },
    Rule {
        pattern: "strikes::times_to_recover",
        tier: Two,
        alone: true,
        reason: "measures how long a failover takes",
    },
    Rule {
        pattern: "two_primaries::without_min_replicas",
        tier: Two,
        alone: false,
        reason: "shows a limit that is documented; tier 1 has what is promised",
    },
    Rule { pattern: "scale::", tier: Two, alone: true, reason: "thousands of locks at once" },
    Rule { pattern: "share::", tier: Two, alone: true, reason: "measures shares of the load" },
];

/// How many seconds tests take, for the first run; later runs know better. The slowest are started first.
pub(crate) const HINTS: &[(&str, f64)] = &[
    ("sixteen_processes_in_a_loop_never_meet::polling", 36.0),
    ("kinds::a_redlock_needs_a_majority", 30.0),
    ("kinds::a_lock_of_any_kind_taken_by_force", 30.0),
    ("topologies::sentinel", 20.0),
    ("golden::", 20.0),
    ("renewed_in_time", 15.0),
    ("watchdog", 12.0),
    ("whoever_renews", 12.0),
    ("killed", 12.0),
    ("it::loss::", 10.0),
    ("it::lost::", 10.0),
    ("topologies::cluster", 10.0),
    ("it::durability::", 8.0),
    ("it::redlock::servers", 8.0),
    ("examples::", 8.0),
    ("redisson", 6.0),
    ("differential", 6.0),
    ("crowds::", 3.0),
    ("virtual", 0.2),
];

/// Unit tests that are ignored by `cargo test --lib`, because they need a server, and run here.
const WITH_SERVERS: &str = "redis::tests::";

/// What the matrix says of one test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assignment {
    pub(crate) tier: Tier,
    pub(crate) alone: bool,
    /// Whether it cannot run without a Redis.
    pub(crate) needs_server: bool,
    /// Whether it runs only when the command line asks for ignored tests.
    pub(crate) is_long: bool,
    pub(crate) rule: Option<&'static Rule>,
}

/// What the matrix says of `test`; an error if it is a promise at a place that the matrix does not have.
pub(crate) fn assign(test: &Test) -> Result<Assignment, String> {
    if test.kind == Kind::Unit {
        let needs_server = test.is_ignored && test.path.starts_with(WITH_SERVERS);
        let is_long = test.is_ignored && !needs_server;
        return Ok(Assignment { tier: One, alone: false, needs_server, is_long, rule: None });
    }
    if let Some(promise) = promise(test) {
        let (promise, place) = promise?;
        let tier = if CORE.contains(&promise) { place.core } else { place.all };
        let (needs_server, is_long) = (place.needs_server, test.is_ignored);
        return Ok(Assignment { tier, alone: false, needs_server, is_long, rule: None });
    }
    let rule = RULES.iter().find(|rule| test.in_matrix().contains(rule.pattern));
    Ok(Assignment {
        tier: rule.map_or(One, |rule| rule.tier),
        alone: rule.is_some_and(|rule| rule.alone),
        needs_server: true,
        is_long: test.is_ignored,
        rule,
    })
}

/// The promise `kind::suite::promise` and the place of a test of [`PROMISES`]; `None` for other tests.
pub(crate) fn promise(test: &Test) -> Option<Result<(&str, &'static Place), String>> {
    if test.kind == Kind::Unit || test.in_matrix().split("::").next() != Some(PROMISES) {
        return None;
    }
    let found = test.path.rsplit_once("::").and_then(|(promise, place)| {
        Some((promise, PLACES.iter().find(|known| known.name == place)?))
    });
    Some(found.ok_or_else(|| {
        format!("{}: the matrix has no such place (xtask/src/test/matrix.rs, PLACES)", test.name)
    }))
}

/// What the matrix says of tests that do not exist, given every test of the workspace: an error a line.
pub(crate) fn stale(tests: &[Test]) -> Vec<String> {
    let integration = || tests.iter().filter(|test| test.kind == Kind::Integration);
    let rules = RULES
        .iter()
        .filter(|rule| !integration().any(|test| test.in_matrix().contains(rule.pattern)))
        .map(|rule| format!("RULES: no test's name contains {:?}", rule.pattern));
    let promises: Vec<&str> =
        integration().filter_map(|test| Some(promise(test)?.ok()?.0)).collect();
    let core = CORE
        .iter()
        // As long as there is no such executable, its promises are tested elsewhere.
        .filter(|core| !promises.is_empty() && !promises.contains(core))
        .map(|core| format!("CORE: there is no promise {core}"));
    rules.chain(core).collect()
}

/// How many seconds a test may take when nothing was measured yet.
pub(crate) fn hint(name: &str) -> f64 {
    HINTS.iter().find(|(part, _)| name.contains(part)).map_or(1.0, |&(_, seconds)| seconds)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn integration(name: &str) -> Test {
        let path = name.split_once("::").unwrap().1.to_owned();
        let name = format!("distlock/{name}");
        Test { executable: 0, kind: Kind::Integration, path, name, is_ignored: false }
    }

    fn tier(name: &str) -> Tier {
        assign(&integration(name)).unwrap().tier
    }

    #[test]
    fn names_are_unique() {
        assert_eq!(CORE.iter().collect::<HashSet<_>>().len(), CORE.len());
        let places: HashSet<_> = PLACES.iter().map(|place| place.name).collect();
        assert_eq!(places.len(), PLACES.len());
        let patterns: HashSet<_> = RULES.iter().map(|rule| rule.pattern).collect();
        assert_eq!(patterns.len(), RULES.len());
    }

    #[test]
    fn a_core_promise_is_in_tier_1_everywhere_and_others_at_two_places() {
        let core = "promises::mutex::exclusion::a_held_lock_refuses_everybody_else";
        let other = "promises::mutex::exclusion::something_else";
        for place in PLACES {
            let place = place.name;
            assert_eq!(tier(&format!("{core}::{place}")), One, "{place}");
            let expected = PLACES.iter().find(|known| known.name == place).unwrap().all;
            assert_eq!(tier(&format!("{other}::{place}")), expected, "{place}");
        }
        assert!(assign(&integration(&format!("{core}::moon"))).is_err());
    }

    #[test]
    fn without_a_rule_a_test_is_in_tier_1() {
        assert_eq!(tier("it::late::kinds::a_late_release"), One);
        assert_eq!(tier("it::redisson_3_27::mutex::excludes"), Two);
        assert!(assign(&integration("it::scale::ten_thousand")).unwrap().alone);
    }

    #[test]
    fn a_unit_test_has_no_rule_and_needs_a_server_only_in_the_redis_store() {
        let unit = |path: &str| Test {
            kind: Kind::Unit,
            path: path.into(),
            ..integration("distlock::scale::x")
        };
        assert_eq!(assign(&unit("scale::x")).unwrap().tier, One);
        assert!(!assign(&unit("scale::x")).unwrap().needs_server);
        assert!(!assign(&unit("redis::tests::x")).unwrap().needs_server);
        let ignored = Test { is_ignored: true, ..unit("redis::tests::x") };
        assert!(assign(&ignored).unwrap().needs_server);
    }

    #[test]
    fn what_matches_no_test_is_stale() {
        assert_eq!(stale(&[]).len(), RULES.len());
        let patterns = RULES.iter().map(|rule| &rule.pattern);
        let all: Vec<Test> =
            patterns.map(|pattern| integration(&format!("it::{pattern}x"))).collect();
        assert_eq!(stale(&all), [""; 0]);
        let promise = integration("promises::mutex::exclusion::something_else::redis");
        assert_eq!(stale(&[all, vec![promise]].concat()).len(), CORE.len());
    }
}
