//! `distlock run` on a terminal, where the command shares our process group so that it can talk to the user.

#![cfg(target_os = "linux")]
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::terminal::Terminal;
use crate::support::{Bench, code, end, is_alive, is_skipped, pid_in, wait_until};
use rustix::process::Signal;

const CTRL_C: &str = "\u{3}";
const CTRL_BACKSLASH: &str = "\u{1c}";

/// Three that run beside the command. None goes when the terminal does: one ends when asked, one does not, and one has lost its
/// parent.
const FAMILY: &str = "trap '' HUP
    sh -c 'echo $$ > obedient; exec sleep 1000' &
    sh -c 'trap \"echo > asked\" TERM; echo $$ > stubborn; while :; do sleep 0.02; done' &
    (sh -c 'echo $$ > orphan; exec sleep 1000' &)
    ";

/// The command itself, which ends when asked, and says when it can be.
const OBEYS: &str = "trap 'exit 3' TERM; echo > ready; while :; do wait; done";

fn family(bench: &Bench) -> [u32; 3] {
    let family = ["obedient", "stubborn", "orphan"].map(|name| pid_in(&bench.await_file(name)));
    assert!(family.into_iter().all(is_alive));
    family
}

fn on_terminal(command: &Command) -> Terminal {
    Terminal::start(command, 24, 120)
}

#[test]
fn what_the_command_started_does_not_outlive_a_lost_lock() {
    for policy in ["stop", "kill"] {
        let bench = Bench::new();
        let script = format!("{FAMILY} trap 'exit 0' TERM; while :; do wait; done");
        let options = ["--watchdog", "12s", "--on-lost", policy];
        let mut terminal = on_terminal(&bench.run(&options, "x", &script));
        let family = family(&bench);
        assert_eq!(code(bench.distlock(["unlock", "--force", "x"])), 0);
        assert_eq!(terminal.end().code(), Some(70), "{policy}");
        wait_until("their death", || !family.into_iter().any(is_alive));
        assert_eq!(bench.path("asked").exists(), policy == "stop");
    }
}

#[test]
fn what_the_command_started_ends_with_it_when_it_is_told_to() {
    let bench = Bench::new();
    let script = format!("{FAMILY} {OBEYS}");
    let mut terminal = on_terminal(&bench.run(&[], "x", &script));
    let family = family(&bench);
    bench.await_file("ready");
    terminal.signal(Signal::TERM);
    bench.await_file("asked");
    assert_eq!(terminal.end().code(), Some(3));
    wait_until("their death", || !family.into_iter().any(is_alive));
    assert!(!bench.is_held("x"));
}

#[test]
fn what_the_command_leaves_when_it_ends_by_itself_stays() {
    let bench = Bench::new();
    let script = format!("{FAMILY} read line; exit 4");
    let mut terminal = on_terminal(&bench.run(&[], "x", &script));
    let family = family(&bench);
    terminal.press("go\r");
    assert_eq!(terminal.end().code(), Some(4));
    assert!(family.into_iter().all(is_alive));
    family.into_iter().for_each(end);
}

/// Whatever loses its parent is ours, and would keep its number for as long as the command runs.
#[test]
fn the_dead_are_buried_while_the_command_runs() {
    let bench = Bench::new();
    let script = "(sh -c 'echo $$ > orphan' &); read line; exit 4";
    let mut terminal = on_terminal(&bench.run(&[], "x", script));
    let orphan = bench.await_file("orphan");
    wait_until("its burial", || !Path::new("/proc").join(orphan.trim()).exists());
    terminal.press("go\r");
    assert_eq!(terminal.end().code(), Some(4));
}

