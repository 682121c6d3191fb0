//! What `distlock run` promises when something goes wrong while the command runs.

use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{
    Bench, await_exit, await_handlers, code, end, is_alive, is_ignored, is_skipped, kill, pid_in,
    wait_until,
};
use distlock_testkit::Stopwatch;
use rustix::process::Signal;

/// A command that is there until it is told to end.
const FOR_EVER: &str = "while :; do sleep 0.02; done";

/// SIGKILL comes this long before the end of a lease.
const MARGIN: Duration = Duration::from_millis(100);

#[test]
fn two_runs_of_one_lock_exclude_each_other() {
    let bench = Bench::new();
    // `mkdir` fails if another is inside; the count is lost if another counts at the same time.
    let script = "mkdir inside || exit 99; n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count; rmdir inside";
    let mut runs: Vec<Child> =
        (0..10).map(|_| bench.run(&[], "x", script).spawn().unwrap()).collect();
    for run in &mut runs {
        assert_eq!(await_exit(run).code(), Some(0));
    }
    assert_eq!(bench.await_file("count"), "10\n");
}

#[test]
fn signals_reach_the_command_and_its_answer_is_ours() {
    for (signal, word) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        if is_ignored(signal) {
            continue; // whoever started the tests wants it so, and nothing that they start hears it
        }
        let bench = Bench::new();
        let script = format!("trap 'echo {word} > got; exit 3' {word}; echo > ready; {FOR_EVER}");
        let mut run = bench.run(&[], "x", &script).spawn().unwrap();
        bench.await_file("ready");
        kill(&run, signal);
        assert_eq!(await_exit(&mut run).code(), Some(3));
        assert_eq!(bench.await_file("got").trim(), word);
        assert!(!bench.is_held("x"));
    }
}

#[test]
fn a_signal_ends_everything_that_the_command_started() {
    let bench = Bench::new();
    let script = format!("sh -c 'echo $$ > pid; {FOR_EVER}' & wait");
    let mut run = bench.run(&[], "x", &script).spawn().unwrap();
    let inner = pid_in(&bench.await_file("pid"));
    kill(&run, Signal::TERM);
    assert_eq!(await_exit(&mut run).code(), Some(143));
    assert!(!is_alive(inner));
    assert!(!bench.is_held("x"));
}

#[test]
fn a_second_signal_kills_a_command_that_does_not_listen() {
    let bench = Bench::new();
    let script = format!("trap 'echo > got' TERM; echo > ready; {FOR_EVER}");
    let mut run = bench.run(&[], "x", &script).spawn().unwrap();
    bench.await_file("ready");
    kill(&run, Signal::TERM);
    bench.await_file("got");
    assert!(bench.is_held("x"), "it is still at work");
    // One that comes again at once is the same; whoever goes on asking is heard.
    wait_until("its end", || {
        kill(&run, Signal::TERM);
        run.try_wait().unwrap().is_some()
    });
    assert_eq!(await_exit(&mut run).code(), Some(137));
    assert!(!bench.is_held("x"));
}

#[test]
fn a_signal_while_waiting_ends_the_wait_and_leaves_nothing() {
    let bench = Bench::new();
    let mut holder = bench.run(&[], "x", &format!("echo > ready; {FOR_EVER}")).spawn().unwrap();
    bench.await_file("ready");
    for (signal, expected) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129)] {
        if is_ignored(signal) {
            continue;
        }
        let mut waiter = bench.run(&[], "x", "echo > never").spawn().unwrap();
        await_handlers(&waiter);
        kill(&waiter, signal);
        assert_eq!(await_exit(&mut waiter).code(), Some(expected));
    }
    kill(&holder, Signal::TERM);
    await_exit(&mut holder);
    assert!(!bench.is_held("x"));
    assert!(!bench.path("never").exists());
}

#[test]
fn what_was_ignored_for_us_stays_ignored_for_the_command() {
    let bench = Bench::new();
    let mut nohup = std::process::Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_distlock")]);
    nohup.args(["run", "x", "--", "sh", "-c", "echo > ready; read line; exit 5"]);
    nohup.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url());
    let mut run = nohup.stdin(Stdio::piped()).spawn().unwrap();
    bench.await_file("ready");
    kill(&run, Signal::HUP);
    drop(run.stdin.take());
    assert_eq!(await_exit(&mut run).code(), Some(5));
}

