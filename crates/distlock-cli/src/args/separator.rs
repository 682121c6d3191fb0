//! `distlock run NAME COMMAND` without the `--`: finds where it belongs.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, CommandFactory};

use super::Args;

/// The words that take no part of their own on the command line of `run`.
const SEPARATOR: &str = "--";

/// What to say about a `run` whose command is not behind `--`; `None` if these arguments (without the program's name) are fine in
/// that respect.
pub(crate) fn missing(args: &[OsString]) -> Option<String> {
    let (first, rest) = args.split_first()?;
    if first != "run" || rest.iter().any(|arg| arg == SEPARATOR) {
        return None;
    }
    let options = Options::of_run();
    let mut names = Vec::new();
    let mut at = 0;
    while at < rest.len() {
        match options.length(&rest[at]) {
            Some(Length { is_shell: true, .. }) => return None,
            Some(Length { words, .. }) => at += words,
            // An option of the command: the command came before it.
            None if is_option(&rest[at]) => break,
            None => {
                names.push(at);
                at += 1;
            }
        }
    }
    let several = options.is_multi(rest);
    let text = match (names.as_slice(), several) {
        ([], _) => return None,
        ([_], _) | (_, true) => {
            let corrected = line(rest, rest.len(), Some("COMMAND"));
            return Some(format!("the command is missing: {corrected}"));
        }
        ([_, command, ..], false) => line(rest, *command, None),
    };
    Some(format!("put `--` before the command: {text}"))
}

fn is_option(arg: &OsStr) -> bool {
    arg.as_encoded_bytes().starts_with(b"-") && arg.len() > 1
}

/// The call with `--` before the word at `at`.
fn line(rest: &[OsString], at: usize, command: Option<&str>) -> String {
    let mut words = vec!["distlock".to_owned(), "run".to_owned()];
    words.extend(rest[..at].iter().map(|word| quoted(word)));
    words.push(SEPARATOR.to_owned());
    words.extend(rest[at..].iter().map(|word| quoted(word)));
    words.extend(command.map(str::to_owned));
    words.join(" ")
}

/// A word as a shell takes it.
fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.into_owned(),
        false => format!("'{}'", crate::print::name(&word).replace('\'', r"'\''")),
    }
}

/// The options of `run`, read from the parser.
struct Options(clap::Command);

/// How many words an option takes, its value included.
struct Length {
    words: usize,
    is_shell: bool,
}

impl Options {
    fn of_run() -> Options {
        let mut whole = Args::command();
        whole.build();
        let run = whole.find_subcommand("run").expect("BUG: there is a subcommand `run`");
        Options(run.clone())
    }

    /// `None` for what is no option of `run`.
    fn length(&self, word: &OsStr) -> Option<Length> {
        let text = word.to_str()?;
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            let arg = self.find(|arg| {
                let aliases = arg.get_all_aliases().unwrap_or_default();
                arg.get_long() == Some(name) || aliases.contains(&name)
            })?;
            let words = 1 + usize::from(takes_value(arg) && value.is_none());
            return Some(Length { words, is_shell: arg.get_id() == "shell" });
        }
        let shorts = text.strip_prefix('-').filter(|shorts| !shorts.is_empty())?;
        let mut rest = shorts.chars();
        while let Some(short) = rest.next() {
            let arg = self.find(|arg| arg.get_short() == Some(short))?;
            if takes_value(arg) {
                let words = 1 + usize::from(rest.as_str().is_empty());
                return Some(Length { words, is_shell: arg.get_id() == "shell" });
            }
        }
        Some(Length { words: 1, is_shell: false })
    }

    /// Whether several names are asked for: then it cannot be told which word begins the command.
    fn is_multi(&self, rest: &[OsString]) -> bool {
        let kind = |pair: &[OsString]| pair[0] == "--kind" && pair[1] == "multi";
        rest.windows(2).any(kind) || rest.iter().any(|arg| arg == "--kind=multi")
    }

    fn find(&self, is_it: impl Fn(&Arg) -> bool) -> Option<&Arg> {
        self.0.get_arguments().find(|arg| !arg.is_positional() && is_it(arg))
    }
}

fn takes_value(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::Append)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_separator_goes_before_the_command() {
        let cases = [
            ("run foo echo hi", Some("distlock run foo -- echo hi")),
            ("run foo ls -la", Some("distlock run foo -- ls -la")),
            ("run foo make -n 3", Some("distlock run foo -- make -n 3")),
            (
                "run -w 5 foo --lease=2s ./x a;b",
                Some("distlock run -w 5 foo --lease=2s -- ./x 'a;b'"),
            ),
            ("run -vw5 --nb foo true", Some("distlock run -vw5 --nb foo -- true")),
            ("run foo", Some("distlock run foo -- COMMAND")),
            ("run --kind multi a b true", Some("distlock run --kind multi a b true -- COMMAND")),
            ("run foo -- echo hi", None),
            ("run foo -c true", None),
            ("run foo --command=true", None),
            ("run", None),
            ("show foo bar", None),
        ];
        for (args, wanted) in cases {
            let args: Vec<OsString> = args.split(' ').map(OsString::from).collect();
            let said = missing(&args);
            assert_eq!(said.is_some(), wanted.is_some(), "{args:?}: {said:?}");
            if let (Some(said), Some(wanted)) = (said, wanted) {
                assert!(said.ends_with(&format!(": {wanted}")), "{said}");
            }
        }
    }
}
