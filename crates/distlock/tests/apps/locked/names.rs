//! What stands between the braces of a name.

use distlock::{Locks, Result, locked};

struct Order {
    id: u64,
    lines: Vec<u32>,
}

impl Order {
    fn region(&self) -> &str {
        "eu"
    }
}

#[locked("plain", via = locks)]
async fn plain(locks: &Locks) -> Result<()> {
    Ok(())
}

#[locked("order:{order.id}:{order.region()}:{order.lines[0]:03}:{{x}}", via = locks)]
async fn fields(locks: &Locks, order: &Order) -> Result<String> {
    Ok(locks.list("").await?[0].name.to_string())
}

#[locked("{<u32 as Default>::default()}-{a}-{b:?}", via = locks)]
async fn paths(locks: &Locks, a: &str, b: &str) -> Result<String> {
    Ok(locks.list("").await?[0].name.to_string())
}

#[locked(["acct:{from}", "acct:{to}"], via = locks)]
async fn several(locks: &Locks, from: u32, to: u32) -> Result<usize> {
    Ok(locks.list("").await?.len())
}

#[tokio::test]
async fn names_are_made_of_arguments() {
    let locks = Locks::memory();
    plain(&locks).await.unwrap();
    let order = Order { id: 7, lines: vec![5] };
    assert_eq!(fields(&locks, &order).await.unwrap(), "order:7:eu:005:{x}");
    assert_eq!(paths(&locks, "a", "b").await.unwrap(), "0-a-\"b\"");
    assert_eq!(several(&locks, 1, 2).await.unwrap(), 2);
}
