//! The `distlock` command.
fn main() {}
