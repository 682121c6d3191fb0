//! The `distlock` command: run a program under a lock, see who holds one, free one.
//!
//! Arguments are parsed (`args`), resolved against the environment (`plan`) and run (`cmd`); how it went becomes an
//! exit code in one place (`exit`). What the kinds of locks have in common is in `lock`, how they look in `view`.

mod args;
mod audit;
mod cells;
mod child;
mod clock;
mod cmd;
mod duration;
mod exit;
mod lock;
mod plan;
mod print;
mod progress;
mod signals;
mod times;
mod view;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

fn main() -> ExitCode {
    // Before anything else is read: its arguments belong to the command that it becomes.
    if let Some(exit) = child::run_if_asked() {
        return exit.into();
    }
    let exit = match args::Args::try_parse() {
        Ok(args) => plan::Plan::new(args).and_then(cmd::run).unwrap_or_else(fail),
        Err(error) => match print::usage(&error) {
            Ok(()) => Exit::of_usage(&error),
            Err(failure) => fail(failure),
        },
    };
    exit.into()
}

/// Says what went wrong; its kind decides the exit code.
fn fail(error: exit::Failure) -> Exit {
    print::complain(&error.to_string());
    error.exit()
}
