//! What users of flock(1) try: no `--`, and its options.

use std::fs;
use std::process::Stdio;

use crate::support::{Bench, code, output};

fn said(bench: &Bench, args: &[&str]) -> (Option<i32>, String) {
    let output = output(bench.distlock(args.iter().copied()));
    assert!(output.stdout.is_empty(), "{args:?}: {output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_command_without_the_separator_is_64_and_the_message_has_the_corrected_line() {
    let bench = Bench::new();
    let cases: [(&[&str], &str); 4] = [
        (&["run", "foo", "echo", "hi"], "distlock run foo -- echo hi"),
        (&["run", "foo", "ls", "-la"], "distlock run foo -- ls -la"),
        (
            &["run", "--wait", "5", "foo", "make", "-n", "3"],
            "distlock run --wait 5 foo -- make -n 3",
        ),
        (&["run", "-v", "foo", "grep", "a b"], "distlock run -v foo -- grep 'a b'"),
    ];
    for (args, corrected) in cases {
        let wanted = format!("distlock: put `--` before the command: {corrected}\n");
        assert_eq!(said(&bench, args), (Some(64), wanted), "{args:?}");
    }
    let (code, text) = said(&bench, &["run", "foo"]);
    assert_eq!(code, Some(64));
    assert!(text.contains("the command is missing: distlock run foo -- COMMAND"), "{text}");
    // The arguments may hold a password.
    let url = "redis://u:canary@127.0.0.1:1";
    let (code, text) = said(&bench, &["run", "--url", url, "foo", "true"]);
    assert_eq!(code, Some(64));
    assert!(text.contains("-- true") && !text.contains("canary"), "{text}");
}

#[test]
fn the_synopsis_has_the_separator() {
    let bench = Bench::new();
    for args in [&["run", "--help"][..], &["run", "-h"], &["help", "run"]] {
        let help = output(bench.distlock(args.iter().copied()));
        let help = String::from_utf8(help.stdout).unwrap();
        assert!(help.contains("Usage: distlock run [OPTIONS] <NAME>... -- <COMMAND>..."), "{help}");
    }
    let dir = bench.path("man");
    assert_eq!(code(bench.distlock(["man", "--dir", dir.to_str().unwrap()])), 0);
    let page = fs::read_to_string(dir.join("distlock-run.1")).unwrap().replace('\\', "");
    let synopsis = page.split(".SH").find(|part| part.contains("SYNOPSIS")).unwrap();
    assert!(synopsis.contains("-- <COMMAND>..."), "{synopsis}");
}

#[test]
fn the_first_help_has_three_examples() {
    let bench = Bench::new();
    let help = output(bench.distlock(["--help"]));
    let help = String::from_utf8(help.stdout).unwrap();
    let (_, examples) = help.split_once("Examples:\n").expect("examples");
    let examples = examples.split("\n\n").next().unwrap();
    assert_eq!(examples.matches("\n  distlock ").count() + 1, 3, "{examples}");
}

#[test]
fn a_string_is_run_by_the_shell() {
    let bench = Bench::new();
    for option in ["-c", "--command"] {
        let seen = output(bench.distlock(["run", "x", option, "echo $DISTLOCK_NAME; exit 4"]));
        assert_eq!(seen.status.code(), Some(4), "{seen:?}");
        assert_eq!(seen.stdout, b"x\n", "{seen:?}");
    }
    assert_eq!(code(bench.distlock(["run", "x", "-c", "true", "--", "true"])), 64);
}

#[test]
fn waiting_is_limited_or_refused_and_the_code_of_a_busy_lock_is_chosen() {
    let bench = Bench::new();
    let holder = bench.hold(&[], "x");
    let cases: [(&[&str], i32); 7] = [
        (&["-w", "0"], 75),
        (&["-w", "0.05"], 75),
        (&["--nonblock"], 75),
        (&["--nb"], 75),
        (&["--nb", "-E", "9"], 9),
        (&["-w", "0", "--conflict-exit-code", "0"], 0),
        (&["--nb", "--wait", "1"], 64),
    ];
    for (options, expected) in cases {
        let refused = output(bench.run(options, "x", "echo never"));
        assert_eq!(refused.status.code(), Some(expected), "{options:?}: {refused:?}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty(), "{options:?}");
    }
    assert_eq!(holder.leave(), Some(0));
    // The code is for a busy lock alone.
    assert_eq!(code(bench.run(&["-E", "9"], "x", "exit 3")), 3);
    assert_eq!(code(bench.run(&["-E", "300"], "x", "true")), 64);
}

#[test]
fn shared_is_the_read_half_of_a_read_write_lock() {
    let bench = Bench::new();
    let (one, two) = (bench.hold(&["-s"], "x"), bench.hold(&["--shared", "--kind", "rw"], "x"));
    let lock = bench.show("x");
    assert_eq!((&lock["kind"], &lock["holders"][1]["mode"]), (&"rw".into(), &"read".into()));
    assert_eq!(code(bench.run(&["--kind", "rw", "--nb"], "x", "true")), 75);
    assert_eq!((one.leave(), two.leave()), (Some(0), Some(0)));
    for options in [&["-s", "--kind", "fair"][..], &["-s", "--write"], &["-s", "--semaphore"]] {
        let mut run = bench.run(options, "x", "echo never");
        run.stdin(Stdio::null());
        let refused = output(run);
        assert_eq!(refused.status.code(), Some(64), "{options:?}: {refused:?}");
        assert!(refused.stdout.is_empty(), "{options:?}");
    }
}
