use std::collections::BTreeSet;

use crate::redis::acl::NEEDS;

/// What the probe does not try would be missing without a word.
#[test]
fn every_command_of_every_kind_is_tried() {
    let probe = include_str!("probe.lua");
    let tried: BTreeSet<&str> = probe.split('\'').skip(1).step_by(2).collect();
    for needs in &NEEDS {
        for command in needs.scripts_take() {
            assert!(tried.contains(command), "{}: {command}", needs.kind);
        }
    }
}
