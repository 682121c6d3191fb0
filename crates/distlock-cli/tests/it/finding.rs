//! The kind of a lock is read from the store, and a wrong one is answered with the right one.

use crate::support::{Bench, KINDS, output};
use distlock_testkit::{Flavor, Server};
use serde_json::json;

fn stores() -> (Server, [Bench; 2]) {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let redis = Bench::on(server.url());
    (server, [Bench::new(), redis])
}

/// The kind that a held lock of this kind is shown as.
fn shown_as(kind: &str) -> &str {
    match kind {
        "fair" | "fenced" | "spin" => "mutex",
        kind => kind,
    }
}

#[test]
fn the_kind_of_a_held_lock_is_found() {
    let (_server, stores) = stores();
    for bench in stores {
        for (number, options) in KINDS.iter().enumerate() {
            let name = format!("k{number}");
            let holder = bench.hold(options, &name);
            let (found, named) = (bench.show(&name), bench.show_as(options[1], &name));
            assert_eq!(found["kind"], shown_as(options[1]), "{options:?}: {found}");
            assert_eq!(found["holders"], named["holders"], "{options:?}");
            assert_eq!(found.get("possible_kinds"), None, "{found}");
            assert_eq!(holder.leave(), Some(0));
        }
    }
}

#[test]
fn a_queue_makes_a_fair_lock() {
    let (_server, stores) = stores();
    for bench in stores {
        let holder = bench.hold(&["--kind", "fair"], "desk");
        let mut waiter = bench.run(&["--kind", "fair"], "desk", "exit 0").spawn().unwrap();
        crate::support::wait_until("it is shown as fair", || bench.show("desk")["kind"] == "fair");
        assert_eq!(bench.show("desk")["queue"].as_array().unwrap().len(), 1);
        assert_eq!(holder.leave(), Some(0));
        assert_eq!(crate::support::await_exit(&mut waiter).code(), Some(0));
    }
}

/// A number on a server can be three kinds; files store which.
#[test]
fn a_number_tells_its_kind_in_files_and_what_it_can_be_on_a_server() {
    let (_server, [files, redis]) = stores();
    for bench in [&files, &redis] {
        bench.json(["latch", "init", "gate", "2"]);
        bench.json(["permits", "--kind", "semaphore", "--set", "2", "plain"]);
        bench.json(["permits", "--set", "2", "leased"]);
    }
    for (name, kind) in [("gate", "latch"), ("plain", "semaphore"), ("leased", "leased_semaphore")]
    {
        let seen = files.show(name);
        assert_eq!((&seen["kind"], seen.get("possible_kinds")), (&json!(kind), None), "{seen}");
        let seen = redis.show(name);
        crate::support::schema::check("lock", &seen);
        assert_eq!(seen["possible_kinds"], json!(["semaphore", "leased_semaphore", "latch"]));
        assert_eq!(redis.show_as(kind, name)["kind"], kind);

        let text = output(redis.distlock(["show", name]));
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(
            text.contains("semaphore, leased_semaphore or latch") && text.contains("--kind"),
            "{text}"
        );
        // What is not known is not taken away.
        let refused = output(redis.distlock(["unlock", "--force", name]));
        assert_eq!(refused.status.code(), Some(64), "{refused:?}");
    }
    assert_eq!(redis.show_as("latch", "gate")["count"], json!(2));
}

