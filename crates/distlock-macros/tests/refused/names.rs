use distlock::{Locks, Result, locked};

#[locked("", via = locks)]
async fn empty(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("a:{", via = locks)]
async fn open(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("a:}", via = locks)]
async fn closed(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("a:{}", via = locks)]
async fn nothing(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("a:{id +}", via = locks)]
async fn no_expression(locks: &Locks, id: u32) -> Result<()> {
    Ok(())
}

fn main() {}
