//! What becomes of a command whose lock is lost.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::{Bench, await_exit, code, is_alive, output, pid_in, wait_until};
use distlock_testkit::{Flavor, Proxy, Server, Stopwatch};

/// Notes when it works, and when it is asked to end; does not end.
const BEATS: &str =
    "trap 'echo > asked' TERM; echo $$ > pid; while :; do date +%s%3N >> beats; sleep 0.01; done";

/// SIGKILL comes this long before the end of a lease.
const MARGIN: Duration = Duration::from_millis(100);

/// Until when the key lives, in milliseconds of the calendar; 0 if this owner does not have it.
fn expiry(server: &Server, name: &str, owner: &str) -> u64 {
    let script = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
        return redis.call('PEXPIRETIME', KEYS[1])";
    eval(server, &[script, "1", name, owner])
}

/// Until when the key would have lived. In one step, so that no renewal comes in between.
fn take_away(server: &Server, name: &str) -> u64 {
    let script = "local expiry = redis.call('PEXPIRETIME', KEYS[1])
        redis.call('DEL', KEYS[1]) return expiry";
    eval(server, &[script, "1", name])
}

fn eval(server: &Server, args: &[&str]) -> u64 {
    let seen = format!("{:?}", server.try_cli_blocking(&[&["EVAL"], args].concat()).unwrap());
    number(&seen.chars().filter(char::is_ascii_digit).collect::<String>())
}

/// When the command was last at work, in milliseconds of the calendar.
fn last_beat(bench: &Bench) -> u64 {
    let beats = fs::read_to_string(bench.path("beats")).unwrap();
    beats.lines().rfind(|line| line.len() > 12).unwrap().parse().unwrap()
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap()
}

/// In milliseconds of the calendar.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The server is there, but not for the holder: the worst case, since others get in as soon as the key is gone.
#[test]
fn a_holder_that_is_cut_off_stops_its_command_before_the_key_expires() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for policy in ["stop", "kill"] {
        assert!((0..3).any(|_| is_stopped_in_time(&server, policy)), "{policy}: never in time");
    }
}

/// False if it came too late on a machine that stood still meanwhile: that says nothing.
fn is_stopped_in_time(server: &Server, policy: &str) -> bool {
    let (proxy, clock) = (Proxy::start_blocking(server.addr()), Stopwatch::start());
    let (cut_off, bench) = (Bench::on(proxy.url()), Bench::on(server.url()));
    let name = format!("x-{policy}");
    let options = ["--watchdog", "9s", "--on-lost", policy];
    let mut run = cut_off.run(&options, &name, BEATS).spawn().unwrap();
    cut_off.await_file("beats");
    let owner = bench.show(&name)["holders"][0]["owner"].as_str().unwrap().to_owned();
    proxy.blackhole(true);
    let mut next = bench.run(&["--wait", "20s"], &name, "date +%s%3N > next").spawn().unwrap();
    // What was under way may still arrive: the latest expiry of this owner's key counts.
    let mut latest = 0;
    wait_until("the end of the command", || {
        latest = latest.max(expiry(server, &name, &owner));
        run.try_wait().unwrap().is_some()
    });
    assert_eq!(await_exit(&mut run).code(), Some(70), "{policy}");
    assert_eq!(await_exit(&mut next).code(), Some(0), "{policy}");
    assert!(!is_alive(pid_in(&cut_off.await_file("pid"))), "{policy}");
    let (last, next) = (last_beat(&cut_off), number(&bench.await_file("next")));
    let (in_time, stalled) = (last < latest.min(next), clock.stalled());
    let worked =
        format!("it worked until {last}, the key lived until {latest}, the next at {next}");
    assert!(in_time || stalled > MARGIN, "{policy}: {worked}");
    if in_time {
        assert_eq!(cut_off.path("asked").exists(), policy == "stop", "{policy}");
        println!("{policy}: stopped {} ms before the key expired", latest - last);
    }
    in_time
}

