//! The command, as a process: what it prints, the codes it ends with, and what becomes of what it runs.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod cli;
mod docs;
mod doctor;
mod finding;
mod flock;
mod json;
mod kinds;
mod lost;
mod manual;
mod moving;
mod on_terminal;
mod output;
mod permits;
mod run;
mod signals;
mod support;
mod told;
mod unlock;
mod warnings;
mod watch;
