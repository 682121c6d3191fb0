use std::pin::pin;
use std::task::{Context, Poll, Waker};

use redis::Value;
use tokio::time::Instant;

use super::*;
use crate::locks::Durability;
use crate::redis::Target;
use crate::redis::kill_list::KillLists;
use crate::redis::tests::{LIMIT, Played};

fn played() -> (Links, Played) {
    let (surroundings, played) = Played::new(Durability::Primary);
    let dial = surroundings.dial(Target::parse("redis://played").expect("a URL"));
    (Links::new(Arc::new(dial)), played)
}

fn lists(links: &Links) -> &KillLists {
    links.dial().kill_lists.as_ref().expect("a store has lists")
}

/// Sends a command in a task of its own.
fn send(links: &Arc<Links>, word: &'static str) -> JoinHandle<Result<Value>> {
    let links = links.clone();
    tokio::spawn(async move { links.line().await?.send(&redis::cmd(word)).await })
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

#[tokio::test(start_paused = true)]
async fn after_no_reply_the_server_ends_the_connection_before_anything_else_is_sent() {
    let (links, mut played) = played();
    let links = Arc::new(links);
    let lost = send(&links, "LOST");
    let mut first = played.next().await;
    first.asked("LOST").await;
    let error = lost.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Indeterminate, "{error}");

    let (a, b) = (send(&links, "NEXT"), send(&links, "NEXT"));
    let mut second = played.next().await;
    let said = second.asked("10.0.0.1:1").await;
    assert!(said.contains("KILL") && !said.contains("NEXT"), "{said}");
    assert_eq!(said.matches("KILL").count(), 1, "once for all callers");
    second.answer(":1\r\n").await;
    second.asked("NEXT").await;
    second.answer("+OK\r\n+OK\r\n").await;
    assert_eq!(a.await.unwrap().unwrap(), Value::Okay);
    assert_eq!(b.await.unwrap().unwrap(), Value::Okay);

    // Once is enough.
    let last = send(&links, "LAST");
    let said = second.asked("LAST").await;
    assert!(!said.contains("KILL"), "{said}");
    second.answer("+OK\r\n").await;
    last.await.unwrap().unwrap();
    assert!(!lists(&links).is_refused());
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_ended_is_not_forgotten() {
    let (links, mut played) = played();
    let links = Arc::new(links);
    let lost = send(&links, "LOST");
    let _first = played.next().await;
    lost.await.unwrap().unwrap_err();

    // No answer: the command was surely not sent.
    let next = send(&links, "NEXT");
    let mut second = played.next().await;
    let error = next.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let said = second.rest().await;
    assert!(said.contains("KILL") && !said.contains("NEXT"), "{said}");

    // It cannot do so now.
    let next = send(&links, "NEXT");
    let mut third = played.next().await;
    let said = third.asked("10.0.0.1:2").await;
    assert!(said.contains("10.0.0.1:1"), "{said}");
    third.answer("-LOADING it loads\r\n:0\r\n").await;
    let error = next.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");

    let next = send(&links, "NEXT");
    let said = third.asked("10.0.0.1:2").await;
    assert!(said.contains("10.0.0.1:1") && !said.contains("NEXT"), "{said}");
    third.answer(":0\r\n:1\r\n").await;
    third.asked("NEXT").await;
    third.answer("+OK\r\n").await;
    next.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_end_connections_serves_all_the_same() {
    for refusal in ["-NOPERM no permissions to run 'client|kill'", "-ERR unknown subcommand", "+OK"]
    {
        let (links, mut played) = played();
        let links = Arc::new(links);
        let lost = send(&links, "LOST");
        let _first = played.next().await;
        lost.await.unwrap().unwrap_err();
        let next = send(&links, "NEXT");
        let mut second = played.next().await;
        second.asked("KILL").await;
        second.answer(&format!("{refusal}\r\n")).await;
        second.asked("NEXT").await;
        second.answer("+OK\r\n").await;
        next.await.unwrap().unwrap();
        assert!(lists(&links).is_refused(), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_name_connections_serves_all_the_same() {
    for refusal in ["-NOPERM no permissions to run 'client|info'", "-ERR unknown command", "$-1"] {
        let (links, mut played) = played();
        let links = Arc::new(links);
        let lost = send(&links, "LOST");
        let mut first = played.next_asking_who().await;
        first.answer(&format!("{refusal}\r\n{refusal}\r\n")).await;
        first.asked("LOST").await;
        assert!(lists(&links).is_refused(), "{refusal}");
        lost.await.unwrap().unwrap_err();
        let next = send(&links, "NEXT");
        let mut second = played.next().await;
        let said = second.asked("NEXT").await;
        assert!(!said.contains("KILL"), "{said}");
        second.answer("+OK\r\n").await;
        next.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_before_it_is_named_is_an_error() {
    let (links, mut played) = played();
    let links = Arc::new(links);
    let sent = send(&links, "SENT");
    drop(played.next_asking_who().await);
    let error = sent.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    // One that hangs there, too.
    let sent = send(&links, "SENT");
    let _silent = played.next_asking_who().await;
    let error = sent.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

/// Begins to send, and is polled no more.
fn begin<'a>(line: &'a mut Line, command: &'a redis::Cmd) -> impl Future + 'a {
    let mut sending = Box::pin(line.send(command));
    let poll = sending.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll.is_pending());
    sending
}

#[tokio::test(start_paused = true)]
async fn only_a_caller_that_would_take_something_gives_the_connection_up_by_leaving() {
    let (links, mut played) = played();
    let mut connecting = pin!(links.line());
    let (line, mut peer) = tokio::join!(&mut connecting, played.next());
    let (mut line, command) = (line.unwrap(), redis::cmd("ASKED"));
    let asking = begin(&mut line, &command);
    peer.asked("ASKED").await;
    drop(asking);
    assert!(line.is_live());
    let mut line = line.taking(true);
    let taking = begin(&mut line, &command);
    peer.asked("ASKED").await;
    drop(taking);
    assert!(!line.is_live());

    let (again, mut second) =
        tokio::join!(async { links.line().await.map(|line| line.is_live()) }, async {
            let mut second = played.next().await;
            second.asked("10.0.0.1:1").await;
            second.answer(":1\r\n").await;
            second
        });
    assert!(again.unwrap());
    let next = async { links.line().await?.send(&redis::cmd("NEXT")).await };
    let (next, ()) = tokio::join!(next, async {
        second.asked("NEXT").await;
        second.answer("+OK\r\n").await;
    });
    next.unwrap();
}

#[tokio::test(start_paused = true)]
async fn commands_that_nobody_polls_do_not_keep_others_from_being_sent() {
    let (links, mut played) = played();
    let (line, mut peer) = tokio::join!(links.line(), played.next());
    let (line, command) = (line.unwrap(), redis::cmd("STUCK"));
    let (mut lines, mut more) = (vec![line.clone(); 1024], line.clone());
    let mut stuck = Vec::new();
    for line in &mut lines {
        // The queue for the connection holds fewer than that.
        stuck.push(begin(line, &command));
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    let send = |mut line: Line| async move {
        let reply = line.send(&redis::cmd("NEXT")).await;
        (reply, began.elapsed())
    };
    let (first, second) = (tokio::spawn(send(line.clone())), tokio::spawn(send(line.clone())));
    // One place is given back: the first has it, and the second after it.
    tokio::time::sleep(LIMIT / 2).await;
    stuck.pop();
    let said = peer.asked("NEXT").await;
    let before = said.matches("STUCK").count();
    assert_eq!(before, 1024, "all were sent");
    peer.answer(&"+OK\r\n".repeat(before + 1)).await;
    let (reply, after) = first.await.unwrap();
    assert_eq!((reply.unwrap(), after), (Value::Okay, LIMIT / 2));
    peer.asked("NEXT").await;
    peer.answer("+OK\r\n").await;
    let (reply, after) = second.await.unwrap();
    assert_eq!((reply.unwrap(), after), (Value::Okay, LIMIT / 2));

    // None is given back.
    stuck.push(begin(&mut more, &command));
    let began = Instant::now();
    let third = tokio::spawn(send(line.clone()));
    peer.asked("NEXT").await;
    assert!(began.elapsed() >= LIMIT, "{:?}", began.elapsed());
    peer.answer("+OK\r\n+OK\r\n").await;
    assert_eq!(third.await.unwrap().0.unwrap(), Value::Okay);
    drop(stuck);
    let mut last = pin!(links.line());
    let ready = last.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(ready, Poll::Ready(Ok(_))));
}
