//! Signals on their way through `distlock run`: which reach the command, and what they count for.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{
    Bench, Holder, await_caught, await_exit, end, is_alive, is_ignored, is_skipped, is_stopped,
    kill, output, pid_in, wait_until,
};
use distlock_testkit::Stopwatch;
use rustix::process::Signal;

/// Waits for signals without starting anything that they would kill.
const LISTEN: &str = "while :; do read line; done";

fn start(bench: &Bench, options: &[&str], script: &str) -> Child {
    bench.run(options, "x", script).stdin(Stdio::piped()).spawn().unwrap()
}

fn await_line(bench: &Bench, file: &str, line: &str) {
    wait_until(line, || bench.await_file(file).trim() == line);
}

#[test]
fn what_a_program_may_take_for_anything_is_no_request_to_end() {
    let bench = Bench::new();
    let mut script = "n=0; trap 'exit 3' TERM; ".to_owned();
    let signals = [
        ("QUIT", Signal::QUIT),
        ("HUP", Signal::HUP),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ];
    for (word, _) in signals {
        script += &format!("trap 'n=$((n+1)); echo {word} $n > got' {word}; ");
    }
    let mut run = start(&bench, &[], &format!("{script} echo > ready; {LISTEN}"));
    bench.await_file("ready");
    let mut count = 0;
    for (word, signal) in signals {
        if is_ignored(signal) {
            continue; // whoever started the tests wants it so
        }
        for _ in 0..2 {
            count += 1;
            kill(&run, signal);
            await_line(&bench, "got", &format!("{word} {count}"));
        }
    }
    // The first of all.
    kill(&run, Signal::TERM);
    assert_eq!(await_exit(&mut run).code(), Some(3));
    assert!(!bench.is_held("x"));
}

#[test]
fn another_request_to_end_is_passed_on_as_it_is() {
    if is_skipped(Signal::INT) {
        return;
    }
    let bench = Bench::new();
    // As databases do it: gently on the one, quickly on the other.
    let script = "trap 'echo > gently' TERM; trap 'exit 3' INT; echo > ready";
    let mut run = start(&bench, &[], &format!("{script}; {LISTEN}"));
    bench.await_file("ready");
    kill(&run, Signal::TERM);
    bench.await_file("gently");
    kill(&run, Signal::INT);
    assert_eq!(await_exit(&mut run).code(), Some(3));
}

/// GNU `timeout` signals the process, and then the group that it is in.
#[test]
fn a_request_that_comes_twice_at_once_is_one() {
    let bench = Bench::new();
    let script = format!("trap 'echo > got; read line; exit 3' TERM; echo > ready; {LISTEN}");
    let program = bench.run(&[], "x", &script);
    let mut timeout = Command::new("timeout");
    timeout.arg("100").arg(program.get_program()).args(program.get_args());
    timeout.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url());
    let mut timeout = timeout.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    bench.await_file("ready");
    kill(&timeout, Signal::TERM);
    bench.await_file("got");
    drop(timeout.stdin.take());
    assert_eq!(await_exit(&mut timeout).code(), Some(3), "it had the time to end in good order");
}

#[test]
fn who_waits_is_not_ended_by_what_is_for_the_command() {
    let bench = Bench::new();
    let holder = bench.hold(&[], "x");
    let waiter = Holder(bench.run(&[], "x", "echo > never").spawn().unwrap());
    await_caught(&waiter.0, &[Signal::USR1, Signal::USR2]);
    kill(&waiter.0, Signal::USR1);
    kill(&waiter.0, Signal::USR2);
    // It is there to hear this.
    kill(&waiter.0, Signal::TERM);
    assert_eq!(waiter.end(), Some(143));
    assert_eq!(holder.leave(), Some(0));
    assert!(!bench.path("never").exists());
}

