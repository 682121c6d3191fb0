//! `semaphore`.

use proptest::prelude::*;

use super::{Step, agree, anybody};
use crate::store::{Admin, ClaimKind, PermitsOp, Snapshot};

const PERMITS: u32 = 5;

fn claimed(initial: Option<u32>) -> impl Strategy<Value = ClaimKind> {
    (1..7_u32).prop_map(move |count| ClaimKind::Permits { count, initial })
}

fn op(op: PermitsOp) -> Step {
    Step::Admin { op: Admin::Permits(op) }
}

/// Steps that put in the same number of permits whenever there is no semaphore, and none besides.
fn conserving() -> impl Strategy<Value = Step> {
    let what = || claimed(Some(PERMITS));
    prop_oneof![
        6 => (anybody(), what())
            .prop_map(|(who, what)| Step::Acquire { who, what, depth: 1, heir_of: None }),
        4 => (anybody(), what()).prop_map(|(who, what)| Step::Release { who, what, depth: 0 }),
        1 => (anybody(), what()).prop_map(|(who, what)| Step::Renew { who, what }),
        1 => (anybody(), what()).prop_map(|(who, what)| Step::Expire { who, what }),
        1 => (anybody(), what()).prop_map(|(who, what)| Step::GiveUp { who, what }),
        1 => what().prop_map(|what| Step::Force { what }),
        1 => what().prop_map(|what| Step::Inspect { what }),
        1 => Just(op(PermitsOp::Init(PERMITS))),
        1 => Just(op(PermitsOp::Available)),
        1 => Just(op(PermitsOp::Delete)),
    ]
}

/// Steps of every sort.
fn all() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => conserving(),
        2 => (anybody(), claimed(None))
            .prop_map(|(who, what)| Step::Acquire { who, what, depth: 1, heir_of: None }),
        1 => (0..4_u32).prop_map(|permits| op(PermitsOp::Init(permits))),
        2 => (-6..7_i64).prop_map(|permits| op(PermitsOp::Add(permits))),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(|n| op(PermitsOp::Add(n))),
        2 => (1..4_u32).prop_map(|permits| op(PermitsOp::Release(permits))),
        1 => (1..4_u32).prop_map(|permits| op(PermitsOp::ReleaseIfExists(permits))),
        1 => Just(op(PermitsOp::Drain)),
    ]
}

fn out(seen: &Snapshot) -> i64 {
    seen.holders.iter().map(|holder| i64::from(holder.depth)).sum()
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_semaphore_never_gains_nor_loses_a_permit() {
    let kept = |seen: &Snapshot| match seen.count {
        Some(left) => left >= 0 && left + out(seen) == i64::from(PERMITS),
        None => seen.holders.is_empty(),
    };
    let what = ClaimKind::Permits { count: 1, initial: None };
    agree(conserving(), what, kept, &[op(PermitsOp::Delete)]);
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_semaphore_is_the_same_everywhere() {
    let kept = |seen: &Snapshot| seen.count.is_some() || seen.holders.is_empty();
    let what = ClaimKind::Permits { count: 1, initial: None };
    agree(all(), what, kept, &[op(PermitsOp::Delete)]);
}