/// It wakes up when the key has expired, and lets the next one in at once.
#[test]
fn a_server_that_freezes_lets_nobody_in_beside_the_command() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let mut run = bench.run(&["--watchdog", "9s"], "x", BEATS).spawn().unwrap();
    bench.await_file("beats");
    let owner = bench.show("x")["holders"][0]["owner"].as_str().unwrap().to_owned();
    let mut next = bench.run(&["--wait", "30s"], "x", "date +%s%3N > next").spawn().unwrap();
    wait_until("somebody waits", || bench.show("x")["waiters"] == 1);
    // After a renewal, so that the next one does not come before the server freezes.
    let before = expiry(&server, "x", &owner);
    wait_until("a renewal", || expiry(&server, "x", &owner) > before);
    let expiry = expiry(&server, "x", &owner);
    server.stop();
    wait_until("the key expires", || now() > expiry);
    server.cont();
    assert_eq!(await_exit(&mut run).code(), Some(70));
    assert_eq!(await_exit(&mut next).code(), Some(0));
    assert!(last_beat(&bench) < number(&bench.await_file("next")), "two were inside");
    assert!(bench.path("asked").exists());
}

#[test]
fn a_deleted_lock_ends_the_command() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for policy in ["stop", "kill"] {
        let bench = Bench::on(server.url());
        let options = ["--watchdog", "12s", "--on-lost", policy];
        let mut run = bench.run(&options, "x", BEATS).spawn().unwrap();
        bench.await_file("beats");
        server.try_cli_blocking(&["DEL", "x"]).unwrap();
        assert_eq!(await_exit(&mut run).code(), Some(70), "{policy}");
        assert_eq!(bench.path("asked").exists(), policy == "stop", "{policy}");
    }
}

#[test]
fn a_lock_that_is_taken_away_leaves_the_grace_and_no_more() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for (policy, how) in [("stop", "was stopped"), ("kill", "was killed")] {
        let bench = Bench::on(server.url());
        let options = ["--watchdog", "18s", "--on-lost", policy];
        let mut run = bench.run(&options, "x", BEATS).spawn().unwrap();
        bench.await_file("beats");
        let expiry = take_away(&server, "x");
        assert_eq!(await_exit(&mut run).code(), Some(70), "{policy}");
        // It is noticed about twelve seconds before that, and the grace is five.
        let last = last_beat(&bench);
        assert!(last + 2_500 < expiry, "{policy}: it worked until {last}, the key until {expiry}");
        let said = String::from_utf8(run.wait_with_output().unwrap().stderr).unwrap();
        assert!(said.contains(how) && said.contains("the lock was lost"), "{policy}: {said}");
    }
}

#[test]
fn who_kills_waits_for_the_last_moment() {
    let bench = Bench::new();
    let script = format!("date +%s%3N > began; {BEATS}");
    let (before, clock) = (now(), Stopwatch::start());
    let run = output(bench.run(&["--lease", "9s", "--on-lost", "kill"], "x", &script));
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(70), "{said}");
    assert!(said.contains("was killed") && said.contains("its lease ended"), "{said}");
    let (began, last) = (number(&bench.await_file("began")), last_beat(&bench));
    // Who stops would begin at six.
    assert!(last > before + 6_500, "{} ms", last - before);
    let stalled = clock.stalled().as_millis() as u64;
    assert!(last < began + 9_000 + stalled, "{} ms", last - began);
    assert!(!bench.path("asked").exists());
}

#[test]
fn what_does_not_listen_goes_even_if_the_command_does() {
    let bench = Bench::new();
    let script = "sh -c 'trap \"\" TERM; echo $$ > inner; while :; do sleep 0.02; done' &
        trap 'exit 0' TERM; wait";
    let mut run = bench.run(&["--lease", "6s"], "x", script).spawn().unwrap();
    let inner = pid_in(&bench.await_file("inner"));
    assert_eq!(await_exit(&mut run).code(), Some(70));
    wait_until("its death", || !is_alive(inner));
}

