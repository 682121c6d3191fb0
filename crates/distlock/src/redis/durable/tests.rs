use super::*;
use crate::redis::Target;
use crate::redis::exclusive;
use crate::redis::tests::{Played, claim, owner};

fn job(name: &str) -> (Job, oneshot::Receiver<Result<Value>>) {
    let (answer, answered) = oneshot::channel();
    let call = exclusive::acquire(&claim(name, owner(), 1));
    (Job { call, asking: false, answer, passage: Arc::default() }, answered)
}

#[tokio::test(start_paused = true)]
async fn whoever_left_meanwhile_is_asked_for_no_more() {
    let (surroundings, mut played) = Played::new(Durability::Acks(1));
    let dial = surroundings.dial(Target::parse("redis://played").unwrap());
    let server = Durable::new(&Arc::new(dial)).unwrap().server;
    let ((early, first), (late, second), (stays, third)) =
        (job("k:early"), job("k:late"), job("k:stays"));
    let mut group = vec![early, late, stays];
    let decided = tokio::spawn(async move { server.decide(&mut group, &mut true).await });

    let mut peer = played.next().await;
    peer.asked("WAIT").await; // whether the server knows it
    drop(first);
    peer.answer(":0\r\n").await;
    let said = peer.asked("WAIT").await;
    assert!(!said.contains("k:early") && said.contains("k:late"), "{said}");
    drop(second);
    peer.answer("-NOSCRIPT No matching script.\r\n-NOSCRIPT No matching script.\r\n:1\r\n").await;
    let said = peer.asked("k:stays").await;
    assert!(!said.contains("k:late"), "{said}");
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

/// The server's side of a durable server that has been let in.
async fn on_stage() -> (Arc<Dial>, Arc<Durable>, Played) {
    let (surroundings, played) = Played::new(Durability::Acks(1));
    let dial = Arc::new(surroundings.dial(Target::parse("redis://played").unwrap()));
    let durable = Arc::new(Durable::new(&dial).unwrap());
    (dial, durable, played)
}

/// Another connection to the same server first has the one with this id ended.
async fn assert_given_up(dial: &Arc<Dial>, played: &mut Played, id: u64) {
    let links = Links::new(dial.clone());
    let next = tokio::spawn(async move { links.line().await?.send(&redis::cmd("NEXT")).await });
    let mut peer = played.next().await;
    let said = peer.asked(&format!("10.0.0.1:{id}")).await;
    assert!(said.contains("KILL") && !said.contains("NEXT"), "{said}");
    peer.answer(":1\r\n").await;
    peer.asked("NEXT").await;
    peer.answer("+OK\r\n").await;
    next.await.unwrap().unwrap();
}

fn asked(durable: &Arc<Durable>, name: &str) -> tokio::task::JoinHandle<Result<Value>> {
    let (durable, call) = (durable.clone(), exclusive::acquire(&claim(name, owner(), 1)));
    tokio::spawn(async move { durable.ask(&call, false).await })
}

#[tokio::test(start_paused = true)]
async fn a_group_without_an_answer_gives_its_connection_up() {
    let (dial, durable, mut played) = on_stage().await;
    let acquiring = asked(&durable, "k");
    let mut peer = played.next().await;
    peer.asked("WAIT").await;
    peer.answer(":0\r\n").await;
    peer.asked("EVALSHA").await;
    let error = acquiring.await.unwrap().unwrap_err();
    assert!(error.is_in_doubt(), "{error}");
    assert_given_up(&dial, &mut played, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_gives_up_the_connection_that_carries_its_step() {
    let (dial, durable, mut played) = on_stage().await;
    let (leaves, stays) = (asked(&durable, "leaves"), asked(&durable, "stays"));
    let mut peer = played.next().await;
    peer.asked("WAIT").await;
    peer.answer(":0\r\n").await;
    peer.asked("stays").await;
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    let error = stays.await.unwrap().unwrap_err();
    assert!(error.is_in_doubt(), "{error}");
    assert_given_up(&dial, &mut played, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_before_or_after_its_step_disturbs_nobody() {
    let (dial, durable, mut played) = on_stage().await;
    let before = asked(&durable, "before");
    let mut peer = played.next().await;
    peer.asked("WAIT").await;
    before.abort();
    assert!(before.await.unwrap_err().is_cancelled());
    let stays = asked(&durable, "stays");
    peer.answer(":0\r\n").await;
    let said = peer.asked("WAIT").await;
    assert!(said.contains("stays") && !said.contains("before"), "{said}");
    peer.answer("_\r\n:1\r\n").await;
    assert_eq!(stays.await.unwrap().unwrap(), Value::Nil);
    let lists = dial.kill_lists.as_ref().unwrap();
    assert!(!lists.of(&dial.target.endpoint).is_pending());
}

/// The desk's runtime stands still, and nobody there can say that no reply came.
#[tokio::test(start_paused = true)]
async fn what_a_caller_left_behind_is_not_sent_later() {
    let (dial, _, mut played) = on_stage().await;
    let links = Links::new(dial);
    let (line, _peer) = tokio::join!(links.line(), played.next());
    let (line, passage) = (line.unwrap(), Arc::<Passage>::default());
    drop(Caller(passage.clone()));
    assert!(!passage.board(&line) && line.is_live(), "it left before it was sent");

    let passage = Arc::<Passage>::default();
    let caller = Caller(passage.clone());
    assert!(passage.board(&line));
    drop(caller);
    assert!(!line.is_live() && !passage.board(&line), "it left while it was under way");
}
