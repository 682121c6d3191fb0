//! What users are told about a lock: by `run --verbose`, and by holders about themselves.

use std::fs;
use std::process::Stdio;

use crate::support::{Bench, await_exit, code, output, wait_until};
use distlock_testkit::{Flavor, Proxy, Server};
use serde_json::Value;

/// A run whose standard error can be read while it runs.
fn verbose(bench: &Bench, options: &[&str], name: &str, script: &str) -> std::process::Child {
    let errors = fs::File::create(bench.path("errors")).unwrap();
    let options = [&["--verbose"], options].concat();
    let mut run = bench.run(&options, name, script);
    run.stdin(Stdio::piped()).stderr(Stdio::from(errors)).spawn().unwrap()
}

fn await_said(bench: &Bench, what: &str) -> String {
    let said = || fs::read_to_string(bench.path("errors")).unwrap();
    wait_until(what, || said().contains(what));
    said()
}

#[test]
fn a_run_tells_everything_if_asked_and_nothing_otherwise() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        let holder = bench.hold(&[], "x");
        let owner = bench.show("x")["holders"][0]["owner"].as_str().unwrap().to_owned();
        let mut run = verbose(&bench, &["--watchdog", "9s"], "x", "read line; exit 0");
        let said = await_said(&bench, "waiting for the lock x, held by ");
        assert!(said.contains(&owner), "{said}");
        assert_eq!(holder.leave(), Some(0));
        await_said(&bench, "acquired x after ");
        await_said(&bench, "renewed x");
        drop(run.stdin.take());
        assert_eq!(await_exit(&mut run).code(), Some(0));
        let said = await_said(&bench, "released x after ");
        assert!(said.lines().all(|line| line.starts_with("distlock: ")), "{said}");

        let quiet = output(bench.run(&[], "x", "true"));
        assert!(quiet.stderr.is_empty(), "{quiet:?}");
    }
}

#[test]
fn tokens_doubts_losses_and_giving_up_are_told() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let said = output(bench.run(&["-v", "--kind", "fenced"], "f", "printf $DISTLOCK_TOKEN"));
    let (token, told) = (said.stdout, String::from_utf8(said.stderr).unwrap());
    let token = String::from_utf8(token).unwrap();
    assert!(told.contains(&format!("the fencing token is {token}\n")), "{told}");

    let holder = bench.hold(&[], "x");
    let mut run = verbose(&bench, &["--wait", "300ms"], "x", "true");
    assert_eq!(await_exit(&mut run).code(), Some(75));
    await_said(&bench, "gave up on x after ");
    assert_eq!(holder.leave(), Some(0));

    let script = "echo > ready; while :; do sleep 0.02; done";
    let mut run = verbose(&bench, &["--watchdog", "6s"], "x", script);
    bench.await_file("ready");
    assert_eq!(code(bench.distlock(["unlock", "--force", "x"])), 0);
    await_said(&bench, "lost x");
    assert_eq!(await_exit(&mut run).code(), Some(70));

    let proxy = Proxy::start_blocking(server.addr());
    let bench = Bench::on(proxy.url());
    // The doubt comes after three seconds and the time that a reply may take, the end of the command after six.
    let mut run = verbose(&bench, &["--watchdog", "9s"], "y", script);
    bench.await_file("ready");
    proxy.blackhole(true);
    await_said(&bench, "in doubt about y");
    assert_eq!(await_exit(&mut run).code(), Some(70));
}

#[test]
fn a_run_says_who_it_is_but_not_its_arguments() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let args = ["run", "x", "--", "/bin/sh", "-c", "echo > ready; read line", "--password=canary"];
    let mut run = bench.distlock(args).stdin(Stdio::piped()).spawn().unwrap();
    bench.await_file("ready");
    let lock = bench.show("x");
    let info = &lock["holders"][0]["info"];
    assert_eq!((&info["service"], &info["label"]), (&"distlock run".into(), &"sh".into()));
    assert_eq!(info["pid"], run.id());
    assert!(info["acquired_at"].as_str().unwrap().ends_with('Z'), "{info}");
    assert!(info["waited_ms"].as_u64().is_some_and(|ms| ms < 20_000), "{info}");

    let host = info["host"].as_str().unwrap();
    let who = format!("distlock run on {host}, pid {}", run.id());
    let commands: [&[&str]; 5] = [
        &["show", "x"],
        &["ls"],
        &["run", "--wait", "0", "x", "--", "true"],
        &["watch", "--count", "1", "--interval", "50ms"],
        &["unlock", "--force", "x"],
    ];
    for args in commands {
        let said = output(bench.distlock(args.iter().copied()));
        let all = [said.stdout, said.stderr].concat();
        let all = String::from_utf8(all).unwrap();
        assert!(!all.contains("canary"), "{args:?}: {all}");
        let named = if args[0] == "watch" { "\"label\":\"sh\"" } else { who.as_str() };
        assert!(all.contains(named), "{args:?}: {all}");
    }
    let keys = format!("{:?}", server.try_cli_blocking(&["KEYS", "*"]).unwrap());
    assert!(!keys.contains("canary"), "{keys}");
    drop(run.stdin.take());
    assert_eq!(await_exit(&mut run).code(), Some(70));
}

