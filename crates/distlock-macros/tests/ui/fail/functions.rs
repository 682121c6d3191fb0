use distlock::{Locks, locked};

#[locked("k", via = locks)]
async fn nothing(locks: &Locks) {}

#[locked("k", via = locks)]
const fn constant(locks: &Locks) -> distlock::Result<u32> {
    Ok(1)
}

#[locked("k")]
struct NoFunction;

fn main() {}
