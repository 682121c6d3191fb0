//! The shell commands of README.md, `docs` and the crates' READMEs: the command's own parser accepts every `distlock …`, what a call of cargo
//! names exists, and other programs are known ones. The exit codes on those pages.

use std::collections::BTreeSet;
use std::{fs, thread};

use distlock_testkit::docs::{blocks, root};

use crate::support::{Bench, output};

/// A store that refuses connections: a call that parses ends with another code than [`USAGE`].
const NOWHERE: &str = "redis://127.0.0.1:1";
const USAGE: i32 = 64;
/// The other programs that blocks may call.
const KNOWN: [&str; 11] = [
    "apt",
    "cd",
    "curl",
    "docker",
    "eval",
    "export",
    "jq",
    "kubectl",
    "redis-server",
    "sleep",
    "source",
];

/// The commands of a line of shell, as words; quotes are taken off, a comment ends the line.
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut word = String::new();
    let mut quote = None;
    for c in line.chars().chain([' ']) {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => quote = Some(c),
            None if c == '#' && word.is_empty() => break,
            None if c.is_whitespace() || "|;&<>()".contains(c) => {
                let last = all.last_mut().unwrap();
                if !word.is_empty() {
                    last.push(std::mem::take(&mut word));
                }
                if !c.is_whitespace() {
                    all.push(Vec::new());
                }
            }
            None => word.push(c),
        }
    }
    // `NAME=value` in front of a command.
    for words in &mut all {
        let assigned = words.iter().take_while(|word| word.contains('=') && !word.starts_with('-'));
        words.drain(..assigned.count());
    }
    all.retain(|words| !words.is_empty());
    all
}

/// The arguments for `distlock` in a command, if it is one.
fn arguments(words: &[String]) -> Option<Vec<String>> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let args = match words.as_slice() {
        ["distlock", args @ ..] | ["cargo", "run", "--release", "--", args @ ..] => args,
        _ => return None,
    };
    let mut args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    for i in 1..args.len() {
        match args[i - 1].as_str() {
            // Refuses too; members of a redlock differ.
            "--url" => args[i] = format!("redis://127.0.0.1:{i}"),
            // A store that cannot be reached is tried again for as long.
            "--wait" | "-w" => args[i] = "100ms".to_owned(),
            _ => {}
        }
    }
    if args.first().is_some_and(|command| command == "watch") {
        args.extend(["--count".to_owned(), "1".to_owned()]); // or it never ends
    }
    Some(args)
}

/// The subcommand of `cargo xtask` and the directory after `--path` exist.
fn check_cargo(place: &str, words: &[String]) {
    if words[1] == "xtask" {
        let known = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
        let arm = format!("Some(\"{}\")", words[2]);
        assert!(known.contains(&arm), "{place}: {words:?}");
    }
    if let Some(option) = words.iter().position(|word| word == "--path") {
        let path = &words[option + 1];
        // Seen from a directory beside this checkout.
        let path = path.strip_prefix("../distlock/").unwrap_or(path);
        assert!(root().join(path).join("Cargo.toml").exists(), "{place}: {words:?}");
    }
}

/// The command of a line of a crontab, without the five fields of the time.
fn scheduled(line: &str) -> String {
    line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ")
}

#[test]
fn shell_blocks_call_the_command_as_it_is() {
    let mut lines = Vec::new();
    for block in blocks("sh") {
        let joined = block.text.replace("\\\n", " ");
        lines.extend(joined.lines().map(|line| (block.place.clone(), line.to_owned())));
    }
    let crontabs = blocks("crontab");
    assert!(!crontabs.is_empty());
    for block in crontabs {
        lines.extend(block.text.lines().map(|line| (block.place.clone(), scheduled(line))));
    }
    let mut calls = Vec::new();
    for (place, line) in lines {
        for words in commands(&line) {
            match arguments(&words) {
                Some(args) => calls.push((place.clone(), args)),
                None if words[0] == "cargo" => check_cargo(&place, &words),
                None => assert!(KNOWN.contains(&words[0].as_str()), "{place}: {words:?}"),
            }
        }
    }
    assert!(calls.len() >= 10, "{calls:?}");
    // Each may wait until it gives the store up.
    let calls = calls.into_iter().map(|(place, args)| {
        thread::spawn(move || {
            let bench = Bench::on(NOWHERE.to_owned());
            let done = output(bench.distlock(args.iter().map(String::as_str)));
            assert_ne!(done.status.code(), Some(USAGE), "{place}: {args:?}: {done:?}");
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.join().unwrap();
    }
}

#[test]
fn synopses_name_commands_and_options_that_exist() {
    let bench = Bench::new();
    let mut count = 0;
    for block in blocks("text") {
        for synopsis in block.text.lines().filter_map(|line| line.strip_prefix("distlock ")) {
            let mut words = synopsis.split_whitespace().map(|word| word.trim_matches(['[', ']']));
            let command = words.next().expect("a command");
            let help = output(bench.distlock(["help", command]));
            assert!(help.status.success(), "{}: {synopsis}: {help:?}", block.place);
            let help = String::from_utf8(help.stdout).unwrap();
            for option in words.filter(|word| word.starts_with('-')) {
                assert!(help.contains(option), "{}: {synopsis}: {option}", block.place);
            }
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} synopses were found");
}

/// The exit codes that a text names: those of `sysexits.h`, those of a shell, and `128+n`.
fn codes(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '+');
    let is_code = |word: &&str| {
        let number = word.parse().unwrap_or(0);
        *word == "128+n" || (64..=78).contains(&number) || (126..=255).contains(&number)
    };
    words.filter(is_code).collect()
}

#[test]
fn the_pages_name_the_exit_codes_that_help_prints() {
    let bench = Bench::new();
    let help = String::from_utf8(output(bench.distlock(["--help"])).stdout).unwrap();
    let (_, printed) = help.split_once("Exit codes").expect("the exit codes");
    let printed = codes(printed);
    assert!(printed.len() >= 9, "{printed:?}");
    for (page, from, to) in [
        ("README.md", "`run` exits with", "\n\n"),
        ("docs/cli.md", "\n## Exit codes", "\n## "),
        ("crates/distlock-cli/README.md", "`run` exits with", "\n\n"),
    ] {
        let text = fs::read_to_string(root().join(page)).unwrap();
        let (_, list) = text.split_once(from).unwrap_or_else(|| panic!("{page}: no {from:?}"));
        let list = list.split(to).next().unwrap();
        assert_eq!(codes(list), printed, "{page}");
    }
}
