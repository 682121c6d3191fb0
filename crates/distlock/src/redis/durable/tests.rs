use super::*;
use crate::redis::Target;
use crate::redis::exclusive;
use crate::redis::tests::{Played, claim, owner};

fn job(name: &str) -> (Job, oneshot::Receiver<Result<Value>>) {
    let (answer, answered) = oneshot::channel();
    (Job { call: exclusive::acquire(&claim(name, owner(), 1)), asking: false, answer }, answered)
}

#[tokio::test(start_paused = true)]
async fn whoever_left_meanwhile_is_asked_for_no_more() {
    let (surroundings, mut played) = Played::new(Durability::Acks(1));
    let dial = surroundings.dial(Target::parse("redis://played").unwrap());
    let server = Durable::new(&Arc::new(dial)).unwrap().server;
    let ((early, first), (late, second), (stays, third)) =
        (job("early"), job("late"), job("stays"));
    let mut group = vec![early, late, stays];
    let decided = tokio::spawn(async move { server.decide(&mut group, &mut true).await });

    let mut peer = played.next().await;
    peer.asked("WAIT").await; // whether the server knows it
    drop(first);
    peer.answer(":0\r\n").await;
    let said = peer.asked("WAIT").await;
    assert!(!said.contains("early") && said.contains("late"), "{said}");
    drop(second);
    peer.answer("-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n:1\r\n").await;
    let said = peer.asked("stays").await;
    assert!(!said.contains("late"), "{said}");
    peer.answer("+OK\r\n_\r\n").await;
    peer.asked("WAIT").await;
    peer.answer(":1\r\n").await;

    decided.await.unwrap().unwrap();
    assert_eq!(third.await.unwrap().unwrap(), Value::Nil);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_if_everybody_left() {
    let (surroundings, mut played) = Played::new(Durability::Acks(1));
    let dial = surroundings.dial(Target::parse("redis://played").unwrap());
    let server = Durable::new(&Arc::new(dial)).unwrap().server;
    let (left, answered) = job("left");
    let decided = tokio::spawn(async move {
        let (mut group, mut prompt) = (vec![left], true);
        server.decide(&mut group, &mut prompt).await
    });
    let mut peer = played.next().await;
    peer.asked("WAIT").await;
    drop(answered);
    peer.answer(":0\r\n").await;
    decided.await.unwrap().unwrap();
    assert_eq!(peer.rest().await, "");
}
