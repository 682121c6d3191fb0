//! The simulator: the library keeps its promises in it, it repeats itself, and it finds mistakes.

use std::ops::Range;

use distlock_testkit::sim::{Bug, Mode, Plan, run};

const MODES: [Mode; 2] = [Mode::Safety, Mode::Liveness];

fn keeps(seeds: Range<u64>) {
    for seed in seeds {
        for mode in MODES {
            let done = run(Plan::new(seed, mode));
            let mode = mode.as_str();
            assert!(
                done.violations.is_empty(),
                "seed {seed}, {mode}: {:#?}\nreplay it: cargo xtask sim --seed {seed} --mode {mode} --trace",
                done.violations
            );
        }
    }
}

#[test]
fn no_violation_with_seeds_0_to_99() {
    keeps(0..100);
}

#[test]
fn no_violation_with_seeds_100_to_199() {
    keeps(100..200);
}

#[test]
fn no_violation_with_seeds_200_to_299() {
    keeps(200..300);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..60 {
        for mode in MODES {
            let (one, other) = (run(Plan::new(seed, mode)), run(Plan::new(seed, mode)));
            let pairs = one.trace.lines().zip(other.trace.lines());
            if let Some((line, (one, other))) = pairs.enumerate().find(|(_, (a, b))| a != b) {
                panic!("seed {seed}, {mode:?}, line {line}:\n{one}\n{other}");
            }
            assert_eq!(one.trace.len(), other.trace.len(), "seed {seed}, {mode:?}");
        }
    }
}

#[test]
fn other_seeds_are_other_runs() {
    let traces = [1, 2].map(|seed| run(Plan::new(seed, Mode::Safety)).trace);
    assert_ne!(traces[0], traces[1]);
    assert!(traces.iter().all(|trace| trace.lines().count() > 50), "nothing happens");
}

/// Runs seeds with a mistake in the server until it is found.
fn finds(bug: Bug, mode: Mode, most: u64, words: &str) {
    let found = (0..most).find_map(|seed| {
        let done = run(Plan::new(seed, mode).with_bug(bug));
        let violation = done.violations.iter().find(|violation| violation.contains(words));
        violation.map(|violation| (seed, violation.clone()))
    });
    match found {
        Some((seed, violation)) => println!("{bug:?}: seed {seed}, {violation}"),
        None => panic!("{bug:?} is not found with {most} seeds"),
    }
}

#[test]
fn a_release_without_owner_is_found() {
    finds(Bug::ReleaseWithoutOwner, Mode::Safety, 300, "two holders");
}

#[test]
fn a_renewal_that_shortens_is_found() {
    finds(Bug::RenewShortens, Mode::Safety, 300, "two holders");
}

#[test]
fn a_renewal_that_ignores_the_owner_is_found() {
    finds(Bug::RenewWithoutOwner, Mode::Safety, 300, "does not know that its hold is gone");
}

#[test]
fn a_lock_that_is_granted_before_its_lease_ends_is_found() {
    finds(Bug::GrantEarly, Mode::Safety, 300, "two holders");
}

#[test]
fn a_busy_lock_that_is_granted_is_found() {
    finds(Bug::GrantWhileBusy, Mode::Safety, 300, "two holders");
}

#[test]
fn permits_above_the_count_are_found() {
    finds(Bug::GrantWhileBusy, Mode::Safety, 300, "permits of");
}

#[test]
fn a_writer_beside_readers_is_found() {
    finds(Bug::WriterIgnoresReaders, Mode::Safety, 300, "two holders");
}

#[test]
fn a_request_that_counts_twice_is_found() {
    finds(Bug::CountDuplicates, Mode::Liveness, 800, "left behind");
}

#[test]
fn a_token_that_does_not_rise_is_found() {
    finds(Bug::TokenFalls, Mode::Safety, 300, "token");
}

#[test]
fn notifications_that_are_never_sent_are_found() {
    finds(Bug::NoWakeUps, Mode::Liveness, 300, "after it was free");
}

#[test]
fn an_owner_that_is_not_forgotten_is_found() {
    finds(Bug::GiveUpKeeps, Mode::Liveness, 800, "left behind");
}

#[test]
fn a_fair_lock_that_ignores_its_queue_is_found() {
    finds(Bug::FairIgnoresQueue, Mode::Liveness, 300, "was granted to");
}
