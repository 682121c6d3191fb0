//! Settings that protect less than they seem to: a warning, or a refusal.

use std::time::{Duration, Instant};

use crate::support::{Bench, output};
use distlock_testkit::{Flavor, Server};

/// The exit code of a run and what it said on standard error.
fn said(command: std::process::Command) -> (Option<i32>, String) {
    let output = output(command);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn memory_excludes_no_other_process() {
    let bench = Bench::new();
    for args in [&["run", "x", "--", "true"][..], &["show", "x"], &["unlock", "--force", "x"]] {
        let mut command = bench.distlock(args.iter().copied());
        command.env("DISTLOCK_URL", "memory:");
        let (code, text) = said(command);
        assert_eq!(code, Some(0), "{args:?}: {text}");
        assert!(
            text.contains("warning: ") && text.contains("no other process"),
            "{args:?}: {text}"
        );
    }
    let (_, text) = said(bench.run(&[], "x", "true"));
    assert_eq!(text, "", "files do");
}

#[test]
fn an_empty_url_is_not_the_default() {
    let bench = Bench::new();
    for args in [&["run", "x", "--", "true"][..], &["ls"], &["doctor"]] {
        let mut command = bench.distlock(args.iter().copied());
        command.env("DISTLOCK_URL", "").env("HOME", bench.path(""));
        let (code, text) = said(command);
        assert_eq!(code, Some(64), "{args:?}: {text}");
        assert!(text.contains("DISTLOCK_URL is set but empty"), "{args:?}: {text}");
    }
    assert!(!bench.path(".local").exists());
}

#[test]
fn the_scheme_alone_is_the_default_directory() {
    let bench = Bench::new();
    for url in ["file:", "file://"] {
        let mut command = bench.run(&["--url", url], "x", "true");
        command.env("XDG_STATE_HOME", bench.path("state"));
        assert_eq!(said(command), (Some(0), String::new()), "{url}");
        let dir = bench.path("state").join("distlock");
        assert!(dir.is_dir(), "{url}");
        std::fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn several_urls_without_redlock_are_64_and_the_message_says_which_kind_takes_them() {
    let bench = Bench::new();
    let (code, text) = said(bench.run(&["--url", "file:/a", "--url", "file:/b"], "x", "true"));
    assert_eq!(code, Some(64));
    assert!(text.contains("--kind redlock takes several stores"), "{text}");
    assert!(text.contains("--kind mutex takes one"), "{text}");
}

#[test]
fn another_number_of_permits_is_told() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        for kind in ["semaphore", "leased_semaphore"] {
            let holder = bench.hold(&["--kind", kind, "-n", "3"], kind);
            let (code, text) = said(bench.run(&["--kind", kind, "-n", "5"], kind, "exit 4"));
            assert_eq!(code, Some(4), "{text}");
            assert!(text.contains("has 3 permits") && text.contains("-n 5"), "{text}");
            assert!(text.contains("distlock permits"), "{text}");
            let (code, text) = said(bench.run(&["--kind", kind, "-n", "3"], kind, "exit 4"));
            assert_eq!((code, text.as_str()), (Some(4), ""));
            assert_eq!(holder.leave(), Some(0));
        }
    }
}

#[test]
fn a_latch_without_a_count_is_told() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        let (code, text) = said(bench.run(&["--kind", "latch"], "gate", "exit 4"));
        assert_eq!(code, Some(4), "{text}");
        assert!(text.contains("the latch gate has no count"), "{text}");
        bench.json(["latch", "init", "gate", "1"]);
        let (code, text) = said(bench.run(&["--kind", "latch", "--nb"], "gate", "true"));
        assert_eq!(code, Some(75));
        assert!(!text.contains("warning"), "{text}");
    }
}

#[test]
fn a_redlock_that_cannot_survive_a_loss_is_told_and_members_that_are_down_are_named() {
    let bench = Bench::new();
    let (code, text) = said(bench.run(&["--kind", "redlock"], "x", "exit 4"));
    assert_eq!(code, Some(4), "{text}");
    assert!(text.contains("--kind redlock on one store"), "{text}");

    let servers: Vec<Server> =
        (0..3).map(|_| Server::builder(Flavor::Redis).start_blocking()).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let bench = Bench::on(urls.join(" "));
    let (code, text) = said(bench.run(&["--kind", "redlock"], "x", "exit 4"));
    assert_eq!((code, text.as_str()), (Some(4), ""));
    servers[1].kill();
    let (code, text) = said(bench.run(&["--kind", "redlock"], "x", "exit 4"));
    assert_eq!(code, Some(4), "{text}");
    let named = |server: &Server| text.contains(&server.addr().to_string());
    assert!(text.contains("1 of 3 members") && named(&servers[1]), "{text}");
    assert!(!named(&servers[0]) && !named(&servers[2]), "{text}");

    // A server has one vote.
    let twice = Bench::on([&urls[0][..], &urls[2], &format!("{}/1", urls[0])].join(" "));
    let (code, text) = said(twice.run(&["--kind", "redlock"], "x", "true"));
    assert_eq!(code, Some(64), "{text}");
    assert!(text.contains("twice") && !text.contains('{'), "{text}");
}

#[test]
fn a_server_that_is_down_is_tried_for_as_long_as_the_lock_is_waited_for() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    server.kill();
    let began = Instant::now();
    let (code, text) = said(bench.run(&["--wait", "1s"], "x", "true"));
    assert_eq!(code, Some(69), "{text}");
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(text.contains(&server.addr().to_string()), "{text}");
    for options in [&["--nb"][..], &[]] {
        assert_eq!(said(bench.run(options, "x", "true")).0, Some(69), "{options:?}");
    }
    // It comes back in time.
    let waiting = bench.run(&["--wait", "60s", "-v"], "x", "exit 4").spawn().unwrap();
    let mut waiting = crate::support::Holder(waiting);
    let mut said = String::new();
    {
        use std::io::{BufRead, BufReader};
        let mut lines = BufReader::new(waiting.0.stderr.take().unwrap());
        while !said.contains("trying again") {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server.restart());
    assert_eq!(waiting.end(), Some(4));
}
