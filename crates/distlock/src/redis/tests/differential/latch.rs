//! `latch`.

use proptest::prelude::*;

use super::{OWNERS, Step, agree, anybody};
use crate::Owner;
use crate::store::{Admin, ClaimKind, LatchOp, Snapshot};

const WHAT: ClaimKind = ClaimKind::LatchOpen;

fn op(op: LatchOp) -> Step {
    Step::Admin { op: Admin::Latch(op) }
}

/// The same owner again is the same count-down, sent once more.
fn count_down(request: Owner, _: u32) -> Admin {
    Admin::Latch(LatchOp::CountDown { request })
}

fn forget(request: Owner, _: u32) -> Admin {
    Admin::Latch(LatchOp::Forget { request })
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => anybody()
            .prop_map(|who| Step::Acquire { who, what: WHAT, depth: 1, heir_of: None }),
        1 => anybody().prop_map(|who| Step::Release { who, what: WHAT, depth: 0 }),
        1 => anybody().prop_map(|who| Step::Renew { who, what: WHAT }),
        1 => anybody().prop_map(|who| Step::GiveUp { who, what: WHAT }),
        1 => Just(Step::Force { what: WHAT }),
        1 => Just(Step::Inspect { what: WHAT }),
        6 => anybody().prop_map(|who| Step::AdminOf { who, number: 0, op: count_down }),
        3 => anybody().prop_map(|who| Step::AdminOf { who, number: 0, op: forget }),
        3 => (0..4_u32).prop_map(|count| op(LatchOp::Init(count))),
        1 => (0..4_u32).prop_map(|count| op(LatchOp::Reset(count))),
        2 => Just(op(LatchOp::Count)),
        1 => Just(op(LatchOp::Delete)),
    ]
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_latch_is_the_same_everywhere() {
    let kept = |seen: &Snapshot| {
        seen.holders.is_empty() && seen.count.is_none_or(|count| (1..4).contains(&count))
    };
    let forget_all = (0..OWNERS).map(|who| Step::AdminOf { who, number: 0, op: forget });
    let clear: Vec<Step> = forget_all.chain([op(LatchOp::Delete)]).collect();
    agree(steps(), WHAT, kept, &clear);
}
