//! Every kind of lock keeps its promises at every place: see `distlock_testkit::suites`, and `xtask/src/test/matrix.rs` for what of it
//! runs when.

use std::process::ExitCode;

fn main() -> ExitCode {
    distlock_testkit::suites::main()
}
