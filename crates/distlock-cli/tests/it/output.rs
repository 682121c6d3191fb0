//! Where output goes: to terminals with colours, to programs without, and never nowhere unnoticed.

use crate::support::terminal::Terminal;
use crate::support::{Bench, code, output};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn colours_and_progress_are_for_terminals() {
    let bench = Bench::new();
    let _holder = bench.hold(&[], "x");
    // With what is seen while they work, and gone when they have.
    let commands: [(&[&str], Option<&str>); 4] = [
        (&["show", "x"], None),
        (&["ls"], None),
        (&["demo", "--tasks", "8", "--stock", "4"], Some("1/8")),
        (&["bench", "--seconds", "90ms"], Some("measuring all tasks at once")),
    ];
    for (args, progress) in commands {
        for wanted in [true, false] {
            let mut command = bench.distlock(args.iter().copied());
            if !wanted {
                command.env("NO_COLOR", "1");
            }
            let mut terminal = Terminal::start(&command, 24, 120);
            assert_eq!(terminal.end().code(), Some(0), "{args:?}");
            let seen = || text(&terminal.bytes());
            if let Some(progress) = progress {
                crate::support::wait_until("progress", || seen().contains(progress));
                crate::support::wait_until("a clear end", || !terminal.text().contains(progress));
            }
            let painted = |text: &str| {
                ["\u{1b}[1m", "\u{1b}[31m", "\u{1b}[32m"].iter().any(|code| text.contains(code))
            };
            if wanted {
                crate::support::wait_until("colours", || painted(&seen()));
            } else {
                crate::support::wait_until("output", || seen().ends_with('\n'));
                assert!(!painted(&seen()), "{args:?}: {:?}", seen());
            }
        }
        let plain = output(bench.distlock(args.iter().copied()));
        assert!(!text(&plain.stdout).contains('\u{1b}') && plain.stderr.is_empty(), "{plain:?}");
    }
}

#[test]
fn output_that_gets_lost_is_71_unless_nobody_reads_it() {
    let bench = Bench::new();
    let _holder = bench.hold(&[], "x");
    let commands: [&[&str]; 14] = [
        &["ls"],
        &["ls", "--json"],
        &["show", "x"],
        &["show", "--json", "x"],
        &["watch", "--count", "2", "--interval", "50ms"],
        &["latch", "count", "x2"],
        &["doctor", "--json"],
        &["bench", "--seconds", "30ms"],
        &["demo", "--tasks", "4", "--stock", "2"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["--version"],
        &["unlock", "--force", "y"],
    ];
    for args in commands {
        let mut full = bench.distlock(args.iter().copied());
        full.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
        let said = output(full);
        assert_eq!(said.status.code(), Some(71), "{args:?}: {said:?}");
        assert!(text(&said.stderr).contains("standard output"), "{args:?}: {said:?}");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut unread = bench.distlock(args.iter().copied());
        unread.stdout(writer);
        assert_eq!(code(unread), 0, "{args:?}");
    }
}

/// Whatever a terminal shows of a line beyond its last column stands on another line, where it reads like another lock.
#[test]
fn eighty_columns_are_enough() {
    let bench = Bench::new();
    let name = "a:rather-long-name:of-a-lock";
    let script = "#!/bin/sh\necho > ready\nread line\n";
    let command = "a-command-with-a-long-name-so-that-its-holder-is-wide.sh";
    std::fs::write(bench.path(command), script).unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.path(command), all).unwrap();
    let path = format!("./{command}");
    let mut run = bench.distlock(["run", name, "--", &path]);
    let run = run.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let holder = crate::support::Holder(run);
    bench.await_file("ready");
    let owner = bench.show(name)["holders"][0]["owner"].as_str().unwrap().to_owned();
    for args in [&["ls"][..], &["show", name]] {
        let mut command = bench.distlock(args.iter().copied());
        command.env("NO_COLOR", "1");
        let mut terminal = Terminal::start(&command, 24, 80);
        assert_eq!(terminal.end().code(), Some(0), "{args:?}");
        crate::support::wait_until("output", || terminal.bytes().ends_with(b"\n"));
        let seen = text(&terminal.bytes());
        assert!(seen.lines().all(|line| line.trim_end().chars().count() <= 80), "{seen}");
        let joined: String = seen.split_whitespace().collect();
        assert!(joined.contains(&command_label(&path)), "{args:?}: {seen}");
        match args[0] {
            "ls" => assert!(!seen.contains(&owner), "{seen}"),
            _ => {
                let (holder, id) =
                    (seen.find("distlock run on").unwrap(), seen.find(&owner).unwrap());
                assert!(holder < id, "{seen}");
            }
        }
    }
    let mut terminal = Terminal::start(&bench.distlock(["watch"]), 24, 80);
    terminal.await_text("distlock run on");
    crate::support::wait_until("the whole holder", || {
        let joined: String = terminal.text().split_whitespace().collect();
        joined.contains("wide.sh")
    });
    assert!(!terminal.text().contains(&owner));
    terminal.press("q");
    assert_eq!(terminal.end().code(), Some(0));
    assert_eq!(holder.leave(), Some(1), "`read` at the end of its input");
}

/// The end of the label, which is what would be cut.
fn command_label(path: &str) -> String {
    path.trim_start_matches("./").chars().skip(30).collect()
}
