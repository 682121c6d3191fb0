//! Exit codes: every code that this program chooses is chosen here.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use distlock::{Error, ErrorKind};

/// The codes, for `--help`. Those of failures are the ones of `sysexits.h`.
pub(crate) const CODES: &str = "\
Exit codes of `run`: the exit code of the command, or
  64     wrong usage, a kind that the store does not offer, or a user, password or permission that
         the store refuses
  65     the name holds a lock of another kind, or data that is not a lock
  69     the store cannot be reached, does not reply, or refuses to work now
  70     the lock was lost; the command was stopped unless --on-lost is warn
  71     operating-system error (fork, thread, file, output)
  75     the lock was not acquired within --wait; -E sets another code
  126    the command cannot be executed
  127    the command was not found
  128+n  signal n ended the command, or the wait for the lock";

/// Those of the commands that run nothing.
pub(crate) const READING_CODES: &str = "\
Exit codes:
  0      done
  1      `unlock`: not confirmed, nothing was freed; `demo`: the lock did not exclude
  64     wrong usage, a kind that the store does not offer, or a user, password or permission that
         the store refuses
  65     the name holds a lock of another kind, or data that is not a lock
  69     the store cannot be reached, does not reply, or refuses to work now
  71     operating-system error (thread, file, output)
  128+n  signal n ended it";

/// Those of `doctor`.
pub(crate) const DOCTOR_CODES: &str = "\
Exit codes of `doctor`:
  0   no fault; there may be warnings
  1   at least one fault
  64  wrong usage
  69  no server could be reached
  71  operating-system error (output)";

/// Every way to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Done,
    /// In the demonstration the lock did not exclude.
    Inexact,
    /// The user did not confirm.
    Declined,
    /// The doctor found a fault.
    Faulty,
    /// The arguments, the URL or the name cannot be used, or not with this store; or the store refuses the user, the password or a
    /// permission.
    Usage,
    /// The name holds a lock of another kind, or data that is not a lock.
    Conflict,
    /// The store cannot be reached, does not reply, or refuses to work now.
    Unavailable,
    /// The lock was lost.
    Lost,
    /// An operating-system error: process, thread, signal handler, file, output.
    System,
    /// The lock was not acquired in time.
    NotAcquired,
    /// The same, with the code that the user chose (`-E`).
    NotAcquiredAs(u8),
    /// The command cannot be executed.
    NotExecutable,
    /// There is no such command.
    NotFound,
    /// A signal ended the wait for the lock.
    Signal(i32),
    /// The command ended.
    Command(ExitStatus),
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Inexact | Exit::Faulty | Exit::Declined => 1,
            Exit::Usage => 64,
            Exit::Conflict => 65,
            Exit::Unavailable => 69,
            Exit::Lost => 70,
            Exit::System => 71,
            Exit::NotAcquired => 75,
            Exit::NotAcquiredAs(code) => code,
            Exit::NotExecutable => 126,
            Exit::NotFound => 127,
            Exit::Signal(signal) => 128u8.saturating_add(signal as u8),
            Exit::Command(status) => match (status.code(), status.signal()) {
                (Some(code), _) => code as u8,
                (None, Some(signal)) => Exit::Signal(signal).code(),
                (None, None) => Exit::System.code(),
            },
        }
    }

    /// What the argument parser's verdict means: `--help` and `--version` are not errors.
    pub(crate) fn of_usage(error: &clap::Error) -> Exit {
        if error.use_stderr() { Exit::Usage } else { Exit::Done }
    }

    /// What the library's error means.
    pub(crate) fn of(error: &Error) -> Exit {
        use ErrorKind::*;
        match error.kind() {
            WaitTimeout => Exit::NotAcquired,
            NotHeld | Lost => Exit::Lost,
            InvalidName | InvalidDuration | Config | Unsupported => Exit::Usage,
            Conflict => Exit::Conflict,
            _ => Exit::Unavailable,
        }
    }

    /// Why a command could not be executed.
    pub(crate) fn of_exec(error: &std::io::Error) -> Exit {
        match error.kind() {
            std::io::ErrorKind::NotFound => Exit::NotFound,
            _ => Exit::NotExecutable,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why a command of ours did not get to its end.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not make sense together.
    Usage(String),
    /// The name holds something else than was asked for.
    Conflict(String),
    /// The library said so.
    Locks(Error),
    /// The system said so; the words say what was tried.
    System(&'static str, std::io::Error),
}

impl Failure {
    /// The way to end that it leads to.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Failure::Usage(_) => Exit::Usage,
            Failure::Conflict(_) => Exit::Conflict,
            Failure::Locks(error) => Exit::of(error),
            Failure::System(..) => Exit::System,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) | Failure::Conflict(message) => f.write_str(message),
            Failure::Locks(error) => error.fmt(f),
            Failure::System(what, cause) => write!(f, "cannot {what}: {cause}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Locks(error)
    }
}
