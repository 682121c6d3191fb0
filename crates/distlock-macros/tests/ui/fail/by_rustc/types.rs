use distlock::{Locks, locked};

#[locked("k", via = locks)]
async fn no_result(locks: &Locks) -> u32 {
    1
}

#[locked("k", or_skip, via = locks)]
async fn no_option(locks: &Locks) -> distlock::Result<u32> {
    Ok(1)
}

#[locked("k", wait = "3 days", via = locks)]
async fn no_duration(locks: &Locks) -> distlock::Result<u32> {
    Ok(1)
}

#[locked("a:{idd}", via = locks)]
async fn no_such_argument(locks: &Locks, id: u32) -> distlock::Result<()> {
    Ok(())
}

#[locked("a", via = id)]
async fn no_locks(locks: &Locks, id: u32) -> distlock::Result<()> {
    Ok(())
}

fn main() {}
