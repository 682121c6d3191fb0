//! Every fault of the proxy, against a real server.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use distlock_testkit::proxy::{Delivered, Match, Proxy};
use distlock_testkit::server::{Flavor, Server};
use distlock_testkit::suites::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Long enough that something that can come has come.
const A_WHILE: Duration = Duration::from_millis(60);

/// Long enough for what must come, on a machine that does other things.
const IN_TIME: Duration = Duration::from_secs(30);

/// A client without a mind of its own: what is on the wire is what the test says.
struct Raw {
    stream: TcpStream,
}

impl Raw {
    async fn connect(addr: SocketAddr) -> Raw {
        Raw { stream: TcpStream::connect(addr).await.expect("a connection") }
    }

    async fn send(&mut self, command: &str) {
        let args: Vec<&str> = command.split(' ').collect();
        let mut frame = format!("*{}\r\n", args.len());
        for arg in args {
            frame.push_str(&format!("${}\r\n{arg}\r\n", arg.len()));
        }
        self.stream.write_all(frame.as_bytes()).await.expect("a connection that takes it");
    }

    async fn expect(&mut self, bytes: &str) {
        let mut read = vec![0; bytes.len()];
        let reading = self.stream.read_exact(&mut read);
        let reply = tokio::time::timeout(IN_TIME, reading).await;
        reply.expect("a reply in time").expect("a connection that carries it");
        assert_eq!(String::from_utf8_lossy(&read), bytes);
    }

    async fn ask(&mut self, command: &str, reply: &str) {
        self.send(command).await;
        self.expect(reply).await;
    }

    async fn silent(&mut self) {
        let mut byte = [0];
        let read = tokio::time::timeout(A_WHILE, self.stream.read(&mut byte)).await;
        assert!(read.is_err(), "{read:?}");
    }

    async fn end(&mut self) -> Result<String, ErrorKind> {
        let mut rest = String::new();
        match self.stream.read_to_string(&mut rest).await {
            Ok(_) => Ok(rest),
            Err(error) => Err(error.kind()),
        }
    }
}

async fn both() -> (Server, Proxy) {
    let server = Server::redis().await;
    let proxy = Proxy::start(server.addr()).await;
    (server, proxy)
}

#[tokio::test]
async fn without_faults_everything_passes_and_is_counted() {
    for flavor in Flavor::installed() {
        let server = Server::builder(flavor).start().await;
        let proxy = Proxy::start(server.addr()).await;
        let mut connection = redis::Client::open(proxy.url()).unwrap().get_connection().unwrap();
        let mut raw = Raw::connect(proxy.addr()).await;
        let big = "x".repeat(300_000);
        redis::cmd("SET").arg("k").arg(&big).exec(&mut connection).unwrap();
        let value: String = redis::cmd("GET").arg("k").query(&mut connection).unwrap();
        assert_eq!(value, big);
        raw.ask("get none", "$-1\r\n").await;
        assert_eq!((proxy.count("GET"), proxy.count("set"), proxy.connections()), (2, 1, 2));
        assert_eq!(proxy.seen()[&0]["GET"], 1);
        assert_eq!(proxy.seen()[&1].len(), 1);
        proxy.forget_seen();
        assert_eq!(proxy.count("GET"), 0);
    }
}

#[tokio::test]
async fn a_swallowed_reply_belongs_to_a_command_that_ran() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    let rule = proxy.swallow_replies_to(Match::command("incr").and("victim"), 1);
    raw.send("INCR other").await;
    raw.send("INCR victim").await;
    raw.send("INCR other").await;
    rule.fired(1).await;
    raw.expect(":1\r\n").await;
    // Nothing that comes behind may be taken for the reply that was lost.
    raw.silent().await;
    assert_eq!(server.ask::<String>(&["GET", "victim"]).await, "1");
    // What came behind it may still have been on its way to the server.
    let ran = || async { server.ask::<i64>(&["GET", "other"]).await == 2 };
    eventually("what came behind it ran", ran).await;
    let mut next = Raw::connect(proxy.addr()).await;
    next.ask("INCR victim", ":2\r\n").await;
    assert_eq!(rule.hits(), 1);
}

