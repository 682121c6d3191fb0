use distlock::{Locks, locked};

#[locked("k", via = locks)]
async fn nothing(locks: &Locks) {}

#[locked("k", via = locks)]
const fn constant(locks: &Locks) -> distlock::Result<u32> {
    Ok(1)
}

/// What #[async_trait] makes of an `async fn`.
#[locked("k", via = locks)]
fn rewritten(locks: &Locks) -> core::pin::Pin<Box<dyn Future<Output = distlock::Result<u32>> + '_>> {
    Box::pin(async { Ok(1) })
}

#[locked("k")]
struct NoFunction;

fn main() {}