#[test]
fn a_command_that_outlasts_its_lease_is_ended_before_the_lease_is() {
    assert!((0..3).any(|_| is_ended_in_time()), "never in time");
}

/// False if it came too late on a machine that stood still meanwhile: that says nothing.
fn is_ended_in_time() -> bool {
    let (bench, clock) = (Bench::new(), Stopwatch::start());
    // It notes when it is asked to end, disregards it, and goes on noting until it is killed.
    let script = "trap 'date +%s%N > asked' TERM; date +%s%N > began;
        while :; do date +%s%N >> beats; sleep 0.01; done";
    let mut run = bench.run(&["--lease", "12s"], "x", script).spawn().expect("it starts");
    let began = nanos(&bench.await_file("began"));
    // Whoever comes next gets the lock only when the first command is gone.
    let mut next = bench.run(&["--wait", "20s"], "x", "date +%s%N > next");
    let mut next = next.spawn().expect("it starts");
    assert_eq!(await_exit(&mut run).code(), Some(70));
    assert_eq!(await_exit(&mut next).code(), Some(0));

    let beats = bench.await_file("beats");
    let last = beats.lines().rfind(|line| line.len() > 12).map(nanos).expect("a beat");
    let asked = nanos(&bench.await_file("asked"));
    let next = nanos(&bench.await_file("next"));
    assert!(last > asked + 200_000_000, "it had {} ns to end in good order", last - asked);
    let (ran, in_time) = (last - began, last < next.min(began + 12_000_000_000));
    let stalled = clock.stalled();
    assert!(in_time || stalled > MARGIN, "it ran for {ran} ns, until {last}; the next at {next}");
    in_time
}

fn nanos(text: &str) -> u64 {
    text.trim().parse().expect("a number")
}

#[test]
fn a_command_that_ends_when_asked_is_still_70() {
    let bench = Bench::new();
    let script = format!("trap 'echo > got; exit 0' TERM; {FOR_EVER}");
    assert_eq!(code(bench.run(&["--lease", "12s"], "x", &script)), 70);
    bench.await_file("got");
    assert!(!bench.is_held("x"));
}

#[test]
fn a_lock_taken_by_force_ends_the_command() {
    let bench = Bench::new();
    let script = format!("trap 'echo > got; exit 0' TERM; echo > ready; {FOR_EVER}");
    let mut run = bench.run(&["--watchdog", "12s"], "x", &script).spawn().unwrap();
    bench.await_file("ready");
    assert_eq!(code(bench.distlock(["unlock", "--force", "x"])), 0);
    assert_eq!(await_exit(&mut run).code(), Some(70));
    bench.await_file("got");
}

#[test]
fn a_renewed_lock_outlives_its_timeout() {
    let bench = Bench::new();
    let mut run = bench.run(&["--watchdog", "9s"], "x", "sleep 10; echo > done").spawn().unwrap();
    assert_eq!(await_exit(&mut run).code(), Some(0));
    bench.await_file("done");
}

#[test]
fn a_command_and_what_it_started_die_with_a_killed_distlock() {
    let bench = Bench::new();
    let script = format!("sh -c 'echo $$ > inner; {FOR_EVER}' & echo $$ > pid; wait");
    let mut run = bench.run(&[], "x", &script).spawn().unwrap();
    let command = pid_in(&bench.await_file("pid"));
    let inner = pid_in(&bench.await_file("inner"));
    assert!(is_alive(command) && is_alive(inner));
    kill(&run, Signal::KILL);
    await_exit(&mut run);
    wait_until("the command's death", || !is_alive(command) && !is_alive(inner));
}

#[test]
fn what_a_command_leaves_in_the_background_stays_there() {
    let bench = Bench::new();
    let script = format!("sh -c 'echo $$ > inner; {FOR_EVER}' >/dev/null 2>&1 & read line < fifo");
    let made = std::process::Command::new("mkfifo").arg(bench.path("fifo")).status().unwrap();
    assert!(made.success());
    let mut run = bench.run(&[], "x", &script).spawn().unwrap();
    let inner = pid_in(&bench.await_file("inner"));
    std::fs::write(bench.path("fifo"), "go\n").unwrap();
    assert_eq!(await_exit(&mut run).code(), Some(0));
    assert!(is_alive(inner) && !bench.is_held("x"));
    end(inner);
}

