//! A line on standard error that says how far a long command is, while a person looks.

use std::io::{self, IsTerminal, Write as _};

/// How many cells a full bar has.
const CELLS: u64 = 40;

/// Shown on a terminal, and cleared when it is dropped.
pub(crate) struct Progress {
    shown: bool,
    title: &'static str,
    total: u64,
    done: u64,
}

impl Progress {
    /// A line without a text. It is never shown if the output is JSON, or standard error is not a terminal.
    pub(crate) fn new(json: bool) -> Progress {
        Progress { shown: !json && io::stderr().is_terminal(), title: "", total: 0, done: 0 }
    }

    /// Shows what is done now.
    pub(crate) fn say(&mut self, text: &'static str) {
        (self.title, self.total, self.done) = (text, 0, 0);
        self.draw(text);
    }

    /// Shows a bar of `total` steps, none of them done.
    pub(crate) fn count(&mut self, title: &'static str, total: u32) {
        (self.title, self.total, self.done) = (title, total.into(), 0);
        self.draw_bar();
    }

    /// One more step is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        // Drawn 200 times at most, however many steps there are.
        let part = |done: u64| done * 200 / self.total.max(1);
        if part(self.done) != part(self.done - 1) {
            self.draw_bar();
        }
    }

    fn draw_bar(&self) {
        let full = self.done.min(self.total) * CELLS / self.total.max(1);
        let bar = "█".repeat(full as usize) + &"░".repeat((CELLS - full) as usize);
        self.draw(&format!("{:17} {bar} {}/{}", self.title, self.done, self.total));
    }

    fn draw(&self, text: &str) {
        if self.shown {
            // If it cannot be shown, the command goes on all the same.
            let mut err = io::stderr().lock();
            let _ = write!(err, "\r\x1b[K{text}");
            let _ = err.flush();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.draw("");
    }
}
