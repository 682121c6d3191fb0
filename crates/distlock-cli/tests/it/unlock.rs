//! `distlock unlock --force`: who did it, to whom and why is known afterwards, or it is not done.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Output;

use crate::support::terminal::Terminal;
use crate::support::{Bench, await_exit, code, output, schema};
use distlock_testkit::{Flavor, Match, Proxy, Server};
use serde_json::{Value, json};

fn log(bench: &Bench) -> Vec<Value> {
    let text = fs::read_to_string(bench.path("audit.log")).unwrap_or_default();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.iter().for_each(|line| schema::check("audit", line));
    lines
}

#[test]
fn what_was_done_is_in_the_log_and_on_standard_error() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    for bench in [Bench::new(), Bench::on(server.url())] {
        let holder = bench.hold(&[], "x");
        let holders = bench.show("x")["holders"].clone();
        let owner = holders[0]["owner"].as_str().unwrap();
        let reason = "stuck since noon\n\u{1b}[31mforged";
        let Output { status, stdout, stderr } =
            output(bench.distlock(["unlock", "--force", "--reason", reason, "x"]));
        let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert_eq!(status.code(), Some(0), "{err}");
        assert!(out.starts_with("x is free; it was held by ") && out.contains(owner), "{out}");
        assert!(out.contains("may still run for at most ") && out.contains("renewal"), "{out}");
        // One line, and nothing in it that is not to be read.
        assert_eq!(err.matches('\n').count(), 1, "{err:?}");
        assert!(err.contains("audit: ") && err.contains(owner), "{err:?}");
        assert!(err.contains("stuck since noon\\n\\u{1b}[31mforged"), "{err:?}");

        let [begin, end] = &log(&bench)[..] else { panic!("two lines: {:?}", log(&bench)) };
        assert_eq!((&begin["step"], &end["step"]), (&json!("begin"), &json!("end")));
        assert_eq!((&begin["outcome"], &end["outcome"]), (&Value::Null, &json!({ "freed": true })));
        for line in [begin, end] {
            assert_eq!(line["former_holders"], holders);
            assert_eq!((&line["lock"], &line["kind"]), (&json!("x"), &json!("mutex")));
            assert_eq!(line["reason"], reason);
            assert_eq!(line["address"], bench.url());
            assert_eq!(line["uid"], rustix::process::getuid().as_raw());
            assert_eq!(line["time"], begin["time"]);
        }
        assert_eq!(fs::metadata(bench.path("audit.log")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(holder.leave(), Some(70));

        // Also what found nothing to free, without a reason; the log grows.
        assert_eq!(code(bench.distlock(["unlock", "--force", "--kind", "spin", "x"])), 0);
        let all = log(&bench);
        assert_eq!(all.len(), 4);
        assert_eq!(
            (&all[3]["outcome"], &all[3]["reason"]),
            (&json!({ "freed": false }), &Value::Null)
        );
    }
}

#[test]
fn the_address_in_the_log_has_no_password() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let bench = Bench::on(server.user_with("lk", &["~*", "&*", "+@all"].map(String::from)));
    assert_eq!(code(bench.distlock(["unlock", "--force", "x"])), 0);
    let [begin, end] = &log(&bench)[..] else { panic!("two lines: {:?}", log(&bench)) };
    for line in [begin, end] {
        assert_eq!(line["address"], format!("redis://{}", server.addr()), "{line}");
    }
    let url = bench.url();
    let (credentials, _) = url.rsplit_once('@').unwrap();
    let (_, password) = credentials.rsplit_once(':').unwrap();
    let log = fs::read_to_string(bench.path("audit.log")).unwrap();
    assert!(!log.contains(password), "{log}");
}

#[test]
fn it_is_told_for_how_long_the_command_may_still_run() {
    let bench = Bench::new();
    let holder = bench.hold(&["--watchdog", "9s"], "x");
    let freed = bench.json(["unlock", "--force", "x"]);
    assert!((1..=9_000).contains(&freed["may_run_ms"].as_u64().unwrap()), "{freed}");
    assert_eq!(holder.end(), Some(70));
    let holder = bench.hold(&["--kind", "semaphore", "-n", "1"], "pool");
    let said = output(bench.distlock(["unlock", "--force", "pool"]));
    let out = String::from_utf8(said.stdout).unwrap();
    assert!(out.contains("run to their end"), "{out}");
    assert!(
        holder.leave().is_some_and(|code| code == 70),
        "it ended by itself, without its permit"
    );
}

