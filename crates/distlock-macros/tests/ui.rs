//! What compiles, and what those read whose function does not. After a change: `TRYBUILD=overwrite cargo test -p distlock-macros`.
//! What only the compiler words is in the doctests of `src/lib.rs`: its wording changes with each version.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
