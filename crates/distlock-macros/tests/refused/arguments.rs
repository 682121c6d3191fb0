use distlock::{Locks, Result, locked};

#[locked]
async fn no_name(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(kind = fair)]
async fn name_not_first(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = far)]
async fn no_such_kind(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = latch)]
async fn latch(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = redlock)]
async fn redlock(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", waits = "3s")]
async fn no_such_option(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", wait = "3s", wait = "4s")]
async fn twice(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", profile = "a", via = locks)]
async fn two_places(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", read, via = locks)]
async fn read_what(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", permits = 2, via = locks)]
async fn permits_of_what(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = semaphore, lease = "1s", via = locks)]
async fn lease_of_permits(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked(["a", "b"], kind = fair, via = locks)]
async fn several_fair(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked([], via = locks)]
async fn none(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = "far", via = locks)]
async fn no_such_kind_in_quotes(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = 3, via = locks)]
async fn kind_is_a_number(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("k", kind = "latch", via = locks)]
async fn latch_in_quotes(locks: &Locks) -> Result<()> {
    Ok(())
}

fn main() {}