/// A script that takes an error for "not done" would do it again, to the next holder.
#[test]
fn what_was_done_is_told_even_if_the_store_is_gone_after_it() {
    let server = Server::builder(Flavor::Redis).start_blocking();
    let whole = Bench::on(server.url());
    for kind in ["mutex", "fair", "leased_semaphore"] {
        let options = ["--kind", kind, "-n", "1"];
        let options = if kind.contains("semaphore") { &options[..] } else { &options[..2] };
        let holder = whole.hold(options, kind);
        let holders = whole.show_as(kind, kind)["holders"].clone();
        let proxy = Proxy::start_blocking(server.addr());
        let bench = Bench::on(proxy.url());
        // The second line says what came of it; nothing that is asked after that arrives.
        let log = bench.path("audit.log");
        let done =
            move |_: &_| fs::read_to_string(&log).is_ok_and(|text| text.lines().count() == 2);
        let cut = proxy.drop_requests_to(Match::by(done), u64::MAX);
        let said = output(bench.distlock(["unlock", "--force", "--json", "--kind", kind, kind]));
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        assert!(cut.hits() > 0, "it was not asked what came after");
        let told: Value = serde_json::from_slice(&said.stdout).unwrap();
        schema::check("unlock", &told);
        assert_eq!((&told["freed"], &told["former_holders"]), (&json!(true), &holders));
        assert_eq!((&told["held"], &told["holders"]), (&Value::Null, &Value::Null));
        let errors = String::from_utf8(said.stderr).unwrap();
        assert!(errors.contains("its state afterwards cannot be read"), "{errors}");
        assert_eq!(holder.leave(), Some(70));
    }
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let bench = Bench::new();
    let holder = bench.hold(&[], "x");
    fs::create_dir(bench.path("dir")).unwrap();
    fs::write(bench.path("file"), "").unwrap();
    let unwritable = [bench.path("dir"), bench.path("file/audit.log"), "/dev/full".into()];
    for path in unwritable {
        let mut command = bench.distlock(["unlock", "--force", "x"]);
        command.env("DISTLOCK_AUDIT", &path);
        let output = output(command);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(71), "{path:?}: {said}");
        assert!(said.contains("audit log") && said.contains("nothing was freed"), "{said}");
        assert!(bench.is_held("x"));
    }
    // Nowhere to write to.
    let mut command = bench.distlock(["unlock", "--force", "x"]);
    command.env_remove("DISTLOCK_AUDIT").env_remove("HOME").env_remove("XDG_STATE_HOME");
    let output = output(command);
    assert_eq!(output.status.code(), Some(64));
    assert!(String::from_utf8_lossy(&output.stderr).contains("DISTLOCK_AUDIT"), "{output:?}");
    assert!(bench.is_held("x"));
    assert_eq!(holder.leave(), Some(0));
}

#[test]
fn without_being_told_the_log_is_in_the_state_directory() {
    let bench = Bench::new();
    let state = bench.path("state");
    let mut command = bench.distlock(["unlock", "--force", "x"]);
    command.env_remove("DISTLOCK_AUDIT").env("XDG_STATE_HOME", &state);
    assert_eq!(code(command), 0);
    let text = fs::read_to_string(state.join("distlock-audit.log")).unwrap();
    assert_eq!(text.lines().count(), 2);
    assert_eq!(fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn lines_of_several_do_not_mix() {
    let bench = Bench::new();
    let reason = "r".repeat(3000);
    let mut all: Vec<_> = (0..8)
        .map(|_| bench.distlock(["unlock", "--force", "--reason", &reason, "x"]).spawn().unwrap())
        .collect();
    for one in &mut all {
        assert_eq!(await_exit(one).code(), Some(0));
    }
    assert_eq!(log(&bench).len(), 16, "each a whole line");
}

#[test]
fn on_a_terminal_it_asks() {
    let bench = Bench::new();
    let holder = bench.hold(&[], "x");
    let owner = bench.show("x")["holders"][0]["owner"].as_str().unwrap().to_owned();
    for answer in ["n\r", "\r", "\u{4}", "yesterday\r"] {
        let mut terminal = Terminal::start(&bench.distlock(["unlock", "--force", "x"]), 24, 120);
        let screen = terminal.await_text("[y/N]");
        assert!(screen.contains(&owner), "{screen}");
        terminal.press(answer);
        assert_eq!(terminal.end().code(), Some(1), "{answer:?}");
        assert!(bench.is_held("x"));
    }
    assert!(log(&bench).is_empty(), "nothing was done");

    let mut terminal = Terminal::start(&bench.distlock(["unlock", "--force", "x"]), 24, 120);
    terminal.await_text("[y/N]");
    terminal.press("y\r");
    assert_eq!(terminal.end().code(), Some(0));
    assert!(!bench.is_held("x"));
    assert_eq!(holder.leave(), Some(70));

    // A yes is about the holder that was shown, not about whoever came since.
    let holder = bench.hold(&[], "x");
    let mut terminal = Terminal::start(&bench.distlock(["unlock", "--force", "x"]), 24, 120);
    terminal.await_text("[y/N]");
    assert_eq!(holder.leave(), Some(0));
    let holder = bench.hold(&[], "x");
    terminal.press("y\r");
    assert_eq!(terminal.end().code(), Some(1));
    terminal.await_text("changed hands");
    assert!(bench.is_held("x"));
    assert_eq!(holder.leave(), Some(0));

    // Those who know what they do are not asked, nor is a program that has no terminal.
    let holder = bench.hold(&[], "x");
    let mut terminal = Terminal::start(&bench.distlock(["unlock", "--force", "-y", "x"]), 24, 120);
    assert_eq!(terminal.end().code(), Some(0));
    terminal.await_text("x is free");
    assert!(!terminal.text().contains("[y/N]"));
    assert_eq!(holder.leave(), Some(70));
}
