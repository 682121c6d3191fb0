//! The searches that run with every test, and the bugs that they must find.

use super::super::bugs::{Bug, PLANTED};
use super::bounds::{deeper, four, pair, three, trio, twice, with_a_try};
use super::search::{Violation, search};
use super::world::{Budget, Planted, World};

/// A search that finds more states than this has no end that is worth waiting for.
const MOST: usize = 6_000_000;

/// No bound is used unless a world names it.
const NONE: Budget = Budget {
    network: 0,
    late: 0,
    refused: 0,
    abandoned: 0,
    cancelled: 0,
    crashes: 0,
    forced: 0,
    failovers: 0,
    extensions: 0,
    renewals: 0,
    timers: 0,
    ends: 0,
};

fn violation(name: &str, world: World) -> Option<Violation> {
    let begun = std::time::Instant::now();
    let found = search(world, MOST);
    let seconds = begun.elapsed().as_secs_f32();
    let what = found.violation.as_ref().map_or("", |violation| &violation.what);
    println!(
        "{name}: {} states, {} steps deep, {seconds:.1} s {what}",
        found.states, found.deepest
    );
    found.violation
}

fn holds(name: &str, world: World) {
    if let Some(Violation { what, trace }) = violation(name, world) {
        panic!("{name}: {what}\n{trace:?}");
    }
}

/// The search finds this in one of the worlds.
fn finds(name: &str, what: &str, world: World) {
    let found = violation(name, world).map(|violation| violation.what);
    assert!(found.as_ref().is_some_and(|found| found.contains(what)), "{name}: {found:?}");
}

/// The same with a bug in the lane.
fn finds_bug(bug: Bug, what: &str, world: World) {
    PLANTED.set(Some(bug));
    let found = violation(&format!("{bug:?}"), world).map(|violation| violation.what);
    PLANTED.set(None);
    assert!(found.as_ref().is_some_and(|found| found.contains(what)), "{bug:?}: {found:?}");
}

fn planted(bug: Planted, world: World) -> World {
    World { planted: Some(bug), ..world }
}

#[test]
fn without_faults() {
    let timers = Budget { timers: 2, ..NONE };
    holds("pair", pair(timers));
    holds("three", three(timers));
    holds("try", with_a_try(timers));
    holds("deeper", deeper(timers));
    holds("four", four(NONE));
}

#[test]
fn with_lost_messages() {
    holds("pair", pair(Budget { network: 1, refused: 1, timers: 1, ..NONE }));
    holds("three", three(Budget { network: 1, ..NONE }));
    holds("deeper", deeper(Budget { network: 1, ends: 1, ..NONE }));
}

#[test]
fn with_late_messages() {
    holds("pair", pair(Budget { late: 1, timers: 1, ends: 1, ..NONE }));
    holds("twice", twice(Budget { late: 1, ..NONE }));
}

#[test]
fn with_callers_that_leave() {
    holds("three", three(Budget { cancelled: 1, timers: 1, ..NONE }));
    holds("three", three(Budget { cancelled: 1, network: 1, ..NONE }));
    holds("try", with_a_try(Budget { cancelled: 1, ..NONE }));
}

#[test]
fn with_leases_that_end() {
    holds("pair", pair(Budget { ends: 2, renewals: 1, timers: 1, ..NONE }));
    holds("pair", pair(Budget { ends: 1, renewals: 1, extensions: 1, late: 1, ..NONE }));
    holds("pair", pair(Budget { ends: 2, crashes: 1, ..NONE }));
}

#[test]
fn with_steps_that_are_dropped() {
    holds("pair", pair(Budget { abandoned: 1, timers: 1, ..NONE }));
    holds("three", three(Budget { abandoned: 1, ..NONE }));
}

#[test]
fn with_a_store_that_loses_data() {
    holds("pair", pair(Budget { forced: 1, renewals: 1, ends: 1, ..NONE }));
    holds("pair", pair(Budget { failovers: 1, renewals: 1, ends: 1, ..NONE }));
}

#[test]
fn bugs_in_the_lane_are_found() {
    let waits = "the lock is free, nothing is under way, and a caller waits";
    finds_bug(Bug::NoSecondTry, waits, pair(NONE));
    let orphan = "the store holds it for no caller";
    finds_bug(Bug::NewStayInDoubt, orphan, pair(Budget { network: 1, ..NONE }));
    let unclaimed = "a hold that no caller has";
    finds_bug(Bug::KeepsUnclaimed, unclaimed, three(Budget { cancelled: 1, ..NONE }));
    let stale = "an outage that is over";
    finds_bug(Bug::StaleOutage, stale, pair(Budget { refused: 1, cancelled: 1, ..NONE }));
    finds_bug(Bug::ForgetsReceipts, "waits for ever", pair(NONE));
    let doubt = Budget { network: 1, cancelled: 1, ..NONE };
    finds_bug(Bug::NeverForgets, orphan, pair(doubt));
    finds_bug(Bug::UnguardedView, "", three(Budget { network: 1, renewals: 1, ends: 2, ..NONE }));
}

#[test]
fn bugs_around_the_lane_are_found() {
    let two = "two hold it within their deadlines";
    let late = Budget { late: 1, ..NONE };
    finds("release without owner check", two, planted(Planted::ReleasesAnybody, twice(late)));
    finds("one id for two stays", two, planted(Planted::SameStayAgain, twice(late)));
    let slow = Budget { ends: 2, ..NONE };
    finds("deadline from the reply", two, planted(Planted::DeadlineFromReply, pair(slow)));
    let shortened = Budget { late: 1, renewals: 1, extensions: 1, ends: 1, ..NONE };
    finds("a renewal shortens", two, planted(Planted::RenewalShortens, pair(shortened)));
}

/// More callers, more faults: minutes instead of seconds.
#[test]
#[ignore = "takes long: cargo xtask model --long"]
fn long() {
    holds("pair", pair(Budget { network: 2, refused: 1, timers: 2, ..NONE }));
    holds("pair", pair(Budget { late: 2, timers: 1, ends: 1, ..NONE }));
    holds("pair", pair(Budget { abandoned: 2, timers: 1, ..NONE }));
    holds("twice", twice(Budget { late: 1, timers: 1, ..NONE }));
    holds("three", three(Budget { network: 1, timers: 1, ..NONE }));
    holds("three", three(Budget { cancelled: 2, timers: 1, ..NONE }));
    holds("three", three(Budget { abandoned: 1, timers: 1, ..NONE }));
    holds("deeper", deeper(Budget { network: 1, timers: 1, ends: 1, ..NONE }));
    holds("trio", trio(NONE));
    holds("trio", trio(Budget { network: 1, late: 1, ..NONE }));
    holds("three", three(Budget { late: 1, cancelled: 1, ends: 1, ..NONE }));
    holds("four", four(Budget { timers: 1, ..NONE }));
    holds("four", four(Budget { network: 1, ..NONE }));
}
