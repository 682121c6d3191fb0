//! `rw`.

use std::time::Duration;

use proptest::prelude::*;

use super::{Step, agree_within, anybody};
use crate::store::{ClaimKind, Mode, Snapshot};

const READ: ClaimKind = ClaimKind::Read;
const WRITE: ClaimKind = ClaimKind::Write { waits: false };
const WAITING: ClaimKind = ClaimKind::Write { waits: true };

/// Readers stand behind a writer for a little longer.
const WITHIN: Duration = Duration::from_secs(2);

fn anyhow() -> impl Strategy<Value = ClaimKind> {
    prop_oneof![4 => Just(READ), 2 => Just(WRITE), 2 => Just(WAITING)]
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (anybody(), anyhow(), 1..4_u32)
            .prop_map(|(who, what, depth)| Step::Acquire { who, what, depth, heir_of: None }),
        // Most holds are at depth 1, and end.
        4 => (anybody(), anyhow())
            .prop_map(|(who, what)| Step::Acquire { who, what, depth: 1, heir_of: None }),
        4 => (anybody(), anyhow(), 0..3_u32)
            .prop_map(|(who, what, depth)| Step::Release { who, what, depth }),
        3 => (anybody(), anyhow()).prop_map(|(who, what)| Step::Release { who, what, depth: 0 }),
        2 => (anybody(), anyhow()).prop_map(|(who, what)| Step::Renew { who, what }),
        3 => (anybody(), anyhow()).prop_map(|(who, what)| Step::Expire { who, what }),
        2 => (anybody(), anyhow()).prop_map(|(who, what)| Step::GiveUp { who, what }),
        1 => anyhow().prop_map(|what| Step::Force { what }),
        1 => Just(Step::Inspect { what: READ }),
    ]
}

/// Never two writers, and never a writer together with a reader that is somebody else.
fn excludes(seen: &Snapshot) -> bool {
    let writers: Vec<_> = seen.holders.iter().filter(|h| h.mode == Mode::Write).collect();
    match writers[..] {
        [] => true,
        [writer] => seen.holders.iter().all(|h| h.owner == writer.owner),
        _ => false,
    }
}

#[test]
#[ignore = "needs a server: cargo xtask test"]
fn a_read_write_lock_is_the_same_everywhere() {
    let mut clear: Vec<Step> = anybody().map(|who| Step::GiveUp { who, what: WAITING }).collect();
    clear.extend([Step::Force { what: READ }, Step::Force { what: WRITE }]);
    agree_within(WITHIN, steps(), READ, excludes, &clear);
}
