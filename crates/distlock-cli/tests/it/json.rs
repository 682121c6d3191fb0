//! `--json` is as `tests/schemas` says, in files and on a server.

use std::process::Stdio;

use crate::support::{Bench, KINDS, await_handlers, code, output, schema};
use distlock_testkit::{Flavor, Server};
use serde_json::{Value, json};

fn stores() -> (Server, [Bench; 2]) {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let redis = Bench::on(server.url());
    (server, [Bench::new(), redis])
}

#[test]
fn locks_held_and_free() {
    let (_server, stores) = stores();
    for bench in stores {
        schema::check("lock", &bench.show("x"));
        schema::check("ls", &bench.json(["ls"]));
        let holder = bench.hold(&[], "x");
        let lock = bench.show("x");
        schema::check("lock", &lock);
        assert_eq!(lock["held"], true);
        let list = bench.json(["ls"]);
        schema::check("ls", &list);
        assert_eq!(list.as_array().unwrap().len(), 1);
        let freed = bench.json(["unlock", "--force", "x"]);
        schema::check("unlock", &freed);
        assert_eq!(freed["former_holders"][0]["owner"], lock["holders"][0]["owner"]);
        assert_eq!(holder.leave(), Some(70));
        schema::check("unlock", &bench.json(["unlock", "--force", "x"]));
    }
}

#[test]
fn a_lock_that_was_freed_is_shown_as_it_is() {
    let (_server, stores) = stores();
    for bench in stores {
        let holder = bench.hold(&["--kind", "fair"], "x");
        let queue = || bench.show_as("fair", "x")["queue"].as_array().unwrap().len();
        let next = bench.run(&["--kind", "fair"], "x", "read line; exit 0");
        let next = crate::support::Holder({ next }.stdin(Stdio::piped()).spawn().unwrap());
        crate::support::wait_until("a caller waits", || queue() == 1);
        let freed = bench.json(["unlock", "--force", "--kind", "fair", "x"]);
        schema::check("unlock", &freed);
        // Whoever waited either still does or is inside.
        let waits = freed["queue"].as_array().unwrap().len() == 1;
        assert!(waits != freed["held"].as_bool().unwrap(), "{freed}");
        assert_eq!((holder.leave(), next.leave()), (Some(70), Some(0)));
    }
}

#[test]
fn every_kind_on_a_server() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    for (number, options) in KINDS.iter().enumerate() {
        let name = format!("k{number}");
        let kind = options[1];
        schema::check("lock", &bench.show_as(kind, &name));
        let holder = bench.hold(options, &name);
        let lock = bench.show_as(kind, &name);
        schema::check("lock", &lock);
        assert_eq!((&lock["kind"], &lock["held"]), (&json!(kind), &json!(true)), "{lock}");
        assert_eq!(lock.get("queue").is_some(), kind == "fair", "{lock}");
        assert_eq!(lock.get("available").is_some(), kind.contains("semaphore"), "{lock}");
        assert_eq!(lock["holders"][0].get("mode").is_some(), kind == "rw", "{lock}");
        assert_eq!(holder.leave(), Some(0));
    }
    schema::check("ls", &bench.json(["ls"]));
}

#[test]
fn latches() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let steps: [(&[&str], i64, Option<bool>); 6] = [
        (&["count", "go"], 0, None),
        (&["init", "go", "2"], 2, Some(true)),
        (&["init", "go", "5"], 2, Some(false)),
        (&["count", "go"], 2, None),
        (&["down", "go"], 1, None),
        (&["count", "go"], 1, None),
    ];
    for (args, count, set) in steps {
        let latch = bench.json(["latch"].iter().chain(args).copied());
        schema::check("latch", &latch);
        assert_eq!((&latch["count"], &latch["open"]), (&json!(count), &json!(count == 0)));
        assert_eq!(latch.get("set"), set.map(Value::from).as_ref(), "{args:?}");
    }
    schema::check("lock", &bench.show_as("latch", "go"));
    schema::check("unlock", &bench.json(["unlock", "--force", "--kind", "latch", "go"]));
    let said = output(bench.distlock(["latch", "count", "go"]));
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "go is open\n");
}

#[test]
fn verdicts_and_figures() {
    let (server, stores) = stores();
    for bench in stores {
        let report = output(bench.distlock(["doctor", "--json"]));
        schema::check("doctor", &serde_json::from_slice(&report.stdout).unwrap());
        schema::check("demo", &bench.json(["demo", "--tasks", "10", "--stock", "3"]));
        let report = bench.json(["bench", "--seconds", "900ms", "--tasks", "5"]);
        schema::check("bench", &report);
        assert_eq!((&report["tasks"], &report["clients"]), (&json!(5), &json!(4)), "{report}");
    }
    server.kill();
    let report = output(Bench::on(server.url()).distlock(["doctor", "--json"]));
    assert_eq!(report.status.code(), Some(69));
    schema::check("doctor", &serde_json::from_slice(&report.stdout).unwrap());
}

/// The checker must be able to say no.
#[test]
fn a_schema_refuses_what_it_does_not_say() {
    let good = json!({ "name": "x", "kind": "latch", "count": 0, "open": true });
    schema::check("latch", &good);
    let spoilt: [fn(&mut Value); 4] = [
        |v| v["count"] = json!("0"),
        |v| v["more"] = json!(1),
        |v| v["kind"] = json!("mutex"),
        |v| drop(v.as_object_mut().unwrap().remove("open")),
    ];
    for spoil in spoilt {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(std::panic::catch_unwind(|| schema::check("latch", &bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_trial_leaves_nothing_behind_even_if_it_is_interrupted() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    let keys = || format!("{:?}", server.try_cli_blocking(&["KEYS", "*"]).unwrap());
    let none = keys();
    let kinds = ["mutex", "fair", "rw", "spin", "simple", "multi", "semaphore", "leased_semaphore"];
    for kind in kinds {
        let report = bench.json(["bench", "--kind", kind, "--seconds", "600ms", "--tasks", "3"]);
        schema::check("bench", &report);
        assert_eq!(report["kind"], kind);
        // What a lock leaves for the retries of a lost reply goes by itself, soon.
        crate::support::wait_until("an empty server", || keys() == none);
    }
    let long: [&[&str]; 2] =
        [&["bench", "--seconds", "1h"], &["demo", "--tasks", "20000", "--stock", "20000"]];
    for (args, kind) in long.iter().flat_map(|args| kinds[6..].iter().map(move |kind| (args, kind)))
    {
        let mut run = bench.distlock(args.iter().copied().chain(["--kind", kind])).spawn().unwrap();
        await_handlers(&run);
        crate::support::wait_until("it is at work", || keys() != none);
        crate::support::kill(&run, rustix::process::Signal::TERM);
        assert_eq!(crate::support::await_exit(&mut run).code(), Some(143));
        crate::support::wait_until("an empty server", || keys() == none);
    }

    let text = output(bench.distlock(["bench", "--seconds", "90ms"]));
    let out = String::from_utf8(text.stdout).unwrap();
    assert!(out.contains("pairs/s") && out.contains("wake-up"), "{out}");
    assert!(text.stderr.is_empty(), "progress is for terminals");
    assert_eq!(code(bench.distlock(["bench", "--kind", "latch"])), 64);
    assert_eq!(code(bench.distlock(["bench", "--tasks", "0"])), 64);
}
