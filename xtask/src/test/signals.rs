//! Tests start with the signals that ask a program to end at their defaults.
//!
//! Shells with jobs in the background, `nohup` and some CI services ignore SIGINT or SIGHUP, and a process hands that on to what it
//! starts. A test that interrupts a program would then wait for nothing. Only `env` can undo it before the test begins: between fork and
//! exec a Rust program would need unsafe code.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// SIGHUP, SIGINT and SIGQUIT as bits of the mask that the kernel shows.
const ENDING: u64 = 0b111;
const TO_DEFAULT: &str = "--default-signal=HUP,INT,QUIT";

/// A command that runs this program with these signals at their defaults, as far as `env` can do that.
pub(crate) fn command(program: &Path) -> Command {
    static THROUGH_ENV: OnceLock<bool> = OnceLock::new();
    if !*THROUGH_ENV.get_or_init(|| are_ignored() && can_reset()) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg(TO_DEFAULT).arg(program);
    command
}

fn are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & ENDING != 0
}

/// The mask of ignored signals in `/proc/PID/status`.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Older versions of `env` cannot, nor those of other systems.
fn can_reset() -> bool {
    let mut env = Command::new("env");
    env.args([TO_DEFAULT, "true"]).stdin(Stdio::null()).stderr(Stdio::null());
    env.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_is_read_from_the_line_of_its_name() {
        assert_eq!(ignored("SigBlk:\t00000000000000ff\nSigIgn:\t0000000000001003\n"), 0x1003);
        assert_eq!(ignored(""), 0);
    }

    #[test]
    fn env_starts_a_program_with_the_defaults() {
        if !can_reset() {
            return;
        }
        // The shell ignores the signals, as a job in the background does, and hands that on.
        let script = format!("trap '' HUP INT QUIT; exec env {TO_DEFAULT} cat /proc/self/status");
        let shown = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(ignored(&String::from_utf8(shown.stdout).unwrap()) & ENDING, 0);
    }
}
