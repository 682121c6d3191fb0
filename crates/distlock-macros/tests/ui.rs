//! What compiles, and what those read whose function does not. After a change: `TRYBUILD=overwrite cargo test -p distlock-macros`.

use std::process::Command;

/// Errors about types are worded by the compiler, in this version as they stand here.
const RUSTC: &str = "rustc 1.95.";

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("a compiler");
    match String::from_utf8_lossy(&version.stdout).starts_with(RUSTC) {
        true => cases.compile_fail("tests/ui/fail/by_rustc/*.rs"),
        false => eprintln!("SKIPPED: errors about types as {RUSTC} words them"),
    }
}