#[test]
fn a_command_that_is_only_warned_about_runs_on_and_is_70_all_the_same() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for (bench, limit) in [
        (Bench::new(), ["--watchdog", "1s"]),
        (Bench::on(server.url()), ["--watchdog", "1s"]),
        (Bench::on(server.url()), ["--lease", "1s"]),
    ] {
        let script = "trap 'echo > asked' TERM; echo > ready; read line < go; echo > done; exit 3";
        assert!(Command::new("mkfifo").arg(bench.path("go")).status().unwrap().success());
        let errors = fs::File::create(bench.path("errors")).unwrap();
        let options = [&["--on-lost", "warn"], &limit[..]].concat();
        let mut run = bench.run(&options, "x", script);
        let mut run = run.stderr(Stdio::from(errors)).spawn().unwrap();
        bench.await_file("ready");
        if limit[0] == "--watchdog" {
            assert_eq!(code(bench.distlock(["unlock", "--force", "x"])), 0);
        }
        // It is told while it runs, loudly, and once.
        wait_until("a warning", || {
            let said = fs::read_to_string(bench.path("errors")).unwrap();
            said.contains("WARNING: the lock x is lost")
        });
        assert!(run.try_wait().unwrap().is_none(), "it runs on");
        assert_eq!(code(bench.run(&["--wait", "10s"], "x", "true")), 0, "others get in meanwhile");
        fs::write(bench.path("go"), "go\n").unwrap();
        assert_eq!(await_exit(&mut run).code(), Some(70), "{limit:?}");
        bench.await_file("done");
        assert!(!bench.path("asked").exists());
        let said = fs::read_to_string(bench.path("errors")).unwrap();
        assert_eq!(said.matches("WARNING").count(), 1, "{said}");
        assert!(said.contains("exit status: 3"), "{said}");
    }
}

#[test]
fn what_could_not_be_renewed_in_time_is_not_said_to_be_lost() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let proxy = Proxy::start_blocking(server.addr());
    let bench = Bench::on(proxy.url());
    let script = "trap 'exit 0' TERM; echo > ready; while :; do sleep 0.02; done";
    let mut run = bench.run(&["--watchdog", "15s"], "x", script).spawn().unwrap();
    bench.await_file("ready");
    proxy.blackhole(true);
    assert_eq!(await_exit(&mut run).code(), Some(70));
    let said = String::from_utf8(run.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("was stopped") && said.contains("could not be renewed"), "{said}");
}

#[test]
fn one_of_several_that_was_lost_counts_whatever_becomes_of_the_others() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let options = ["run", "--kind", "multi", "--on-lost", "warn", "--watchdog", "9s", "a", "b"];
    let script = ["--", "sh", "-c", "echo > ready; read line; exit 3"];
    let errors = fs::File::create(bench.path("errors")).unwrap();
    let mut run = bench.distlock(options.into_iter().chain(script));
    let mut run = run.stdin(Stdio::piped()).stderr(errors).spawn().unwrap();
    bench.await_file("ready");
    server.try_cli_blocking(&["DEL", "b"]).unwrap();
    let said = || fs::read_to_string(bench.path("errors")).unwrap();
    wait_until("a warning", || said().contains("WARNING"));
    server.kill();
    drop(run.stdin.take());
    assert_eq!(await_exit(&mut run).code(), Some(70), "{}", said());
    assert!(said().contains("exit status: 3"), "{}", said());
}

#[test]
fn a_policy_for_what_cannot_be_lost_is_64() {
    let bench = Bench::on("memory:".to_owned());
    let wrong: [&[&str]; 5] = [
        &["--kind", "latch", "--on-lost", "stop"],
        &["--kind", "semaphore", "-n", "1", "--on-lost", "kill"],
        &["--kind", "latch", "--watchdog", "1s"],
        &["--on-lost", "pray"],
        &["--semaphore", "--kind", "fair", "-n", "1"],
    ];
    for options in wrong {
        let output = output(bench.run(options, "x", "echo never"));
        assert_eq!(output.status.code(), Some(64), "{options:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{options:?}");
    }
}

#[test]
fn a_command_that_its_lease_stops_is_told_why_so_early() {
    let bench = Bench::new();
    let stopped = output(bench.run(&["--lease", "2s"], "x", "while :; do sleep 0.02; done"));
    assert_eq!(stopped.status.code(), Some(70), "{stopped:?}");
    let said = String::from_utf8(stopped.stderr).unwrap();
    for part in ["the lease of 2.0 s", "the last 666 ms", "SIGTERM", "dead before the lease ends"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
