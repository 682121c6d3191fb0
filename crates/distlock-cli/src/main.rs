//! The `distlock` command: run a program under a lock, show who holds one, free one.
//!
//! Arguments are parsed (`args`), resolved against the environment (`plan`) and run (`cmd`); the result becomes an
//! exit code in one place (`exit`). What the kinds of locks have in common is in `lock`, which kind a name holds in `find`, and how
//! locks are printed in `view`.

mod args;
mod audit;
mod cells;
mod child;
mod clock;
mod cmd;
mod duration;
mod exit;
mod find;
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
        Err(error) => refused(&error),
    };
    exit.into()
}

/// Prints what the argument parser says: help, the version, or what is wrong.
fn refused(error: &clap::Error) -> Exit {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    if error.use_stderr()
        && let Some(text) = args::separator::missing(&args)
    {
        return fail(exit::Failure::Usage(text));
    }
    match print::usage(error) {
        Ok(()) => Exit::of_usage(error),
        Err(failure) => fail(failure),
    }
}

/// Says what went wrong; its kind decides the exit code.
fn fail(error: exit::Failure) -> Exit {
    print::complain(&error.to_string());
    error.exit()
}