/// Rules from before holders said who they are.
#[test]
fn a_run_that_may_not_say_who_it_is_is_told_what_it_lacks_and_can_do_without() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let rules = distlock::doctor::Acl::new("app:").kinds(&[distlock::store::Kind::Mutex]).rules();
    let bench = Bench::on(server.user_with("lk", &rules));
    let refused = output(bench.run(&["--wait", "0"], "app:k", "echo never"));
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.stdout.is_empty() && !refused.status.success(), "{said}");
    assert!(said.contains("holder_info") && said.contains("doctor --acl"), "{said}");
    assert_eq!(code(bench.run(&["--wait", "0", "--anonymous"], "app:k", "exit 5")), 5);
    let whole = Bench::on(server.url());
    let holder = bench.hold(&["--anonymous"], "app:k");
    assert_eq!(whole.show("app:k")["holders"][0]["info"], Value::Null);
    assert_eq!(holder.leave(), Some(0));
}

#[test]
fn who_waits_is_counted_and_how_long_holders_had_waited_is_sampled() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let holder = bench.hold(&[], "x");
    let mut waiter = bench
        .run(&[], "x", "echo > inside; read line; exit 0")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("somebody waits", || bench.show("x")["waiters"] == 1);
    let waited = || bench.show("x")["holders"][0]["info"]["waited_ms"].as_f64().unwrap();
    let before = waited();
    let mut watch = bench.distlock(["watch", "--interval", "50ms"]).spawn().unwrap();
    let mut lines = {
        use std::io::BufRead;
        std::io::BufReader::new(watch.stdout.take().unwrap()).lines()
    };
    let mut next = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let first = next();
    assert_eq!((&first["holds_seen"], &first["wait_ms"]["samples"]), (&1.into(), &1.into()));
    assert_eq!(first["locks"][0]["waiters"], 1, "{first}");
    assert_eq!(holder.leave(), Some(0));
    bench.await_file("inside");
    let second = std::iter::repeat_with(&mut next).find(|line| line["holds_seen"] == 2).unwrap();
    assert_eq!(second["wait_ms"]["samples"], 2, "{second}");
    assert_eq!(second["wait_ms"]["max"].as_f64(), Some(waited().max(before)), "{second}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    drop(waiter.stdin.take());
    assert_eq!(await_exit(&mut waiter).code(), Some(0));
}

#[test]
fn what_is_not_a_lock_is_65() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    server.try_cli_blocking(&["SET", "x", "somebody's"]).unwrap();
    assert_eq!(code(bench.run(&["--wait", "0"], "x", "echo never")), 65);
    assert_eq!(code(bench.distlock(["show", "x"])), 65);
}

#[test]
fn a_semaphore_in_short() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let two = ["--semaphore", "-n", "2"];
    let (one, other) = (bench.hold(&two, "pool"), bench.hold(&two, "pool"));
    let full = [&two[..], &["--wait", "0"]].concat();
    assert_eq!(code(bench.run(&full, "pool", "true")), 75);
    assert_eq!(bench.show_as("leased_semaphore", "pool")["available"], 0);
    assert_eq!(one.leave(), Some(0));
    assert_eq!(code(bench.run(&["--semaphore", "--wait", "0"], "pool", "exit 4")), 4);
    assert_eq!(other.leave(), Some(0));
    // Forgetting how many there are is not waiting for ever.
    assert_eq!(code(bench.run(&["--semaphore"], "nobody-said", "true")), 64);
}
