//! The shell commands of README.md and `docs`: the command's own parser takes every `distlock …`, and other programs are known ones.

use std::thread;

use distlock_testkit::docs::blocks;

use crate::support::{Bench, output};

/// A store that refuses connections: a call that parses ends with another code than [`USAGE`].
const NOWHERE: &str = "redis://127.0.0.1:1";
const USAGE: i32 = 64;
/// The other programs that blocks may call.
const KNOWN: [&str; 12] = [
    "apt",
    "cargo",
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

#[test]
fn shell_blocks_call_the_command_as_it_is() {
    let mut calls = Vec::new();
    for block in blocks("sh") {
        let joined = block.text.replace("\\\n", " ");
        for words in joined.lines().flat_map(commands) {
            match arguments(&words) {
                Some(args) => calls.push((block.place.clone(), args)),
                None => {
                    assert!(KNOWN.contains(&words[0].as_str()), "{}: {words:?}", block.place);
                }
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