#[tokio::test]
async fn a_rule_strikes_as_often_as_it_was_told() {
    let (server, proxy) = both().await;
    let rule = proxy.swallow_replies_to("victim", 2);
    for time in 1..=2 {
        let mut raw = Raw::connect(proxy.addr()).await;
        raw.send("INCR victim").await;
        rule.fired(time).await;
        raw.silent().await;
    }
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("INCR victim", ":3\r\n").await;
    assert_eq!(server.ask::<i64>(&["GET", "victim"]).await, 3);
}

#[tokio::test]
async fn the_handshake_is_not_the_next_command() {
    let (_server, proxy) = both().await;
    let rule = proxy.swallow_next_reply();
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("CLIENT SETNAME me", "+OK\r\n").await;
    raw.send("PING").await;
    rule.fired(1).await;
    raw.silent().await;
}

#[tokio::test]
async fn messages_do_not_shift_the_count_of_replies() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.send("HELLO 3").await;
    let confirmed = ">3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    raw.send("SUBSCRIBE c").await;
    let mut hello = vec![0; 4096];
    let mut text = String::new();
    while !text.ends_with(confirmed) {
        let read = raw.stream.read(&mut hello).await.unwrap();
        text.push_str(&String::from_utf8_lossy(&hello[..read]));
    }
    let message = ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
    server.cli(&["PUBLISH", "c", "m"]).await;
    raw.expect(message).await;
    let rule = proxy.swallow_replies_to("victim", 1);
    raw.ask("INCR other", ":1\r\n").await;
    server.cli(&["PUBLISH", "c", "m"]).await;
    raw.expect(message).await;
    raw.send("INCR victim").await;
    rule.fired(1).await;
    raw.silent().await;
    assert_eq!(server.ask::<i64>(&["GET", "victim"]).await, 1);
}

#[tokio::test]
async fn a_confirmation_can_be_lost_in_both_protocols() {
    for hello in ["HELLO 2", "HELLO 3"] {
        let (server, proxy) = both().await;
        let mut raw = Raw::connect(proxy.addr()).await;
        raw.send(hello).await;
        raw.stream.readable().await.unwrap();
        let rule = proxy.swallow_replies_to("c", 1);
        raw.send("SUBSCRIBE b c d").await;
        rule.fired(1).await;
        // On the server's side the subscription stands.
        assert_eq!(server.pubsub_channels().await, ["b", "c", "d"]);
    }
}

#[tokio::test]
async fn a_reset_in_place_of_a_reply() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    let rule = proxy.reset_instead_of_replies_to("victim", 1);
    raw.ask("PING", "+PONG\r\n").await;
    raw.send("INCR victim").await;
    assert_eq!(raw.end().await, Err(ErrorKind::ConnectionReset));
    assert_eq!(rule.hits(), 1);
    assert_eq!(server.ask::<i64>(&["GET", "victim"]).await, 1);
}

#[tokio::test]
async fn a_dropped_request_never_runs() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    let rule = proxy.drop_requests_to("victim", 1);
    raw.ask("INCR other", ":1\r\n").await;
    raw.send("INCR victim").await;
    raw.send("INCR other").await;
    rule.fired(1).await;
    raw.silent().await;
    assert!(!server.exists("victim").await);
    assert_eq!(server.ask::<i64>(&["GET", "other"]).await, 1);
}

#[tokio::test]
async fn a_watch_tells_when_a_command_passes() {
    let (_server, proxy) = both().await;
    let watch = proxy.watch(Match::command("PING"));
    let mut raw = Raw::connect(proxy.addr()).await;
    assert_eq!(watch.hits(), 0);
    raw.send("PING").await;
    raw.send("PING").await;
    watch.fired(2).await;
    raw.expect("+PONG\r\n+PONG\r\n").await;
}

