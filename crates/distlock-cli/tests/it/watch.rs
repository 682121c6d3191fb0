//! `distlock watch`, read from a real terminal and as lines.

use std::fs;
use std::io::{BufRead, BufReader, Write};

use crate::support::terminal::Terminal;
use crate::support::{Bench, await_exit, await_handlers, is_ignored, kill, schema, wait_until};
use distlock::{Guard, Locks};
use distlock_testkit::{Flavor, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

fn watch(bench: &Bench, args: &[&str]) -> Terminal {
    let often = ["watch", "--interval", "100ms"];
    Terminal::start(&bench.distlock(often.iter().chain(args).copied()), 24, 120)
}

#[test]
fn holders_waiters_and_what_is_left_of_the_lease_are_on_the_screen() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let holder = bench.hold(&["--kind", "fair"], "desk");
    let owner = bench.show_as("fair", "desk")["holders"][0]["owner"].as_str().unwrap().to_owned();
    let mut waiter = bench.run(&["--kind", "fair"], "desk", "exit 7").spawn().unwrap();
    crate::support::wait_until("a caller queues", || {
        bench.show_as("fair", "desk")["queue"].as_array().unwrap().len() == 1
    });

    let mut terminal = watch(&bench, &["--kind", "fair", "desk", "other"]);
    // The beginning of the owner, because the column may be too narrow for all of it.
    let screen = terminal.await_screen("a whole frame", |screen| {
        screen.contains("1 waiting") && screen.contains("q quits") && screen.contains("other ")
    });
    let line = screen.lines().find(|line| line.starts_with("desk ")).unwrap().to_owned();
    assert!(line.contains(" fair "), "{line}");
    assert!(line.contains("distlock run on ") || line.contains(&owner[..20]), "{line}");
    assert!(line.contains(" 1 ") && line.contains("██"), "{line}");
    let free = screen.lines().find(|line| line.starts_with("other ")).unwrap();
    assert!(free.contains("free") && !free.contains('█'), "{free}");
    assert!(screen.contains("1 held, 1 waiting, 1 holds seen"), "{screen}");
    assert!(screen.contains("sampled"), "{screen}");

    // What happens shows.
    assert_eq!(holder.leave(), Some(0));
    assert_eq!(await_exit(&mut waiter).code(), Some(7));
    terminal.await_text("0 held, 0 waiting");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn whatever_ends_it_gives_the_terminal_back() {
    let bench = Bench::new();
    let _guard = hold(&bench, "x");
    let ways: [(&str, Option<&str>, Option<Signal>, i32); 5] = [
        ("q", Some("q"), None, 0),
        ("Ctrl-C", Some("\u{3}"), None, 0),
        ("SIGTERM", None, Some(Signal::TERM), 143),
        ("SIGINT", None, Some(Signal::INT), 130),
        ("SIGHUP", None, Some(Signal::HUP), 129),
    ];
    for (what, keys, signal, code) in ways {
        if signal.is_some_and(is_ignored) {
            continue;
        }
        let mut terminal = watch(&bench, &[]);
        terminal.await_text("1 held");
        assert!(terminal.is_raw() && !terminal.is_as_before(), "{what}");
        match (keys, signal) {
            (Some(keys), _) => terminal.press(keys),
            (_, Some(signal)) => terminal.signal(signal),
            _ => unreachable!(),
        }
        assert_eq!(terminal.end().code(), Some(code), "{what}");
        crate::support::wait_until(what, || terminal.is_as_before());
    }
    // At once, however long it is until it looks again.
    for keys in ["q", "\u{3}"] {
        let mut terminal = Terminal::start(&bench.distlock(["watch", "--interval", "1h"]), 24, 120);
        terminal.await_text("1 held");
        terminal.press(keys);
        assert_eq!(terminal.end().code(), Some(0), "{keys:?}");
    }
    // Also when it ends by itself.
    let mut terminal = watch(&bench, &["--count", "3"]);
    assert_eq!(terminal.end().code(), Some(0));
    crate::support::wait_until("the end", || terminal.is_as_before());
    crate::support::wait_until("it drew", || {
        String::from_utf8_lossy(&terminal.bytes()).contains("\u{1b}[?1049h")
    });
}

fn hold(bench: &Bench, name: &str) -> (Locks, Guard) {
    let locks = Locks::connect_blocking(&bench.url()).unwrap();
    let guard = locks.mutex(name).lock().blocking().unwrap();
    (locks, guard)
}

#[test]
fn it_fits_the_terminal_and_what_does_not_fit_scrolls() {
    let bench = Bench::new();
    let locks = Locks::connect_blocking(&bench.url()).unwrap();
    let name = |n: usize| format!("lock{n:02}");
    let _guards: Vec<Guard> =
        (0..40).map(|n| locks.mutex(name(n)).lock().blocking().unwrap()).collect();
    let mut terminal = watch(&bench, &["lock"]);
    let screen = terminal.await_text("0 lines above, 21 below");
    // 24 lines: three on top, a heading, one below.
    assert!(screen.contains("lock18") && !screen.contains("lock19"), "{screen}");
    assert!(terminal.lines()[23].contains("0 lines above, 21 below"), "{screen}");
    terminal.press("\u{1b}[B\u{1b}[B");
    terminal.await_screen("two down", |s| !s.contains("lock01") && s.contains("lock20"));
    terminal.press("G");
    terminal.await_screen("the end", |s| s.contains("lock39") && s.contains(" 0 below"));
    terminal.press("j");
    terminal.press("g");
    terminal.await_screen("the top", |s| s.contains("lock00") && s.contains("0 lines above"));

    for (rows, cols) in [(12, 60), (50, 100), (24, 120)] {
        terminal.resize(rows, cols);
        terminal.await_screen(&format!("{rows}x{cols}"), |s| {
            let fits = 40.min(usize::from(rows) - 5);
            s.lines().filter(|line| line.starts_with("lock")).count() == fits
                && terminal.lines()[usize::from(rows) - 1].starts_with("q quits")
        });
    }
    // Nothing to see in so little room, but nothing breaks.
    terminal.resize(1, 1);
    terminal.resize(24, 120);
    terminal.await_screen("large again", |s| s.contains("lock00") && s.contains("lock18"));
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn names_cannot_command_the_terminal_and_colours_can_be_had_off() {
    let bench = Bench::new();
    let _guard = hold(&bench, "job:\u{1b}[2J\u{1b}]0;title\u{7}\r\nfake  mutex");
    let mut terminal = watch(&bench, &[]);
    terminal.await_text("job:\\u{1b}[2J");
    terminal.press("q");
    terminal.end();
    let bytes = || String::from_utf8_lossy(&terminal.bytes()).into_owned();
    crate::support::wait_until("colours", || {
        bytes().contains("\u{1b}[38;5;") || bytes().contains("\u{1b}[32m")
    });
    assert!(!bytes().contains("\u{1b}]0;"), "{:?}", bytes());

    let mut plain = bench.distlock(["watch", "--interval", "100ms"]);
    plain.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(&plain, 24, 120);
    terminal.await_text("1 held");
    terminal.press("q");
    terminal.end();
    let bytes = String::from_utf8_lossy(&terminal.bytes()).into_owned();
    for colour in ["\u{1b}[38;", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"] {
        assert!(!bytes.contains(colour), "{bytes:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_away_is_said_to_be_and_comes_back() {
    let server = Server::builder(Flavor::Redis).start().await;
    let bench = Bench::on(server.url());
    let holder = bench.hold(&[], "x");
    let mut terminal = watch(&bench, &[]);
    terminal.await_text("1 held");
    server.kill();
    terminal.await_screen("away, and the locks as they were", |screen| {
        screen.contains("STORE UNREACHABLE") && screen.lines().any(|line| line.starts_with("x "))
    });
    server.restart().await; // empty
    terminal.await_text("no lock is held");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
    assert_eq!(holder.end(), Some(70));

    // One that has never been there is no reason to give up either.
    server.kill();
    let mut terminal = watch(&bench, &[]);
    terminal.await_text("STORE UNREACHABLE, nothing seen yet");
    server.restart().await;
    terminal.await_text("no lock is held");
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
}

fn lines(bench: &Bench, args: &[&str]) -> Vec<Value> {
    let often = ["watch", "--interval", "50ms"];
    let output = crate::support::output(bench.distlock(often.iter().chain(args).copied()));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| schema::check("watch", line));
    lines
}

#[test]
fn programs_get_a_line_each_time() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        let holder = bench.hold(&[], "a:x");
        for args in [&["--count", "3"][..], &["--json", "--count", "3", "a:", "a"]] {
            let seen = lines(&bench, args);
            assert_eq!(seen.len(), 3);
            for line in &seen {
                assert_eq!(line["locks"].as_array().unwrap().len(), 1, "{line}");
                assert_eq!(line["locks"][0]["name"], "a:x");
                assert_eq!((&line["holds_seen"], &line["error"]), (&json!(1), &Value::Null));
            }
        }
        assert_eq!(lines(&bench, &["--count", "1", "b:"])[0]["locks"], json!([]));
        assert_eq!(holder.leave(), Some(0));
    }
    let bench = Bench::on(server.url());
    let holder = bench.hold(&["--semaphore", "-n", "2"], "pool");
    let seen = &lines(&bench, &["--count", "1", "--kind", "leased_semaphore", "pool"])[0];
    assert_eq!(seen["locks"][0]["available"], json!(1), "{seen}");
    assert_eq!(holder.leave(), Some(0));

    server.kill();
    let seen = &lines(&bench, &["--count", "1"])[0];
    assert!(seen["error"].is_string() && seen["locks"].is_null(), "{seen}");
}

#[test]
fn it_ends_with_its_reader_and_with_signals() {
    let bench = Bench::new();
    let mut run = bench.distlock(["watch", "--interval", "50ms"]).spawn().unwrap();
    let mut out = BufReader::new(run.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    schema::check("watch", &serde_json::from_str(&line).unwrap());
    drop(out);
    assert_eq!(await_exit(&mut run).code(), Some(0), "as `head` wants it");

    let mut run = bench.distlock(["watch", "--interval", "1h"]).spawn().unwrap();
    await_handlers(&run);
    kill(&run, Signal::TERM);
    assert_eq!(await_exit(&mut run).code(), Some(143));
}

#[test]
fn what_makes_no_sense_is_64() {
    let bench = Bench::new();
    let wrong: [&[&str]; 6] = [
        &["--kind", "fair"],
        &["--kind", "multi", "a"],
        &["--interval", "0"],
        &["--interval", "1ms"],
        &["--interval", "200000000000000000m"],
        &["--count", "0"],
    ];
    for args in wrong {
        let code = crate::support::code(bench.distlock(["watch"].iter().chain(args).copied()));
        assert_eq!(code, 64, "{args:?}");
    }
}

/// Somebody stopped reading, and did not go away.
#[test]
fn who_is_not_read_any_more_can_be_ended() {
    let bench = Bench::new();
    let (_reader, mut writer) = std::io::pipe().unwrap();
    // As much as fits into a pipe.
    writer.write_all(&[b'\n'; 65536]).unwrap();
    let mut watch = bench.distlock(["watch", "--json", "--interval", "50ms"]);
    let mut watch = watch.stdout(writer).spawn().unwrap();
    await_handlers(&watch);
    wait_until("it writes", || {
        let threads = fs::read_dir(format!("/proc/{}/task", watch.id())).unwrap().flatten();
        let mut waits = threads.map(|one| fs::read_to_string(one.path().join("wchan")));
        // Not everywhere does the system tell.
        waits.any(|what| what.is_ok_and(|what| what == "0" || what.contains("pipe_write")))
    });
    kill(&watch, Signal::TERM);
    assert_eq!(await_exit(&mut watch).code(), Some(143));
}
