//! What the commands print, and the codes they end with.

use std::os::unix::fs::MetadataExt;

use crate::support::{Bench, await_exit, code, output};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_and_version_are_not_errors() {
    let bench = Bench::new();
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["help", "show"]] {
        let output = output(bench.distlock(args.iter().copied()));
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn wrong_usage_is_64_and_says_something() {
    let bench = Bench::new();
    let wrong: [&[&str]; 14] = [
        &[],
        &["frobnicate"],
        &["run"],
        &["run", "x"],
        &["run", "x", "--"],
        &["run", "", "--", "true"],
        &["run", "--wait", "soon", "x", "--", "true"],
        &["run", "--wait", "1h30", "x", "--", "true"],
        &["run", "--lease", "0", "x", "--", "true"],
        &["run", "--kind", "nope", "x", "--", "true"],
        &["run", "--url", "bogus:x", "x", "--", "true"],
        &["show"],
        &["unlock", "x"],
        &["demo", "--tasks", "0"],
    ];
    for args in wrong {
        let output = output(bench.distlock(args.iter().copied()));
        assert_eq!(output.status.code(), Some(64), "{args:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn unlock_without_force_says_what_it_would_do() {
    let bench = Bench::new();
    let output = output(bench.distlock(["unlock", "x"]));
    assert!(text(&output.stderr).contains("--force"), "{output:?}");
}

#[test]
fn the_exit_code_is_the_commands() {
    let bench = Bench::new();
    for (script, expected) in
        [("true", 0), ("exit 7", 7), ("exit 255", 255), ("kill -KILL $$", 137), ("kill $$", 143)]
    {
        assert_eq!(code(bench.run(&[], "x", script)), expected, "{script}");
        assert!(!bench.is_held("x"));
    }
}

#[test]
fn a_command_that_cannot_run_is_127_or_126_and_the_lock_is_free_again() {
    let bench = Bench::new();
    std::fs::write(bench.path("data"), "no program").unwrap();
    for (command, expected) in [("no-such-command-anywhere", 127), ("./data", 126), (".", 126)] {
        let output = output(bench.distlock(["run", "x", "--", command]));
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
        assert!(text(&output.stderr).contains(command), "{output:?}");
        assert!(!bench.is_held("x"));
    }
}

#[test]
fn the_command_has_our_input_and_output_and_knows_the_locks_name() {
    let bench = Bench::new();
    let mut command = bench.run(&[], "orders:42", "cat; echo $DISTLOCK_NAME $DISTLOCK_TOKEN");
    std::fs::write(bench.path("input"), "input\n").unwrap();
    command.stdin(std::fs::File::open(bench.path("input")).unwrap());
    // One that an outer `run` left there belongs to another lock.
    command.env("DISTLOCK_TOKEN", "17");
    assert_eq!(text(&output(command).stdout), "input\norders:42\n");
}

#[test]
fn the_command_starts_with_ordinary_signals() {
    let bench = Bench::new();
    let command = ["grep", "-E", "^Sig(Blk|Ign):", "/proc/self/status"];
    let mut plain = std::process::Command::new(command[0]);
    plain.args(&command[1..]);
    let expected = plain.output().unwrap();
    let seen = output(bench.distlock(["run", "x", "--"].into_iter().chain(command)));
    assert_eq!(text(&seen.stdout), text(&expected.stdout));
}

#[test]
fn a_busy_lock_is_75_and_the_message_says_who_has_it() {
    let bench = Bench::new();
    let mut holder = bench.run(&[], "x", "echo > ready; read line").stdin(piped()).spawn().unwrap();
    bench.await_file("ready");
    let owner = bench.show("x")["holders"][0]["owner"].as_str().unwrap().to_owned();
    for wait in ["0", "300ms"] {
        let output = output(bench.run(&["--wait", wait], "x", "echo never"));
        assert_eq!(output.status.code(), Some(75), "{output:?}");
        assert!(output.stdout.is_empty());
        assert!(text(&output.stderr).contains(&owner), "{output:?}");
    }
    drop(holder.stdin.take());
    await_exit(&mut holder);
    assert_eq!(code(bench.run(&["--wait", "0"], "x", "true")), 0);
}

fn piped() -> std::process::Stdio {
    std::process::Stdio::piped()
}

#[test]
fn an_unreachable_server_is_69_and_its_password_stays_ours() {
    let bench = Bench::new();
    // Nobody is given that port.
    let url = "redis://someone:canary@127.0.0.1:1".to_owned();
    for args in [&["run", "--wait", "500ms", "x", "--", "true"][..], &["show", "x"], &["ls"]] {
        let mut by_environment = bench.distlock(args.iter().copied());
        by_environment.env("DISTLOCK_URL", &url);
        let mut by_argument = bench.distlock([args[0], "--url", &url]);
        by_argument.args(&args[1..]);
        for command in [by_environment, by_argument] {
            let output = output(command);
            assert_eq!(output.status.code(), Some(69), "{output:?}");
            assert!(!text(&output.stderr).contains("canary"), "{output:?}");
        }
    }
    for url in
        [&url, "redis+unix:///x.sock?pass=canary", "redis+sentinel://h/m?sentinel_pass=canary"]
    {
        let misplaced = output(bench.distlock(["show", "x", url]));
        assert_eq!(misplaced.status.code(), Some(64));
        assert!(!text(&misplaced.stderr).contains("canary"), "{misplaced:?}");
        // Whoever lists processes sees it.
        let shown = output(bench.distlock(["ls", "--url", url]));
        assert!(text(&shown.stderr).contains("can read the password"), "{shown:?}");
        assert!(!text(&shown.stderr).contains("canary"), "{shown:?}");
    }
}

/// Not every store can tell how many wait.
fn without_waiters(mut lock: Value) -> Value {
    lock.as_object_mut().unwrap().remove("waiters");
    lock
}

#[test]
fn show_and_ls_tell_what_is_held_in_a_stable_form() {
    let bench = Bench::new();
    assert_eq!(
        without_waiters(bench.show("x")),
        json!({ "name": "x", "kind": "mutex", "held": false, "holders": [], "ttl_ms": null })
    );
    let free = output(bench.distlock(["show", "x"]));
    assert_eq!(free.status.code(), Some(0));
    assert!(text(&free.stdout).contains("free"));
    let none = output(bench.distlock(["ls", "--json"]));
    assert_eq!(text(&none.stdout), "[]\n");

    let name = "job:\u{1b}[31mred\n";
    let script = "echo > ready; read line";
    let mut holder = bench.run(&[], name, script).stdin(piped()).spawn().unwrap();
    bench.await_file("ready");

    let held = bench.show(name);
    assert_eq!((&held["name"], &held["held"]), (&json!(name), &json!(true)));
    assert_eq!(held["holders"][0]["depth"], json!(1));
    assert_eq!(held["holders"][0].as_object().unwrap().len(), 3);
    assert!((1..=30_000).contains(&held["ttl_ms"].as_u64().unwrap()), "{held}");

    for (prefix, count) in [("", 1), ("job:", 1), ("other", 0)] {
        let list = output(bench.distlock(["ls", "--json", prefix]));
        let list: Value = serde_json::from_slice(&list.stdout).unwrap();
        assert_eq!(list.as_array().unwrap().len(), count, "{prefix}");
        if count == 1 {
            assert_eq!(list[0]["holders"], held["holders"]);
        }
    }
    for args in [&["ls"][..], &["show", name]] {
        let human = text(&output(bench.distlock(args.iter().copied())).stdout);
        assert!(human.contains("job:\\u{1b}[31mred\\n"), "{human:?}");
        assert!(!human.contains('\u{1b}'), "neither the name's colours nor ours: {human:?}");
    }
    drop(holder.stdin.take());
    await_exit(&mut holder);
}

#[test]
fn a_prefix_makes_another_lock() {
    let bench = Bench::new();
    let script = "echo > ready; read line";
    let mut holder = bench.run(&["--prefix", "a:"], "x", script).stdin(piped()).spawn().unwrap();
    bench.await_file("ready");
    assert!(bench.is_held("a:x") && !bench.is_held("x"));
    assert_eq!(code(bench.run(&["--wait", "0", "--prefix", "a:"], "x", "true")), 75);
    assert_eq!(code(bench.run(&["--wait", "0"], "x", "true")), 0);
    drop(holder.stdin.take());
    await_exit(&mut holder);
}

#[test]
fn unlock_force_frees_and_tells_whom_it_was_taken_from() {
    let bench = Bench::new();
    let free = output(bench.distlock(["unlock", "--force", "--json", "x"]));
    let free: Value = serde_json::from_slice(&free.stdout).unwrap();
    assert_eq!(
        without_waiters(free),
        json!({ "name": "x", "kind": "mutex", "held": false, "holders": [], "ttl_ms": null,
                "freed": false, "former_holders": [] })
    );
    let mut holder = bench.run(&[], "x", "echo > ready; read line").stdin(piped()).spawn().unwrap();
    bench.await_file("ready");
    let holders = bench.show("x")["holders"].clone();
    let freed = output(bench.distlock(["unlock", "--force", "--json", "x"]));
    let freed: Value = serde_json::from_slice(&freed.stdout).unwrap();
    assert_eq!((&freed["freed"], &freed["former_holders"]), (&json!(true), &holders));
    assert!(!bench.is_held("x"));
    drop(holder.stdin.take());
    assert_eq!(
        await_exit(&mut holder).code(),
        Some(70),
        "its command did not run alone to the end"
    );
}

#[test]
fn without_a_url_the_locks_are_in_the_state_directory() {
    let bench = Bench::new();
    let home = bench.path("home");
    std::fs::create_dir(&home).unwrap();
    let state = bench.path("state");
    for (variable, value, dir) in [
        ("HOME", &home, home.join(".local/state/distlock")),
        ("XDG_STATE_HOME", &state, state.join("distlock")),
    ] {
        let mut command = bench.run(&[], "x", "true");
        command.env_remove("DISTLOCK_URL").env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.env(variable, value);
        let quiet = output(command);
        assert_eq!(quiet.status.code(), Some(0), "{quiet:?}");
        assert!(quiet.stderr.is_empty(), "{quiet:?}");
        assert_eq!(std::fs::metadata(dir).unwrap().mode() & 0o777, 0o700);
    }
    // A directory in /tmp that somebody else could have made is not trusted.
    let tmp = bench.path("tmp");
    let uid = rustix::process::geteuid().as_raw();
    let run = || {
        let mut command = bench.run(&[], "x", "true");
        command.env_remove("DISTLOCK_URL").env_remove("XDG_STATE_HOME").env_remove("HOME");
        command.env("TMPDIR", &tmp);
        let output = output(command);
        (output.status.code(), text(&output.stderr))
    };
    std::fs::create_dir(&tmp).unwrap();
    let ours = tmp.join(format!("distlock-{uid}"));
    let (code_of_run, said) = run();
    assert_eq!(code_of_run, Some(0), "{said}");
    // Whoever has a home does not look there.
    assert!(said.contains(ours.to_str().unwrap()) && said.contains("DISTLOCK_URL"), "{said}");
    std::fs::rename(&ours, tmp.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(tmp.join("elsewhere"), &ours).unwrap();
    assert_eq!(run().0, Some(64));
}

#[test]
fn white_space_separates_urls_but_is_none_and_does_not_cut_a_path() {
    let bench = Bench::new();
    let home = bench.path("John Doe");
    std::fs::create_dir(&home).unwrap();
    for args in [&["doctor"][..], &["run", "--kind", "redlock", "x", "--", "true"]] {
        let mut command = bench.distlock(args.iter().copied());
        command.env_remove("DISTLOCK_URL").env_remove("XDG_STATE_HOME").env("HOME", &home);
        assert_eq!(code(command), 0, "{args:?}");
        assert!(home.join(".local/state/distlock").is_dir(), "{args:?}");
        assert!(!bench.path("John").exists(), "{args:?}");
        std::fs::remove_dir_all(home.join(".local")).unwrap();
    }
    for args in [&["run", "--kind", "redlock", "x", "--", "true"][..], &["doctor"], &["ls"]] {
        let mut command = bench.distlock(args.iter().copied());
        command.env("DISTLOCK_URL", " \n");
        let blank = output(command);
        assert_eq!(blank.status.code(), Some(64), "{args:?}: {blank:?}");
        assert!(text(&blank.stderr).contains("DISTLOCK_URL"), "{args:?}: {blank:?}");
    }
}

#[test]
fn the_demonstration_comes_out_exact() {
    let bench = Bench::new();
    let url = bench.url();
    for store in ["memory:", &url] {
        let args = ["demo", "--json", "--tasks", "60", "--stock", "20", "--url", store];
        let output = output(bench.distlock(args));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(report["exact"], json!(true));
        assert_eq!(
            (&report["with_lock"]["sold"], &report["with_lock"]["duplicates"]),
            (&json!(20), &json!(0))
        );
        assert!(report["without_lock"]["oversold"].as_u64().unwrap() > 0, "{report}");
        assert!(report["with_lock"]["wait_ms"]["p99"].is_number());
    }
    let plain = output(bench.distlock(["demo", "--tasks", "20", "--stock", "5"]));
    assert_eq!(plain.status.code(), Some(0), "{plain:?}");
    assert!(text(&plain.stdout).contains("exactly once"), "{plain:?}");
}
