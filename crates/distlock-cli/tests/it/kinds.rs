//! Every kind of lock through the command, on real servers.

use std::process::{Command, Stdio};

use crate::support::{
    Bench, Holder, KINDS, await_exit, await_handlers, code, kill, output, wait_until,
};
use distlock_testkit::{Flavor, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A server and a directory that use it.
fn served() -> (Server, Bench) {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    (server, bench)
}

fn stderr(command: Command) -> (Option<i32>, String) {
    let output = output(command);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn every_kind_of_one_holder_keeps_others_out_and_says_who_is_inside() {
    let (_server, bench) = served();
    let alone = KINDS.iter().filter(|options| !options.contains(&"--read"));
    for (number, &options) in alone.enumerate() {
        let name = format!("lock{number}");
        let holder = bench.hold(options, &name);
        let seen = bench.show_as(options[1], &name);
        assert_eq!((&seen["kind"], &seen["held"]), (&json!(options[1]), &json!(true)), "{seen}");
        let owner = seen["holders"][0]["owner"].as_str().unwrap();

        let busy = [options, &["--wait", "50ms"][..]].concat();
        let (code_of_second, said) = stderr(bench.run(&busy, &name, "echo never"));
        assert_eq!(code_of_second, Some(75), "{options:?}: {said}");
        assert!(said.contains(owner), "{options:?}: {said}");

        let patient = [options, &["--wait", "15s"][..]].concat();
        let mut next = bench.run(&patient, &name, "exit 7").spawn().unwrap();
        await_handlers(&next);
        assert_eq!(holder.leave(), Some(0), "{options:?}");
        assert_eq!(await_exit(&mut next).code(), Some(7), "{options:?}");
        assert_eq!(bench.show_as(options[1], &name)["held"], json!(false), "{options:?}");
    }
}

#[test]
fn readers_share_and_writers_do_not() {
    let (_server, bench) = served();
    let (one, two) = (
        bench.hold(&["--kind", "rw", "--read"], "prices"),
        bench.hold(&["--kind", "rw", "--read"], "prices"),
    );
    assert_eq!(code(bench.run(&["--kind", "rw", "--wait", "0"], "prices", "true")), 75);
    let seen = bench.show_as("rw", "prices");
    assert_eq!(seen["holders"].as_array().unwrap().len(), 2, "{seen}");
    assert_eq!(seen["holders"][0]["mode"], json!("read"));
    // A list knows read-write locks by their looks.
    let listed = &bench.json(["ls"])[0];
    assert_eq!((&listed["kind"], &listed["holders"][1]["mode"]), (&json!("rw"), &json!("read")));
    let table = String::from_utf8(output(bench.distlock(["ls"])).stdout).unwrap();
    assert_eq!(table.matches("rw read").count(), 2, "{table}");
    assert_eq!((one.leave(), two.leave()), (Some(0), Some(0)));

    let writer = bench.hold(&["--kind", "rw", "--write"], "prices");
    assert_eq!(code(bench.run(&["--kind", "rw", "--read", "--wait", "0"], "prices", "true")), 75);
    assert_eq!(bench.show_as("rw", "prices")["holders"][0]["mode"], json!("write"));
    assert_eq!(writer.leave(), Some(0));
}

#[test]
fn each_run_of_a_fenced_lock_has_a_higher_token() {
    let (_server, bench) = served();
    let token = || {
        let seen = output(bench.run(&["--kind", "fenced"], "disk", "echo $DISTLOCK_TOKEN"));
        String::from_utf8(seen.stdout).unwrap().trim().parse::<u64>().expect("a number")
    };
    let tokens = [token(), token(), token()];
    assert!(tokens[0] > 0 && tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[test]
fn those_who_wait_for_a_fair_lock_are_served_in_order() {
    let (_server, bench) = served();
    let holder = bench.hold(&["--kind", "fair"], "desk");
    let mut line = Vec::new();
    for number in 1..=4 {
        let script = format!("echo {number} >> served");
        line.push(bench.run(&["--kind", "fair"], "desk", &script).spawn().unwrap());
        // Each has its place before the next one comes.
        wait_until("a place in the queue", || {
            bench.show_as("fair", "desk")["queue"].as_array().unwrap().len() == number
        });
    }
    assert_eq!(holder.leave(), Some(0));
    for waiter in &mut line {
        assert_eq!(await_exit(waiter).code(), Some(0));
    }
    assert_eq!(bench.await_file("served"), "1\n2\n3\n4\n");
}

#[test]
fn a_simple_lock_is_the_one_that_programs_set_by_hand() {
    let (server, bench) = served();
    let set = ["SET", "by-hand", "somebody", "NX", "PX", "60000"];
    server.try_cli_blocking(&set).unwrap();
    let (code_of_run, said) =
        stderr(bench.run(&["--kind", "simple", "--wait", "0"], "by-hand", "true"));
    assert_eq!(code_of_run, Some(75));
    assert!(said.contains("somebody"), "{said}");

    // What stands there may be anything, and must not command a terminal.
    server.try_cli_blocking(&["SET", "evil", "x\n\u{1b}[2J\u{9b}31m", "PX", "60000"]).unwrap();
    let looks: [&[&str]; 3] = [
        &["run", "--kind", "simple", "--wait", "0", "evil", "--", "true"],
        &["show", "--kind", "simple", "evil"],
        &["unlock", "--force", "--kind", "simple", "evil"],
    ];
    for args in looks {
        let said = output(bench.distlock(args.iter().copied()));
        let said = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert!(said.contains("x\\n\\u{1b}[2J\\u{9b}31m"), "{args:?}: {said:?}");
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{args:?}: {said:?}");
    }

    let holder = bench.hold(&["--kind", "simple"], "ours");
    let refused = server.try_cli_blocking(&["SET", "ours", "me", "NX", "PX", "60000"]).unwrap();
    assert_eq!(format!("{refused:?}"), "nil");
    assert_eq!(holder.leave(), Some(0));
}

#[test]
fn a_semaphore_lets_so_many_in() {
    let (_server, bench) = served();
    for kind in ["semaphore", "leased_semaphore"] {
        assert_eq!(bench.show_as(kind, kind)["available"], Value::Null);
        let options = ["--kind", kind, "--permits", "2"];
        let holders: Vec<Holder> = (0..2).map(|_| bench.hold(&options, kind)).collect();
        let seen = bench.show_as(kind, kind);
        assert_eq!(seen["available"], json!(0), "{seen}");
        assert_eq!(seen["holders"].as_array().unwrap().len(), 2, "{seen}");
        // How many there are has been said.
        let late = ["--kind", kind, "--permits", "9", "--wait", "0"];
        assert_eq!(code(bench.run(&late, kind, "true")), 75);
        for holder in holders {
            assert_eq!(holder.leave(), Some(0));
        }
        assert_eq!(bench.show_as(kind, kind)["available"], json!(2));
        assert_eq!(code(bench.run(&["--kind", kind, "--wait", "0"], kind, "true")), 0);
    }
}

#[test]
fn the_permit_of_a_killed_run_comes_back_by_itself_or_by_force() {
    let (_server, bench) = served();
    for kind in ["semaphore", "leased_semaphore"] {
        // A permit without a lease cannot be lost; the other one must not be before the run is killed.
        let watchdog = if kind == "semaphore" { "1s" } else { "9s" };
        let options = ["--kind", kind, "--permits", "1", "--watchdog", watchdog];
        let holder = bench.hold(&options, kind);
        kill(&holder.0, Signal::KILL);
        assert_eq!(holder.end(), None);
        if kind == "semaphore" {
            assert_eq!(code(bench.run(&["--kind", kind, "--wait", "2s"], kind, "true")), 75);
            let freed = bench.json(["unlock", "--force", "--kind", kind, kind]);
            assert_eq!((&freed["freed"], &freed["available"]), (&json!(true), &json!(1)));
            assert_eq!(freed["former_holders"].as_array().unwrap().len(), 1);
        }
        assert_eq!(code(bench.run(&["--kind", kind, "--wait", "15s"], kind, "true")), 0);
    }
}

#[test]
fn a_latch_starts_commands_when_it_has_been_counted_down() {
    let (_server, bench) = served();
    let go = ["--kind", "latch"];
    // One that nobody has set is open.
    assert_eq!(code(bench.run(&go, "go", "exit 3")), 3);
    let set = bench.json(["latch", "init", "go", "2"]);
    assert_eq!(
        set,
        json!({ "name": "go", "kind": "latch", "count": 2, "open": false, "set": true })
    );
    assert_eq!(bench.json(["latch", "init", "go", "5"])["set"], json!(false));
    let (code_of_run, said) = stderr(bench.run(&["--kind", "latch", "--wait", "0"], "go", "true"));
    assert_eq!(code_of_run, Some(75), "{said}");

    let mut waiters: Vec<_> =
        (0..2).map(|_| bench.run(&go, "go", "exit 4").spawn().unwrap()).collect();
    waiters.iter().for_each(await_handlers);
    assert_eq!(bench.json(["latch", "down", "go"])["count"], json!(1));
    let seen = bench.show_as("latch", "go");
    assert_eq!((&seen["count"], &seen["open"]), (&json!(1), &json!(false)), "{seen}");
    assert!(waiters.iter_mut().all(|waiter| waiter.try_wait().unwrap().is_none()));
    let last = output(bench.distlock(["latch", "down", "go"]));
    assert_eq!(String::from_utf8(last.stdout).unwrap(), "go is open\n");
    for waiter in &mut waiters {
        assert_eq!(await_exit(waiter).code(), Some(4));
    }

    bench.json(["latch", "init", "stuck", "3"]);
    let mut waiter = bench.run(&go, "stuck", "exit 5").spawn().unwrap();
    await_handlers(&waiter);
    let freed = bench.json(["unlock", "--force", "--kind", "latch", "stuck"]);
    assert_eq!((&freed["freed"], &freed["open"]), (&json!(true), &json!(true)), "{freed}");
    assert_eq!(await_exit(&mut waiter).code(), Some(5));
}

#[test]
fn a_multi_lock_is_all_of_its_names_or_none() {
    let (_server, redis) = served();
    // Files have this kind too.
    for bench in [redis, Bench::new()] {
        let both = |extra: &[&str], script: &str| {
            let options = [&["run", "--kind", "multi"], extra, &["a", "b", "--"]].concat();
            bench.distlock(options.into_iter().chain(["sh", "-c", script]))
        };
        let names = output(both(&[], "printf %s \"$DISTLOCK_NAME\""));
        assert_eq!(String::from_utf8(names.stdout).unwrap(), "a\nb");

        let mut inside =
            both(&[], "echo > inside; read line; exit 0").stdin(Stdio::piped()).spawn().unwrap();
        bench.await_file("inside");
        assert!(bench.is_held("a") && bench.is_held("b"));
        assert_eq!(code(bench.run(&["--wait", "0"], "b", "true")), 75);
        drop(inside.stdin.take());
        assert_eq!(await_exit(&mut inside).code(), Some(0));

        let other = bench.hold(&[], "b");
        assert_eq!(code(both(&["--wait", "50ms"], "true")), 75);
        assert!(!bench.is_held("a"), "nobody waits with a part in hand");
        assert_eq!(other.leave(), Some(0));
        assert_eq!(code(both(&["--wait", "0"], "exit 6")), 6);
    }
}

#[test]
fn a_redlock_needs_a_majority() {
    let servers: Vec<Server> =
        (0..3).map(|_| Server::builder(Flavor::Redis).start_blocking()).collect();
    let urls: Vec<String> = servers.iter().map(Server::url).collect();
    let bench = Bench::on(urls.join(" "));
    let redlock = ["--kind", "redlock"];
    let holder = bench.hold(&redlock, "ledger");
    assert_eq!(bench.show_as("redlock", "ledger")["held"], json!(true));
    assert_eq!(code(bench.run(&["--kind", "redlock", "--wait", "0"], "ledger", "true")), 75);
    // By arguments it is the same lock.
    let mut by_arguments = bench.distlock(["show", "--json", "--kind", "redlock", "ledger"]);
    by_arguments.args(urls.iter().flat_map(|url| ["--url", url]));
    assert!(String::from_utf8(output(by_arguments).stdout).unwrap().contains("\"held\":true"));
    // On each server it is a mutex.
    for server in &servers {
        let alone = Bench::on(server.url());
        // A majority is enough to be inside, and to be out again.
        wait_until("it stands there", || alone.is_held("ledger"));
    }
    servers[0].kill();
    assert_eq!(holder.leave(), Some(0), "a minority does not matter");
    for server in &servers[1..] {
        let alone = Bench::on(server.url());
        wait_until("it is free there", || !alone.is_held("ledger"));
    }
    assert_eq!(code(bench.run(&["--kind", "redlock"], "ledger", "exit 8")), 8, "nor at the start");
    servers[1].kill();
    assert_eq!(code(bench.run(&["--kind", "redlock", "--wait", "500ms"], "ledger", "true")), 69);
    // As of a single store that is down: without a time to wait it is not waited for.
    for single_try in [&["--kind", "redlock"][..], &["--kind", "redlock", "--wait", "0"]] {
        let refused = output(bench.run(single_try, "ledger", "true"));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(69), "{said}");
        assert!(said.contains("2 of 3 members of the redlock cannot be reached"), "{said}");
    }
}

#[test]
fn a_lock_of_any_kind_taken_by_force_ends_the_command() {
    let (_server, bench) = served();
    // A permit without a lease cannot be lost.
    for options in KINDS.into_iter().filter(|options| options[1] != "semaphore") {
        let watched = [options, &["--watchdog", "9s"][..]].concat();
        let holder = bench.hold(&watched, "k");
        let owner = bench.show_as(options[1], "k")["holders"][0]["owner"].clone();
        let freed = bench.json(["unlock", "--force", "--kind", options[1], "k"]);
        assert_eq!(freed["freed"], json!(true), "{freed}");
        assert_eq!(freed["former_holders"][0]["owner"], owner, "{freed}");
        assert_eq!(freed["held"], json!(false), "{freed}");
        assert_eq!(holder.end(), Some(70), "{options:?}");
        let again = bench.json(["unlock", "--force", "--kind", options[1], "k"]);
        assert_eq!((&again["freed"], &again["former_holders"]), (&json!(false), &json!([])));
    }
}

#[test]
fn the_demonstration_comes_out_exact_with_every_kind_and_leaves_nothing() {
    let (server, bench) = served();
    let kinds =
        ["fair", "rw", "fenced", "spin", "simple", "multi", "semaphore", "leased_semaphore"];
    for kind in kinds {
        let report = bench.json(["demo", "--kind", kind, "--tasks", "24", "--stock", "8"]);
        assert_eq!((&report["kind"], &report["exact"]), (&json!(kind), &json!(true)), "{report}");
    }
    let mut redlock =
        bench.distlock(["demo", "--kind", "redlock", "--tasks", "24", "--stock", "8"]);
    redlock.args(["--url", "memory:1", "--url", "memory:2", "--url", "memory:3"]);
    assert_eq!(code(redlock), 0);
    // But for the counter of the fenced lock, which must not be lost. What is left for retries goes by itself, soon.
    let keys = || format!("{:?}", server.try_cli_blocking(&["KEYS", "*"]).unwrap());
    wait_until("one key", || keys().matches("distlock-demo").count() == 1);
    assert!(keys().contains("fenced"), "{}", keys());
}

#[test]
fn files_have_every_kind() {
    let bench = Bench::new();
    for (number, options) in KINDS.iter().enumerate() {
        let name = format!("lock{number}");
        assert_eq!(code(bench.run(options, &name, "exit 9")), 9, "{options:?}");
        assert_eq!(bench.show_as(options[1], &name)["held"], json!(false), "{options:?}");
    }
    assert_eq!(code(bench.distlock(["latch", "init", "gate", "1"])), 0);
    let shut = bench.run(&["--kind", "latch", "--wait", "50ms"], "gate", "exit 9");
    assert_eq!(code(shut), 75);
}

#[test]
fn options_that_do_not_fit_the_kind_are_64() {
    let bench = Bench::on("memory:".to_owned());
    let wrong: [&[&str]; 12] = [
        &["run", "a", "b", "--", "true"],
        &["run", "--read", "a", "--", "true"],
        &["run", "--kind", "rw", "--read", "--write", "a", "--", "true"],
        &["run", "--permits", "2", "a", "--", "true"],
        &["run", "--kind", "semaphore", "--permits", "0", "a", "--", "true"],
        &["run", "--kind", "semaphore", "--permits", "1", "--lease", "1s", "a", "--", "true"],
        &["run", "--kind", "semaphore", "a", "--", "true"],
        &["run", "--kind", "leased_semaphore", "a", "--", "true"],
        &["run", "--kind", "latch", "--lease", "1s", "a", "--", "true"],
        &["run", "--url", "memory:a", "--url", "memory:b", "a", "--", "true"],
        &["show", "--kind", "multi", "a"],
        &["demo", "--kind", "latch"],
    ];
    for args in wrong {
        let (code_of_it, said) = stderr(bench.distlock(args.iter().copied()));
        assert_eq!(code_of_it, Some(64), "{args:?}: {said}");
        assert!(!said.is_empty(), "{args:?}");
    }
}
