//! `simple`.

use proptest::prelude::*;

use super::{Step, agree, anybody};
use crate::store::{ClaimKind, Mode};

const WHAT: ClaimKind = ClaimKind::Simple;

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (anybody(), 1..4_u32, proptest::option::weighted(0.25, anybody()))
            .prop_map(|(who, depth, heir_of)| Step::Acquire { who, what: WHAT, depth, heir_of }),
        3 => (anybody(), 0..3_u32)
            .prop_map(|(who, depth)| Step::Release { who, what: WHAT, depth }),
        1 => anybody().prop_map(|who| Step::Renew { who, what: WHAT }),
        1 => anybody().prop_map(|who| Step::Expire { who, what: WHAT }),
        1 => anybody().prop_map(|who| Step::GiveUp { who, what: WHAT }),
        1 => Just(Step::Force { what: WHAT }),
        1 => Just(Step::Inspect { what: WHAT }),
    ]
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_simple_lock_is_the_same_everywhere() {
    let at_most_one = |seen: &crate::store::Snapshot| match &seen.holders[..] {
        [] => seen.ttl.is_none(),
        [holder] => holder.depth == 1 && holder.mode == Mode::Exclusive && seen.ttl.is_some(),
        _ => false,
    };
    agree(steps(), WHAT, at_most_one, &[Step::Force { what: WHAT }]);
}
