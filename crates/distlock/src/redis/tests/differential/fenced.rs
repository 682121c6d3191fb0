//! `fenced`, beside `mutex` on the same name as Redisson allows; and the gate.

use proptest::prelude::*;

use super::{Step, agree, anybody};
use crate::store::{Admin, ClaimKind};

const WHAT: ClaimKind = ClaimKind::Fenced;

/// Mostly fenced: who takes the same lock without a token takes it all the same.
fn kinds() -> impl Strategy<Value = ClaimKind> {
    prop_oneof![3 => Just(WHAT), 1 => Just(ClaimKind::Exclusive)]
}

fn locking() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (anybody(), kinds(), 1..4_u32, proptest::option::weighted(0.25, anybody()))
            .prop_map(|(who, what, depth, heir_of)| Step::Acquire { who, what, depth, heir_of }),
        3 => (anybody(), kinds(), 0..3_u32)
            .prop_map(|(who, what, depth)| Step::Release { who, what, depth }),
        1 => (anybody(), kinds()).prop_map(|(who, what)| Step::Renew { who, what }),
        1 => (anybody(), kinds()).prop_map(|(who, what)| Step::Expire { who, what }),
        1 => (anybody(), kinds()).prop_map(|(who, what)| Step::GiveUp { who, what }),
        1 => kinds().prop_map(|what| Step::Force { what }),
        1 => kinds().prop_map(|what| Step::Inspect { what }),
    ]
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_fenced_lock_is_the_same_everywhere_and_its_tokens_only_rise() {
    agree(locking(), WHAT, |seen| seen.holders.len() <= 1, &[Step::Force { what: WHAT }]);
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_gate_is_the_same_everywhere() {
    let tokens = prop_oneof![
        4 => 0..12_u64,
        1 => Just(9_999),
        // Where numbers of scripts have gaps.
        1 => (1 << 53) - 2..(1 << 53) + 3_u64,
        1 => u64::MAX - 2..=u64::MAX,
    ];
    let showing = prop_oneof![
        6 => tokens.prop_map(|token| Step::Admin { op: Admin::Fence { token } }),
        1 => Just(Step::Admin { op: Admin::FenceForget }),
        // A lock of the same name is another thing.
        1 => anybody().prop_map(|who| Step::Acquire { who, what: WHAT, depth: 1, heir_of: None }),
    ];
    let clear = [Step::Admin { op: Admin::FenceForget }, Step::Force { what: WHAT }];
    agree(showing, WHAT, |seen| seen.holders.len() <= 1, &clear);
}
