use std::pin::pin;

use super::*;
use crate::durability::Durability;
use crate::redis::Target;
use crate::redis::tests::Played;

fn played() -> (Links, Played) {
    let (surroundings, played) = Played::new(Durability::Primary);
    let dial = surroundings.dial(Target::parse("redis://played").expect("a URL"));
    (Links::new(Arc::new(dial)), played)
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_not_polled_keeps_nobody_from_connecting() {
    let (links, mut played) = played();
    let mut first = pin!(links.line());
    let _peer = tokio::select! {
        biased;
        _ = &mut first => panic!("nobody has let it in"),
        peer = played.next() => peer,
    };
    links.line().await.map(drop).unwrap();
    first.await.map(drop).unwrap();
}