/// No message advises to delete, has a script's hash in it, or speaks Rust.
fn is_plain(said: &str) {
    for word in ["delete", "remove", "WRONGTYPE", "script", "Locks {", "Error(", "ErrorKind"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_wrong_kind_is_65_and_the_message_names_the_right_one() {
    let (_server, stores) = stores();
    for bench in stores {
        let holders = [
            (bench.hold(&["--semaphore", "-n", "2"], "builds"), "builds", "leased_semaphore"),
            (bench.hold(&["--kind", "semaphore", "-n", "2"], "pool"), "pool", "semaphore"),
            (bench.hold(&["-s"], "book"), "book", "rw"),
            (bench.hold(&["--kind", "simple"], "hand"), "hand", "simple"),
            (bench.hold(&[], "x"), "x", "mutex"),
        ];
        for (_, name, kind) in &holders {
            for wrong in
                ["mutex", "fenced", "rw", "simple", "semaphore", "leased_semaphore", "latch"]
            {
                if wrong == *kind || *kind == "mutex" && wrong == "fenced" {
                    continue;
                }
                for args in [&["show"][..], &["unlock", "--force"]] {
                    let args = [args, &["--kind", wrong, name]].concat();
                    let said = output(bench.distlock(args.iter().copied()));
                    let text = String::from_utf8(said.stderr).unwrap();
                    assert_eq!(said.status.code(), Some(65), "{args:?}: {text}");
                    assert!(text.contains(&format!("use --kind {kind}\n")), "{args:?}: {text}");
                    is_plain(&text);
                }
            }
        }
        // A mutex of a name that holds another kind, as `run` asks for it.
        for (name, kind) in
            [("builds", "leased_semaphore"), ("hand", "simple"), ("pool", "semaphore")]
        {
            let said = output(bench.run(&["--nb"], name, "echo never"));
            let text = String::from_utf8(said.stderr).unwrap();
            assert_eq!(said.status.code(), Some(65), "{name}: {text}");
            assert!(
                said.stdout.is_empty() && text.contains(&format!("use --kind {kind}\n")),
                "{text}"
            );
            is_plain(&text);
        }
        // On a server both kinds of semaphore are a number, and one must not take the permits of the other.
        let said = output(bench.run(&["--kind", "semaphore", "-n", "2"], "builds", "echo never"));
        assert_eq!(said.status.code(), Some(65), "{said:?}");
        // Nor must a latch count them down.
        for act in ["down", "count"] {
            let said = output(bench.distlock(["latch", act, "builds"]));
            let text = String::from_utf8(said.stderr).unwrap();
            assert_eq!(said.status.code(), Some(65), "{text}");
            assert!(text.contains("builds is a leased_semaphore, not a latch"), "{text}");
        }
        assert_eq!(bench.show("builds")["available"], json!(1));
        for (holder, ..) in holders {
            assert_eq!(holder.leave(), Some(0));
        }
    }
}

#[test]
fn data_that_is_not_a_lock_is_65_and_stays() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.url());
    server.try_cli_blocking(&["SET", "data", "a text"]).unwrap();
    server.try_cli_blocking(&["HSET", "record", "name", "Ada"]).unwrap();
    server.try_cli_blocking(&["RPUSH", "list", "1"]).unwrap();
    for name in ["data", "record", "list"] {
        let calls: [&[&str]; 5] = [
            &["show", name],
            &["show", "--kind", "semaphore", name],
            &["unlock", "--force", name],
            &["run", "--nb", name, "--", "true"],
            &["run", "--semaphore", "-n", "2", "--nb", name, "--", "true"],
        ];
        for args in calls {
            let said = output(bench.distlock(args.iter().copied()));
            let text = String::from_utf8(said.stderr).unwrap();
            assert_eq!(said.status.code(), Some(65), "{args:?}: {text}");
            assert!(
                text.contains("data that is not a lock") && text.contains(name),
                "{args:?}: {text}"
            );
            is_plain(&text);
        }
    }
    let kept = server.try_cli_blocking(&["DBSIZE"]).unwrap();
    assert!(format!("{kept:?}").contains('3'), "{kept:?}");
}

#[test]
fn unlock_finds_the_kind() {
    let (_server, stores) = stores();
    for bench in stores {
        for (options, kind) in [
            (&["-s", "--watchdog", "9s"][..], "rw"),
            (&["--semaphore", "-n", "2", "--watchdog", "9s"], "leased_semaphore"),
        ] {
            let holder = bench.hold(options, kind);
            let freed = bench.json(["unlock", "--force", kind]);
            assert_eq!((&freed["kind"], &freed["freed"]), (&json!(kind), &json!(true)), "{freed}");
            assert_eq!(holder.end(), Some(70), "{kind}");
        }
    }
}

/// Permissions may cover some kinds only: the others are not looked at, and what may be seen is shown.
#[test]
fn a_user_with_permissions_for_one_kind_sees_that_kind() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let rules = distlock::doctor::Acl::new("app:").kinds(&[distlock::store::Kind::Mutex]);
    let bench = Bench::on(server.user_with("lk", &rules.holder_info().rules()));
    let holder = bench.hold(&[], "app:k");
    assert_eq!(bench.show("app:k")["held"], json!(true));
    assert_eq!(holder.leave(), Some(0));
    assert_eq!(bench.show("app:k")["held"], json!(false));
}