#[test]
fn what_unexpected_signals_kill_is_the_command_alone() {
    let bench = Bench::new();
    let script = "trap 'echo > got' USR1
        sh -c 'echo $$ > inner; while :; do sleep 0.02; done' & while :; do wait; done";
    let mut run = start(&bench, &[], script);
    let inner = pid_in(&bench.await_file("inner"));
    kill(&run, Signal::USR1);
    bench.await_file("got");
    assert!(is_alive(inner));
    // It has no answer to this one, and what it leaves must not go on without the lock.
    kill(&run, Signal::USR2);
    assert_eq!(await_exit(&mut run).code(), Some(128 + Signal::USR2.as_raw()));
    wait_until("its death", || !is_alive(inner));
}

#[test]
fn a_stopped_command_wakes_up_to_what_it_is_told() {
    for (word, signal) in
        [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP), ("QUIT", Signal::QUIT)]
    {
        if is_ignored(signal) {
            continue;
        }
        let bench = Bench::new();
        let script = format!("trap 'exit 3' {word}; echo $$ > pid; kill -STOP $$; {LISTEN}");
        let mut run = start(&bench, &[], &script);
        let command = pid_in(&bench.await_file("pid"));
        wait_until("it is stopped", || is_stopped(command));
        kill(&run, signal);
        assert_eq!(await_exit(&mut run).code(), Some(3), "{word}");
    }
}

#[test]
fn a_stopped_command_can_end_in_good_order_before_its_lease_does() {
    let bench = Bench::new();
    let script = format!("trap 'echo > got; exit 0' TERM; echo $$ > pid; kill -STOP $$; {LISTEN}");
    let mut run = start(&bench, &["--lease", "12s"], &script);
    let command = pid_in(&bench.await_file("pid"));
    wait_until("it is stopped", || is_stopped(command));
    assert_eq!(await_exit(&mut run).code(), Some(70));
    assert!(bench.path("got").exists());
}

/// A daemon that does not care how its children end passes that on to what it starts.
#[test]
fn who_was_started_by_one_that_ignores_its_children_still_says_how_the_command_ended() {
    let bench = Bench::new();
    let script = "sh -c 'echo $$ > left; exec sleep 1000' & exit 3";
    let plain = bench.run(&[], "x", script);
    let mut careless = Command::new("env");
    careless.arg("--ignore-signal=CHLD").arg(plain.get_program()).args(plain.get_args());
    careless.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url());
    let mut run = careless.stdin(Stdio::null()).spawn().unwrap();
    let left = pid_in(&bench.await_file("left"));
    assert_eq!(await_exit(&mut run).code(), Some(3));
    assert!(is_alive(left), "what a command leaves when it ends by itself stays");
    end(left);
}

/// What was killed may be in the middle of a write; only its death makes room for the next one.
#[test]
fn the_lock_is_kept_until_what_was_killed_is_dead() {
    let bench = Bench::new();
    // One of the command's group that does not listen, and whose parent left the group and does not wait for it.
    let script =
        "sh -c 'sh -c \"trap : TERM; while :; do read line; done\" < still & echo $! > stubborn
        exec setsid sleep 1000' & echo $! > parent
        trap 'exit 3' TERM; echo $$ > pid; while :; do read line < still; done";
    assert!(Command::new("mkfifo").arg(bench.path("still")).status().unwrap().success());
    let _still = fs::File::options().read(true).write(true).open(bench.path("still")).unwrap();
    let clock = Stopwatch::start();
    let mut run = bench.run(&[], "x", script).spawn().unwrap();
    let files = ["stubborn", "parent", "pid"];
    let [stubborn, parent, _] = files.map(|file| pid_in(&bench.await_file(file)));
    let name = format!("/proc/{parent}/comm");
    wait_until("the parent has left", || fs::read_to_string(&name).unwrap() == "sleep\n");
    kill(&run, Signal::TERM);
    wait_until("it is dead", || !is_alive(stubborn));
    // It is not gone: nobody has waited for it. The next one comes when somebody does, or after a while.
    let next = output(bench.run(&["--wait", "1s"], "x", "true"));
    let stalled = clock.stalled() > Duration::from_secs(1);
    assert!(next.status.code() == Some(75) || stalled, "{next:?}");
    end(parent);
    assert_eq!(await_exit(&mut run).code(), Some(3));
    assert!(!bench.is_held("x"));
}
