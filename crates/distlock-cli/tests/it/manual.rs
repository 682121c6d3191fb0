//! Completions and manual pages name everything there is.

use std::collections::BTreeSet;
use std::fs;

use crate::support::{Bench, code, output};

fn text(bench: &Bench, args: &[&str]) -> String {
    let output = output(bench.distlock(args.iter().copied()));
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Every command with its options, as the help tells them.
fn commands(bench: &Bench) -> Vec<(Vec<String>, BTreeSet<String>)> {
    let mut all = Vec::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(path) = open.pop() {
        let mut args: Vec<&str> = path.iter().map(String::as_str).collect();
        args.push("--help");
        let help = text(bench, &args);
        if let Some((_, list)) = help.split_once("\nCommands:\n") {
            let list = list.split("\n\n").next().unwrap();
            let words = list.lines().filter_map(|line| line.split_whitespace().next());
            for word in words.filter(|word| *word != "help") {
                open.push(path.iter().cloned().chain([word.to_owned()]).collect());
            }
        }
        // What stands further in is about an option.
        let is_option = |line: &&str| {
            let option = line.trim_start();
            option.starts_with('-') && line.len() - option.len() <= 6
        };
        let options = help.lines().filter(is_option);
        let options = options.filter_map(|line| {
            let word = line.split([' ', ',']).find(|word| word.starts_with("--"))?;
            Some(word.to_owned())
        });
        all.push((path, options.collect()));
    }
    all
}

#[test]
fn the_manual_has_a_page_for_each_command_with_all_its_options() {
    let bench = Bench::new();
    let dir = bench.path("man");
    assert_eq!(text(&bench, &["man", "--dir", dir.to_str().unwrap()]), "");
    let commands = commands(&bench);
    assert!(commands.len() >= 15, "{commands:?}");
    for (path, options) in &commands {
        let file = ["distlock"].into_iter().chain(path.iter().map(String::as_str));
        let file = file.collect::<Vec<_>>().join("-") + ".1";
        let page = fs::read_to_string(dir.join(&file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let page = page.replace('\\', "");
        assert!(options.contains("--help"), "{file}: {options:?}");
        for option in options {
            assert!(page.contains(option), "{file} lacks {option}");
        }
    }
    assert_eq!(fs::read_dir(&dir).unwrap().count(), commands.len());
    let run = commands.iter().find(|(path, _)| path == &["run"]).unwrap();
    for option in ["--on-lost", "--semaphore", "--verbose", "--permits", "--wait"] {
        assert!(run.1.contains(option), "the help itself: {:?}", run.1);
    }

    let first = text(&bench, &["man"]);
    assert_eq!(first, fs::read_to_string(dir.join("distlock.1")).unwrap());
    for (path, _) in commands.iter().filter(|(path, _)| path.len() == 1) {
        assert!(first.replace('\\', "").contains(&format!("distlock-{}(1)", path[0])), "{path:?}");
    }
    fs::write(bench.path("file"), "").unwrap();
    assert_eq!(code(bench.distlock(["man", "--dir", "file"])), 71);
}

#[test]
fn completions_know_every_command_and_option() {
    let bench = Bench::new();
    let commands = commands(&bench);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&bench, &["completions", shell]);
        for (path, options) in &commands {
            for word in path {
                assert!(script.contains(word.as_str()), "{shell}: {word}");
            }
            for option in options {
                // fish says `-l wait` for `--wait`.
                let long = option.trim_start_matches('-');
                assert!(script.contains(long), "{shell}: {option} of {path:?}");
            }
        }
        assert!(script.contains("leased_semaphore"), "{shell}: values are completed");
    }
    assert_eq!(code(bench.distlock(["completions", "tcsh"])), 64);
    // A shell takes it.
    fs::write(bench.path("script"), text(&bench, &["completions", "bash"])).unwrap();
    let complete = "source ./script && COMP_WORDS=(distlock run --on) COMP_CWORD=2 && _distlock distlock --on run && echo ${COMPREPLY[*]}";
    let bash = std::process::Command::new("bash")
        .args(["-c", complete])
        .current_dir(bench.path(""))
        .output();
    let bash = bash.unwrap();
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "--on-lost", "{bash:?}");
}

#[test]
fn the_guide_names_every_command_and_option() {
    let bench = Bench::new();
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let guide = fs::read_to_string(guide).unwrap();
    for (path, options) in commands(&bench) {
        assert!(guide.contains(&path.join(" ")), "{path:?}");
        for option in options.iter().filter(|option| *option != "--help" && *option != "--version")
        {
            assert!(guide.contains(option.as_str()), "{option} of {path:?}");
        }
    }
}
