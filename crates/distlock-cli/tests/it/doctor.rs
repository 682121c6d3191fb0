//! `distlock doctor`, by the real binary on real servers.

use std::process::Output;

use crate::support::{Bench, output};
use distlock_testkit::{Cluster, Flavor, Server};
use serde_json::Value;

/// In no output, whatever happens.
const CANARY: &str = "canary0word";

/// How it ended and what it said, which is never the password.
fn doctor(bench: &Bench, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        output(bench.distlock(["doctor"].iter().chain(args).copied()));
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(!out.contains(CANARY) && !err.contains(CANARY), "{out}{err}");
    (status.code().unwrap(), out, err)
}

fn json(bench: &Bench, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = doctor(bench, &[&["--json"], args].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}")))
}

/// [`json`] of servers that run: asked again if one did not answer within the doctor's 3 s, which a busy machine can cause.
fn reached(bench: &Bench, args: &[&str]) -> (i32, Value) {
    let mut seen = json(bench, args);
    crate::support::wait_until("the servers answer in time", || {
        if seen.1["reached"] == false {
            seen = json(bench, args);
        }
        seen.1["reached"] == true
    });
    seen
}

/// Warnings and faults: level and subject.
fn bad(report: &Value) -> Vec<(String, String)> {
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap().iter();
    for finding in findings.clone() {
        let mut keys: Vec<&String> = finding.as_object().unwrap().keys().collect();
        keys.sort();
        assert_eq!(keys, ["change", "level", "means", "place", "says", "subject"]);
    }
    let all = findings.map(|finding| (word(finding, "level"), word(finding, "subject")));
    all.filter(|(level, _)| level == "fault" || level == "warning").collect()
}

fn sound(flavor: Flavor) -> Server {
    Server::builder(flavor).keep_data().password(CANARY).start_blocking()
}

#[test]
fn a_sound_server_is_said_to_be_one() {
    for flavor in Flavor::ALL {
        let server = sound(flavor);
        let bench = Bench::on(server.url());
        let (code, report) = json(&bench, &[]);
        assert_eq!((code, bad(&report)), (0, vec![]), "{flavor:?}: {report}");
        assert_eq!((&report["reached"], &report["worst"]), (&true.into(), &"note".into()));
        let (code, out, err) = doctor(&bench, &[]);
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(
            out.contains("\n0 faults, 0 warnings, ") || out.contains("0 faults, 0 warnings, "),
            "{out}"
        );
        assert!(!out.contains('\u{1b}'), "colours are for terminals: {out}");
    }
}

#[test]
fn a_badly_configured_server_has_every_planted_fault_listed() {
    for flavor in Flavor::ALL {
        let server = Server::builder(flavor).password(CANARY).start_blocking();
        let port = server.port().to_string();
        let replica = Server::builder(flavor)
            .args(["--replicaof", "127.0.0.1", &port, "--masterauth", CANARY])
            .args(["--repl-diskless-sync-delay", "0"])
            .start_blocking();
        crate::support::wait_until("the replica follows", || {
            let info = server.try_cli_blocking(&["INFO", "replication"]).unwrap();
            format!("{info:?}").contains("state=online")
        });
        for (name, value) in [
            ("maxmemory", "100mb"),
            ("maxmemory-policy", "allkeys-lru"),
            ("timeout", "30"),
            ("client-output-buffer-limit", "pubsub 1000 500 60"),
        ] {
            server.try_cli_blocking(&["CONFIG", "SET", name, value]).unwrap();
        }
        let rules = ["+@all", "-hset", "~*", "&*"].map(str::to_owned);
        let bench = Bench::on(server.user_with("lk", &rules));
        let (code, report) = reached(&bench, &[]);
        let expected = [
            ("fault", "eviction"),
            ("fault", "acl"),
            ("warning", "min_replicas"),
            ("warning", "persistence"),
            ("warning", "pubsub_buffer"),
            ("warning", "idle_timeout"),
        ];
        let expected = expected.map(|(level, subject)| (level.to_owned(), subject.to_owned()));
        assert_eq!((code, bad(&report)), (1, expected.to_vec()), "{flavor:?}: {report}");
        let (code, out, _) = doctor(&bench, &[]);
        assert_eq!(code, 1);
        for line in ["FAULT    eviction ", "FAULT    acl ", "WARNING  persistence "] {
            assert!(out.contains(line), "{line}: {out}");
        }
        assert!(out.contains("lacks +hset"), "{out}");
        // Kinds that do without are fine.
        let (_, report) = reached(&bench, &["--kind", "simple", "--kind", "latch"]);
        assert!(!bad(&report).iter().any(|(_, subject)| subject == "acl"), "{report}");

        let (code, report) = reached(&Bench::on(replica.url()), &[]);
        let role = ("fault".to_owned(), "role".to_owned());
        assert!(code == 1 && bad(&report).contains(&role), "{report}");
    }
}