/// A shell that becomes us leaves us its children, and those are in our process group, too.
#[test]
fn who_is_not_of_the_family_is_left_alone() {
    let bench = Bench::new();
    let run = bench.run(&[], "x", &format!("{FAMILY} {OBEYS}"));
    let mut shell = Command::new("sh");
    let script = "trap '' HUP; sleep 1000 & echo $! > neighbour; exec \"$@\"";
    shell.args(["-c", script, "sh"]).arg(run.get_program()).args(run.get_args());
    shell.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url());
    let mut terminal = on_terminal(&shell);
    let neighbour = pid_in(&bench.await_file("neighbour"));
    let family = family(&bench);
    bench.await_file("ready");
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.end().code(), Some(3));
    wait_until("their death", || !family.into_iter().any(is_alive));
    assert!(is_alive(neighbour));
    end(neighbour);
}

#[test]
fn keys_are_between_the_user_and_the_command() {
    if is_skipped(Signal::INT) || is_skipped(Signal::QUIT) {
        return;
    }
    let bench = Bench::new();
    // Not `read` while keys are pressed: a shell runs its trap after the system call, and a signal that comes right before the
    // call would wait for a line that never comes.
    let script = "ulimit -c 0; n=0; trap 'n=$((n+1)); echo $n > got' INT QUIT; echo > ready
        until test -e enough; do sleep 0.02; done; read line; exit $((40+n))";
    let mut terminal = on_terminal(&bench.run(&[], "x", script));
    bench.await_file("ready");
    // Each once, however often: a query that is cancelled, a list of threads.
    for (count, key) in [CTRL_C, CTRL_C, CTRL_BACKSLASH, CTRL_C].into_iter().enumerate() {
        terminal.press(key);
        let count = (count + 1).to_string();
        wait_until("the signal", || bench.await_file("got").trim() == count);
        assert!(terminal.child.try_wait().unwrap().is_none());
    }
    assert!(bench.is_held("x"));
    fs::write(bench.path("enough"), "").unwrap();
    terminal.press("go\r");
    assert_eq!(terminal.end().code(), Some(44));
    assert!(!bench.is_held("x"));
}

#[test]
fn a_key_that_ends_the_command_ends_what_it_started() {
    if is_skipped(Signal::INT) {
        return;
    }
    let bench = Bench::new();
    // What a shell starts in the background does not hear the keys.
    let script = format!("{FAMILY} while :; do sleep 0.02; done");
    let mut terminal = on_terminal(&bench.run(&[], "x", &script));
    let family = family(&bench);
    terminal.press(CTRL_C);
    assert_eq!(terminal.end().code(), Some(130));
    wait_until("their death", || !family.into_iter().any(is_alive));
    assert!(!bench.is_held("x"));
}

/// Started as `… | distlock run`, where only standard input is something else: who asks for a password opens the terminal itself.
#[test]
fn a_command_can_talk_to_the_user_although_its_input_comes_from_elsewhere() {
    let bench = Bench::new();
    let script = "exec 3< /dev/tty; echo > ready; read line <&3; test \"$line\" = go && exit 4";
    let plain = bench.run(&[], "x", script);
    let mut piped = Command::new("sh");
    piped.args(["-c", "\"$@\" < /dev/null", "sh"]).arg(plain.get_program()).args(plain.get_args());
    piped.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url());
    let mut terminal = on_terminal(&piped);
    bench.await_file("ready");
    terminal.press("go\r");
    assert_eq!(terminal.end().code(), Some(4));
    assert!(!bench.is_held("x"));
}

/// It comes when there is a lock and no command yet, or when there is one: nobody can tell, and it must not be lost.
#[test]
fn ctrl_c_just_when_the_command_starts_ends_it() {
    if is_skipped(Signal::INT) {
        return;
    }
    let bench = Bench::new();
    for _ in 0..10 {
        let mut terminal = on_terminal(&bench.run(&["--verbose"], "x", "exec sleep 1000"));
        terminal.await_text("acquired x");
        terminal.press(CTRL_C);
        assert_eq!(terminal.end().code(), Some(130));
    }
    assert!(!bench.is_held("x"));
}