#[tokio::test]
async fn a_black_hole_holds_everything_until_it_ends() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("PING", "+PONG\r\n").await;
    proxy.blackhole(true);
    raw.send("INCR k").await;
    raw.silent().await;
    assert!(!server.exists("k").await);
    proxy.blackhole(false);
    raw.expect(":1\r\n").await;

    proxy.blackhole_replies(true);
    let watch = proxy.watch("k");
    raw.send("INCR k").await;
    watch.fired(1).await;
    raw.silent().await;
    let ran = || async { server.ask::<i64>(&["GET", "k"]).await == 2 };
    eventually("the server gets it and runs it", ran).await;
    proxy.heal().await;
    raw.expect(":2\r\n").await;
}

#[tokio::test]
async fn latency_delays_but_does_not_add_up() {
    let (_server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    // So long that a machine that stands still for a while does not look like delays that add up.
    let latency = Duration::from_secs(1);
    proxy.latency(latency);
    let since = Instant::now();
    for _ in 0..20 {
        raw.send("PING").await;
    }
    raw.expect(&"+PONG\r\n".repeat(20)).await;
    assert!(since.elapsed() >= latency);
    assert!(since.elapsed() < latency * 10);
}

#[tokio::test]
async fn a_reset_of_all_ends_all_and_the_next_passes() {
    let (server, proxy) = both().await;
    let mut one = Raw::connect(proxy.addr()).await;
    let mut two = Raw::connect(proxy.addr()).await;
    one.ask("PING", "+PONG\r\n").await;
    two.ask("PING", "+PONG\r\n").await;
    proxy.reset_all().await;
    assert_eq!(proxy.connections(), 0);
    assert_eq!(one.end().await, Err(ErrorKind::ConnectionReset));
    assert_eq!(two.end().await, Err(ErrorKind::ConnectionReset));
    let gone = || async { server.client_count().await == 0 };
    eventually("the server hears of it", gone).await;
    Raw::connect(proxy.addr()).await.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn refused_connections_and_those_that_stay() {
    let (_server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("PING", "+PONG\r\n").await;
    proxy.refuse(true).await;
    let error = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    raw.ask("PING", "+PONG\r\n").await;
    proxy.refuse(false).await;
    Raw::connect(proxy.addr()).await.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_cut_in_the_middle_of_a_reply() {
    let (_server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    proxy.cut_after("+PONG\r\n+PO".len());
    raw.send("PING").await;
    raw.send("PING").await;
    assert_eq!(raw.end().await, Ok("+PONG\r\n+PO".to_owned()));
    Raw::connect(proxy.addr()).await.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_dead_server_is_a_reset_and_another_can_take_its_place() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("PING", "+PONG\r\n").await;
    server.kill();
    raw.end().await.ok();
    // The reset may come before the client knows that it is connected.
    let refused = match TcpStream::connect(proxy.addr()).await {
        Ok(stream) => Raw { stream }.end().await,
        Err(error) => Err(error.kind()),
    };
    assert_eq!(refused, Err(ErrorKind::ConnectionReset));
    let other = Server::redis().await;
    proxy.retarget(other.addr());
    Raw::connect(proxy.addr()).await.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn what_is_not_the_protocol_passes_as_it_is() {
    let echo = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = Proxy::start(echo.local_addr().unwrap()).await;
    let mut raw = Raw::connect(proxy.addr()).await;
    let (mut server, _) = echo.accept().await.unwrap();
    raw.stream.write_all(b"\x16\x03\x01 hello").await.unwrap();
    let mut bytes = [0; 9];
    server.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"\x16\x03\x01 hello");
    server.write_all(b"\x16 half a line").await.unwrap();
    raw.expect("\x16 half a line").await;
}

#[tokio::test]
async fn a_late_request_runs_when_the_test_says_although_its_client_has_gone() {
    let (server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.ask("INCR before", ":1\r\n").await;
    let mut late = proxy.deliver_late(Match::command("incr").and("victim"), 1);
    raw.send("INCR victim").await;
    raw.send("INCR behind").await;
    late.fired(1).await;
    raw.silent().await;
    drop(raw);
    // Others, and the same command on another connection, pass.
    let mut next = Raw::connect(proxy.addr()).await;
    next.ask("INCR victim", ":1\r\n").await;
    next.ask("GET behind", "$-1\r\n").await;
    assert_eq!(server.client_count().await, 2, "the old connection is open at the server");

    let delivered = late.deliver().await;
    assert_eq!(delivered, Delivered::Ran(b":2\r\n".to_vec()));
    assert_eq!((delivered.ran(), delivered.first_line()), (true, Some(":2".to_owned())));
    let behind = || async { server.exists("behind").await };
    eventually("what came behind it runs too", behind).await;
    let gone = || async { server.client_count().await == 1 };
    eventually("the connection of the client that has gone ends", gone).await;
    next.ask("INCR victim", ":3\r\n").await;
    assert_eq!(late.hits(), 1);
}

#[tokio::test]
async fn a_client_that_is_still_there_gets_the_late_replies_and_goes_on() {
    let (_server, proxy) = both().await;
    let mut raw = Raw::connect(proxy.addr()).await;
    let mut late = proxy.deliver_late("victim", 1);
    raw.send("INCR other").await;
    raw.send("INCR victim").await;
    raw.send("INCR other").await;
    raw.expect(":1\r\n").await;
    late.fired(1).await;
    raw.silent().await;
    assert_eq!(late.deliver().await.first_line().as_deref(), Some(":1"));
    raw.expect(":1\r\n:2\r\n").await;
    raw.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn a_late_request_on_a_connection_that_the_server_has_ended_is_refused() {
    let (server, proxy) = both().await;
    for client_goes in [true, false] {
        let mut raw = Raw::connect(proxy.addr()).await;
        let mut late = proxy.deliver_late("victim", 1);
        raw.send("INCR victim").await;
        late.fired(1).await;
        let stays = (!client_goes).then_some(raw);
        let killed: i64 = server.ask(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        assert_eq!(killed, 1);
        let delivered = late.deliver().await;
        assert_eq!((&delivered, delivered.first_line()), (&Delivered::Refused, None));
        assert!(!server.exists("victim").await);
        drop(stays);
    }
    let mut raw = Raw::connect(proxy.addr()).await;
    let mut late = proxy.deliver_late("victim", 1);
    raw.send("INCR victim").await;
    late.fired(1).await;
    proxy.reset_all().await;
    assert_eq!(late.deliver().await, Delivered::Refused);
    assert!(!server.exists("victim").await);
}

#[tokio::test]
async fn late_requests_are_delivered_one_by_one_and_in_order() {
    let (server, proxy) = both().await;
    let mut late = proxy.deliver_late(Match::command("APPEND"), 2);
    for letter in ["a", "b"] {
        let mut raw = Raw::connect(proxy.addr()).await;
        raw.send(&format!("APPEND k {letter}")).await;
        late.fired(if letter == "a" { 1 } else { 2 }).await;
    }
    Raw::connect(proxy.addr()).await.ask("APPEND k -", ":1\r\n").await;
    assert_eq!(late.deliver().await.first_line().as_deref(), Some(":2"));
    assert_eq!(server.ask::<String>(&["GET", "k"]).await, "-a");
    assert_eq!(late.deliver().await.first_line().as_deref(), Some(":3"));
    assert_eq!(server.ask::<String>(&["GET", "k"]).await, "-ab");
}

#[tokio::test]
async fn what_is_held_back_is_lost_with_the_rule() {
    let (server, proxy) = both().await;
    let late = proxy.deliver_late("victim", 1);
    let mut raw = Raw::connect(proxy.addr()).await;
    raw.send("INCR victim").await;
    late.fired(1).await;
    drop(late);
    raw.send("INCR victim").await;
    raw.silent().await;
    assert!(!server.exists("victim").await);
    drop(raw);
    let gone = || async { server.client_count().await == 0 };
    eventually("the connection ends with its client", gone).await;
}
