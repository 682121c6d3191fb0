//! What goes to the terminal, and what must not.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

use crate::cells;
use crate::exit::Failure;

/// Writes to standard output.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    out_while_read(text).map(drop)
}

/// Writes to standard output, for callers that would go on writing: false if the reader is gone.
pub(crate) fn out_while_read(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    written(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// A reader that left early (`distlock ls | head`) is not an error; everything else is, or half a list would look whole.
fn written(done: io::Result<()>) -> Result<bool, Failure> {
    match done {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(cause) => Err(Failure::System("write to standard output", cause)),
    }
}

/// Says something on standard error, under our name.
pub(crate) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "distlock: {}", redact(text));
}

/// Says on standard error that something works less well than its user may think.
pub(crate) fn warn(text: &str) {
    complain(&format!("warning: {text}"));
}

/// Prints what the argument parser has to say: help, the version, or what is wrong.
pub(crate) fn usage(error: &clap::Error) -> Result<(), Failure> {
    if !error.use_stderr() {
        // Clap knows whether it writes to a terminal.
        return written(error.print()).map(drop);
    }
    let text = error.render();
    let shown = if Paint::stderr().is_on() { text.ansi().to_string() } else { text.to_string() };
    // It quotes arguments, and a URL in the wrong place is one.
    let _ = write!(io::stderr().lock(), "{}", redact(&shown));
    Ok(())
}

/// A name as it may be printed: one that holds control characters must not be able to forge lines or colours.
pub(crate) fn name(name: &str) -> String {
    let mut shown = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '"' | '\'' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// The text with the user and password of every URL in it masked, and every password among the options of one.
pub(crate) fn redact(text: &str) -> String {
    mask_options(&mask_users(text))
}

fn mask_users(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("://") {
        let (before, after) = rest.split_at(start + 3);
        shown.push_str(before);
        // A password may hold anything, even an `@`: everything up to the last one before white space is masked.
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        match after[..end].rfind('@') {
            Some(at) => {
                shown.push_str("***");
                rest = &after[at..];
            }
            None => rest = after,
        }
    }
    shown + rest
}

/// The text with the value of every option masked that is a password (`?pass=…`, `&sentinel_pass=…`), known or misspelt.
pub(crate) fn mask_options(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(['?', '&']) {
        let (before, after) = rest.split_at(start + 1);
        shown.push_str(before);
        rest = after;
        // Behind the value comes the next option, or what is not of the URL: colours, or the quotes around it.
        let end = after.find(|c: char| c == '&' || c.is_whitespace() || c.is_control());
        let option = &after[..end.unwrap_or(after.len())];
        let option = option.strip_suffix(['\'', '"', '`']).unwrap_or(option);
        if let Some((key, value)) = option.split_once('=')
            && key.to_ascii_lowercase().contains("pass")
            && !value.is_empty()
        {
            shown.push_str(key);
            shown.push_str("=***");
            rest = &after[option.len()..];
        }
    }
    shown + rest
}

/// Whether the user asked for no colours.
fn unwanted() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

/// Colours, for terminals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Paints for standard output: only on a terminal, and not if the user asked for none (no-color.org).
    pub(crate) fn stdout() -> Paint {
        Paint(io::stdout().is_terminal() && !unwanted())
    }

    /// The same for standard error.
    pub(crate) fn stderr() -> Paint {
        Paint(io::stderr().is_terminal() && !unwanted())
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub(crate) fn warning(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub(crate) fn head(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// How many columns the terminal behind this stream has; `None` if it is not a terminal, where a long line is better than two.
pub(crate) fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Lines of a label and a text; the text takes several lines where it does not fit into so many columns.
pub(crate) fn pairs(rows: &[[String; 2]], columns: Option<usize>) -> String {
    let label = rows.iter().map(|[label, _]| label.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for [name, text] in rows {
        let parts = match columns {
            // Painted texts are short.
            Some(columns) if !text.contains('\x1b') => {
                cells::wrap(text, columns.saturating_sub(label + 2).max(1))
            }
            _ => vec![text.clone()],
        };
        for (index, part) in parts.into_iter().enumerate() {
            lines.push(vec![if index == 0 { name.clone() } else { String::new() }, part]);
        }
    }
    table(&lines)
}

/// Lines of cells, each column as wide as its widest cell.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_forge_terminal_output() {
        assert_eq!(name("orders:42/ä \"x\""), "orders:42/ä \"x\"");
        assert_eq!(name("a\nb\u{1b}[31m\u{202e}\\"), "a\\nb\\u{1b}[31m\\u{202e}\\\\");
    }

    #[test]
    fn passwords_are_masked_wherever_they_stand() {
        let cases = [
            ("cannot reach redis://me:p@ss@host:1/0 now", "cannot reach redis://***@host:1/0 now"),
            ("rediss://:secret@a, redis://b", "rediss://***@a, redis://b"),
            ("redis://a:b@c redis://d:e@f", "redis://***@c redis://***@f"),
            ("file:/dir me@host ://", "file:/dir me@host ://"),
            ("'redis+unix:///s?db=1&pass=p&user=u' ?", "'redis+unix:///s?db=1&pass=***&user=u' ?"),
            (
                "no '\u{1b}[33mredis+sentinel://a:b@c/m?sentinel_pass=p?q=&r\u{1b}[0m'",
                "no '\u{1b}[33mredis+sentinel://***@c/m?sentinel_pass=***&r\u{1b}[0m'",
            ),
            ("'redis+unix:/s?password=p'", "'redis+unix:/s?password=***'"),
            ("a?b=c&d=pass=e & compass= x", "a?b=c&d=pass=e & compass= x"),
        ];
        for (text, shown) in cases {
            assert_eq!(redact(text), shown);
        }
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["NAME".into(), "TTL".into()], vec!["ä".into(), "1 s".into()]];
        assert_eq!(table(&rows), "NAME  TTL\nä     1 s\n");
    }
}
