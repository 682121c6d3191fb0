//! `leased_semaphore`.

use proptest::prelude::*;

use super::{Step, agree, anybody};
use crate::Owner;
use crate::store::{Admin, ClaimKind, LeasedOp, PermitId, Snapshot};

const PERMITS: u32 = 5;

const WHAT: ClaimKind = ClaimKind::LeasedPermits { count: 1, initial: None };

fn claimed(initial: Option<u32>) -> impl Strategy<Value = ClaimKind> {
    (1..5_u32).prop_map(move |count| ClaimKind::LeasedPermits { count, initial })
}

fn op(op: LeasedOp) -> Step {
    Step::Admin { op: Admin::Leased(op) }
}

fn release(owner: Owner, number: u32) -> Admin {
    Admin::Leased(LeasedOp::Release(PermitId::of(owner, number).collect()))
}

/// The last of them twice, and one that nobody has.
fn release_oddly(owner: Owner, number: u32) -> Admin {
    let mut ids: Vec<PermitId> = PermitId::of(owner, number).collect();
    ids.extend(ids.last().copied());
    if number.is_multiple_of(2) {
        ids.push(PermitId::from_bytes([7; 16]));
    }
    Admin::Leased(LeasedOp::Release(ids))
}

/// For a minute, or so that it has expired at once.
fn extend(owner: Owner, number: u32) -> Admin {
    let lease = if number.is_multiple_of(2) { 60_000 } else { 0 };
    let id = PermitId::of(owner, number.max(1)).last();
    Admin::Leased(LeasedOp::Extend(id.expect("at least one"), lease))
}

fn remaining(owner: Owner, number: u32) -> Admin {
    let id = PermitId::of(owner, number.max(1)).last();
    Admin::Leased(LeasedOp::Remaining(id.expect("at least one")))
}

/// Steps that put in the same number of permits whenever there is no semaphore, and none besides.
fn conserving() -> impl Strategy<Value = Step> {
    let what = || claimed(Some(PERMITS));
    let by_id = (anybody(), 0..5_u32, 0..4_usize).prop_map(|(who, number, which)| {
        let op = [release, release_oddly, extend, remaining][which];
        Step::AdminOf { who, number, op }
    });
    prop_oneof![
        6 => (anybody(), what())
            .prop_map(|(who, what)| Step::Acquire { who, what, depth: 1, heir_of: None }),
        4 => (anybody(), what()).prop_map(|(who, what)| Step::Release { who, what, depth: 0 }),
        1 => (anybody(), what()).prop_map(|(who, what)| Step::Renew { who, what }),
        2 => (anybody(), what()).prop_map(|(who, what)| Step::Expire { who, what }),
        1 => (anybody(), what()).prop_map(|(who, what)| Step::GiveUp { who, what }),
        1 => what().prop_map(|what| Step::Force { what }),
        1 => what().prop_map(|what| Step::Inspect { what }),
        4 => by_id,
        1 => Just(op(LeasedOp::Init(PERMITS))),
        1 => Just(op(LeasedOp::Set(PERMITS))),
        1 => Just(op(LeasedOp::Available)),
        1 => Just(op(LeasedOp::Acquired)),
        1 => Just(op(LeasedOp::Delete)),
    ]
}

/// Steps of every sort.
fn all() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => conserving(),
        2 => (anybody(), claimed(None))
            .prop_map(|(who, what)| Step::Acquire { who, what, depth: 1, heir_of: None }),
        1 => (0..4_u32).prop_map(|permits| op(LeasedOp::Init(permits))),
        1 => (0..9_u32).prop_map(|permits| op(LeasedOp::Set(permits))),
        2 => (-6..7_i64).prop_map(|permits| op(LeasedOp::Add(permits))),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX)].prop_map(|n| op(LeasedOp::Add(n))),
    ]
}

fn out(seen: &Snapshot) -> i64 {
    i64::try_from(seen.holders.len()).expect("a few")
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_leased_semaphore_never_gains_nor_loses_a_permit() {
    let kept = |seen: &Snapshot| match seen.count {
        Some(left) => left >= 0 && left + out(seen) == i64::from(PERMITS),
        None => seen.holders.is_empty(),
    };
    agree(conserving(), WHAT, kept, &[op(LeasedOp::Delete)]);
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_leased_semaphore_is_the_same_everywhere() {
    let kept = |seen: &Snapshot| seen.count.is_some() || seen.holders.is_empty();
    agree(all(), WHAT, kept, &[op(LeasedOp::Delete)]);
}