#[test]
fn who_is_not_let_in_is_told_so_and_who_meets_nobody_too() {
    let server = sound(Flavor::Redis);
    let addr = server.addr();
    for url in [format!("redis://{addr}"), format!("redis://:{CANARY}x@{addr}")] {
        let (code, report) = json(&Bench::on(url), &[]);
        let login = ("fault".to_owned(), "login".to_owned());
        assert_eq!((code, bad(&report)), (1, vec![login]));
    }
    // On the command line as well; what it says of that does not repeat it.
    let bench = Bench::new();
    let (code, _, err) = doctor(&bench, &["--url", &format!("redis://:{CANARY}x@{addr}")]);
    assert_eq!(code, 1);
    assert!(err.contains("DISTLOCK_URL"), "{err}");

    server.kill();
    let bench = Bench::on(server.url());
    let (code, report) = json(&bench, &[]);
    assert_eq!((code, &report["reached"]), (69, &false.into()), "{report}");
    for args in
        [&["--url", "redis://"][..], &["--kind", "nosuch"], &["--json", "--acl", "x"], &["x"]]
    {
        let (code, _, err) = doctor(&bench, args);
        assert_eq!(code, 64, "{args:?}: {err}");
    }
}

#[test]
fn the_rules_it_prints_are_enough_and_are_accepted() {
    for flavor in Flavor::ALL {
        let server = sound(flavor);
        let bench = Bench::on(server.url());
        let (code, line, _) = doctor(&bench, &["--acl", "app:", "--kind", "mutex"]);
        assert_eq!(code, 0);
        let line = line.trim_end().replace("USER ", "lk ").replace(">PASSWORD", ">pw");
        let line = line.replace("ACL SETlk", "ACL SETUSER");
        let words: Vec<&str> = line.split(' ').collect();
        server.try_cli_blocking(&words).unwrap_or_else(|e| panic!("{line}: {e}"));

        let user = Bench::on(format!("redis://lk:pw@{}", server.addr()));
        assert_eq!(crate::support::code(user.run(&[], "app:k", "true")), 0);
        assert_ne!(
            crate::support::code(user.run(&[], "other:k", "true")),
            0,
            "that is not its own"
        );
        let (code, report) = json(&user, &["--prefix", "app:", "--kind", "mutex"]);
        assert_eq!((code, bad(&report)), (0, vec![]), "{report}");
        let (code, report) = json(&user, &["--prefix", "app:"]);
        let acl = ("fault".to_owned(), "acl".to_owned());
        assert_eq!((code, bad(&report)), (1, vec![acl]), "{report}");
    }
}

#[test]
fn rules_follow_the_url() {
    let rules = |url: &str| doctor(&Bench::on(url.to_owned()), &["--acl", "a"]).1;
    assert!(rules("redis://h").contains(" +publish ") && !rules("redis://h").contains("+select"));
    assert!(rules("redis://h/3").contains(" +select "));
    let cluster = rules(&format!("redis+cluster://u:{CANARY}@h1,h2"));
    assert!(cluster.contains(" +spublish ") && cluster.contains(" +asking "), "{cluster}");
    assert!(!cluster.contains(" +publish "), "{cluster}");
    let classic = rules("redis+cluster://h1,h2?pubsub=classic");
    assert!(classic.contains(" +publish ") && !classic.contains("+spublish"), "{classic}");
    assert!(rules("redis+sentinel://h/mymaster").contains(" +role "));
    assert!(!rules("redis+sentinel://h/mymaster").contains(" +select "));
    assert!(rules("redis+sentinel://h/mymaster/2").contains(" +select "));
}

#[test]
fn every_server_of_a_cluster_and_every_store_is_looked_at() {
    let cluster = Cluster::builder(Flavor::Redis).replicas(1).patient().password(CANARY);
    let cluster = cluster.args(&["--appendonly", "yes"]).start_blocking();
    let (code, report) = json(&Bench::on(cluster.url("auto")), &[]);
    assert_eq!((code, bad(&report)), (0, vec![]), "{report}");
    let roles = report["findings"].as_array().unwrap().iter().filter(|f| f["subject"] == "role");
    assert_eq!(roles.count(), 6, "{report}");

    // Several for a majority, of which one is away.
    let (one, two) = (sound(Flavor::Redis), sound(Flavor::Valkey));
    two.kill();
    let bench = Bench::on(format!("{} {}", one.url(), two.url()));
    let (code, report) = json(&bench, &[]);
    let reachable = ("fault".to_owned(), "reachable".to_owned());
    assert_eq!((code, bad(&report)), (1, vec![reachable]), "{report}");

    let (code, report) = json(&Bench::new(), &[]);
    assert_eq!((code, bad(&report)), (0, vec![]), "{report}");
    assert_eq!(report["findings"][0]["subject"], "directory");
}