#[test]
fn what_is_in_the_background_outlives_a_reload_but_not_a_hang_up() {
    if is_skipped(Signal::HUP) {
        return;
    }
    for reload in [true, false] {
        let bench = Bench::new();
        let answer = if reload { "trap 'echo > got; exit 4' HUP;" } else { "" };
        let script = format!(
            "{answer} sh -c 'trap \"\" HUP; echo $$ > inner; {FOR_EVER}' >/dev/null 2>&1 & {FOR_EVER}"
        );
        let mut run = bench.run(&[], "x", &script).spawn().unwrap();
        let inner = pid_in(&bench.await_file("inner"));
        kill(&run, Signal::HUP);
        let code = await_exit(&mut run).code();
        assert_eq!(code, Some(if reload { 4 } else { 129 }));
        if reload {
            assert!(is_alive(inner));
            end(inner);
        }
        wait_until("its death", || !is_alive(inner));
    }
}

#[test]
fn a_distlock_that_was_stopped_too_long_ends_the_command_when_it_wakes() {
    let bench = Bench::new();
    let script = format!("echo $$ > pid; {FOR_EVER}");
    let mut run = bench.run(&["--watchdog", "6s"], "x", &script).spawn().unwrap();
    let command = pid_in(&bench.await_file("pid"));
    kill(&run, Signal::STOP);
    wait_until("the lease's end", || !bench.is_held("x"));
    kill(&run, Signal::CONT);
    assert_eq!(await_exit(&mut run).code(), Some(70));
    assert!(!is_alive(command));
}

/// As in a container: whatever loses its parent becomes ours, and nobody else waits for it.
#[test]
fn as_the_first_process_of_all_it_does_not_wait_for_the_dead() {
    let contained = |program: &std::process::Command| {
        let mut command = std::process::Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--"]);
        command.arg(program.get_program()).args(program.get_args());
        command
    };
    if !contained(&std::process::Command::new("true")).status().is_ok_and(|done| done.success()) {
        return; // not everybody may do that
    }
    let bench = Bench::new();
    let script = "for i in 1 2 3; do sleep 100 & done
        trap 'exit 3' TERM; echo > told; kill -TERM $PPID; wait";
    let mut run = contained(&bench.run(&[], "x", script));
    run.current_dir(bench.path("")).env("DISTLOCK_URL", bench.url()).stdin(Stdio::null());
    let mut run = run.spawn().unwrap();
    bench.await_file("told");
    let told = Stopwatch::start();
    assert_eq!(await_exit(&mut run).code(), Some(3));
    // Those who do not listen have five seconds.
    assert!(told.elapsed() < Duration::from_secs(4), "{:?}", told.elapsed());
}

/// Only root can bring about what happens here: a program that becomes another user.
#[test]
fn what_runs_as_another_user_does_not_outlive_the_lock_in_silence() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    let open = |name: &str, mode| {
        std::fs::set_permissions(bench.path(name), Permissions::from_mode(mode)).unwrap();
    };
    let setpriv = std::process::Command::new("sh").args(["-c", "command -v setpriv"]).output();
    let setpriv = String::from_utf8(setpriv.unwrap().stdout).unwrap();
    std::fs::copy(setpriv.trim(), bench.path("as-root")).unwrap();
    open("as-root", 0o4755);
    open("", 0o777);
    let other = "./as-root --reuid=0 sh -c 'echo > ready; read line; exit 0'";
    for (policy, script) in [
        ("stop", format!("exec {other}")),
        // Killing the shell is not killing all.
        ("kill", format!("exec 3<&0; {other} <&3 & wait")),
    ] {
        let options = ["--lease", "6s", "--on-lost", policy];
        let mut run = bench.run(&options, policy, &script);
        run.uid(65534).stdin(Stdio::piped()).stderr(File::create(bench.path(policy)).unwrap());
        let mut run = run.spawn().unwrap();
        bench.await_file("ready");
        let said = || std::fs::read_to_string(bench.path(policy)).unwrap();
        wait_until("a complaint", || said().contains("another user"));
        drop(run.stdin.take());
        assert_eq!(await_exit(&mut run).code(), Some(70), "{policy}");
        assert_eq!(said().matches("another user").count(), 1, "{}", said());
        std::fs::remove_file(bench.path("ready")).unwrap();
    }
}
