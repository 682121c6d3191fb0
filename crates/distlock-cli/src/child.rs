//! The command: started so that it dies with us, and signalled with everything that it started.
//!
//! What must happen in other processes happens in copies of this program, started through hidden subcommands: doing
//! it between fork and exec needs unsafe code.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::exit::Exit;
use crate::print;

/// Becomes the command.
const CHILD: &str = "__child";

/// Kills the command's process group if we are gone.
const GUARDIAN: &str = "__guardian";

/// What the guardian is told last if there is nothing to kill.
const ALL_IS_WELL: &str = "!";

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    /// There if the command leads a process group of its own.
    guardian: Option<Guardian>,
    /// Whether it has been said that signals do not reach it.
    out_of_reach: bool,
}

impl Child {
    /// Starts `command`, with these variables in its environment; those without a value are taken out of it.
    ///
    /// Call it from the main thread: the command dies with the thread that started it.
    pub(crate) fn start(
        command: &[OsString],
        vars: &[(&str, Option<String>)],
    ) -> io::Result<Child> {
        // In a process group of its own it can be signalled together with what it starts. But a terminal lets only
        // its foreground group read, so a command that may talk to the user stays in ours.
        let leads = !io::stdin().is_terminal();
        let mut starter = tokio::process::Command::new(ourselves()?);
        starter.arg0("distlock").arg(CHILD).arg(std::process::id().to_string()).args(command);
        for (key, value) in vars {
            match value {
                Some(value) => starter.env(key, value),
                None => starter.env_remove(key),
            };
        }
        if leads {
            starter.process_group(0);
        }
        starter.kill_on_drop(true);
        // It is there before the command is, and knows of it before the command can have started anything.
        let mut guardian = leads.then(Guardian::start).transpose()?;
        let process = starter.spawn()?;
        let pid = process.id().and_then(|pid| Pid::from_raw(pid as i32));
        let pid = pid.expect("BUG: a process that was not waited for has an id");
        if let Some(guardian) = &mut guardian
            && let Err(cause) = guardian.watch(pid)
        {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            return Err(cause);
        }
        Ok(Child { process, pid, guardian, out_of_reach: false })
    }

    /// Whether it leads a process group of its own; otherwise the terminal's signals reach it without us.
    pub(crate) fn leads(&self) -> bool {
        self.guardian.is_some()
    }

    /// Sends a signal to the command and, as far as it leads them, to all it started.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let sent = match self.process.id() {
            _ if self.leads() => rustix::process::kill_process_group(self.pid, signal),
            Some(_) => rustix::process::kill_process(self.pid, signal),
            None => Ok(()),
        };
        // Any other error means that nobody is left to hear it.
        if sent == Err(Errno::PERM) && !self.out_of_reach {
            self.out_of_reach = true;
            print::complain(
                "the command runs as another user and cannot be signalled: it may outlive the lock",
            );
        }
    }

    /// Waits for the command itself. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// All is well: what the command left running may stay. A command that is dropped without this is killed.
    pub(crate) fn dismiss(mut self) {
        if let Some(guardian) = &mut self.guardian {
            let _ = guardian.tell(ALL_IS_WELL);
        }
    }

    /// Whether anything that the command started is still there after it ended.
    pub(crate) fn left_something(&self) -> bool {
        // As the first process of a container we inherit what it started, and the dead count until they are waited for.
        while self.leads()
            && matches!(rustix::process::waitpgid(self.pid, WaitOptions::NOHANG), Ok(Some(_)))
        {
        }
        // What may not be signalled is there, too.
        self.leads() && rustix::process::test_kill_process_group(self.pid) != Err(Errno::SRCH)
    }
}

/// A process that outlives us, to kill what the command started if we are killed. The kernel does that for the command
/// alone, and a shell that dies leaves its current command at work without the lock.
struct Guardian(std::process::Child);

impl Guardian {
    fn start() -> io::Result<Guardian> {
        let mut command = Command::new(ourselves()?);
        // A group of its own, so that signals from a terminal spare it. It must not keep our output open.
        command.arg0("distlock").arg(GUARDIAN).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Guardian)
    }

    fn watch(&mut self, group: Pid) -> io::Result<()> {
        self.tell(&format!("{}\n", group.as_raw_nonzero()))
    }

    fn tell(&mut self, word: &str) -> io::Result<()> {
        self.0.stdin.as_mut().map_or(Ok(()), |pipe| pipe.write_all(word.as_bytes()))
    }

    /// What it does: waits for the word that all is well, or for the end of whoever should have given it.
    fn be() -> io::Result<()> {
        let mut told = String::new();
        io::stdin().read_to_string(&mut told)?;
        if let Some((group, "")) = told.split_once('\n')
            && let Some(group) = group.parse().ok().and_then(Pid::from_raw)
        {
            rustix::process::kill_process_group(group, Signal::KILL)?;
        }
        Ok(())
    }
}

impl Drop for Guardian {
    /// Unless it was told that all is well it kills: also when an error or a panic is what takes us here.
    fn drop(&mut self) {
        let _ = self.0.wait(); // closes the pipe first
    }
}

/// Our own executable, even if it was replaced or removed since we started.
fn ourselves() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Runs the hidden subcommands. `None` if none was asked for.
pub(crate) fn run_if_asked() -> Option<Exit> {
    let mut args = std::env::args_os().skip(1);
    let subcommand = args.next()?;
    if subcommand == CHILD {
        let parent = args.next()?.to_str().and_then(|pid| Pid::from_raw(pid.parse().ok()?))?;
        let program = args.next()?;
        Some(become_command(parent, &program, args))
    } else if subcommand == GUARDIAN {
        // An error means that nobody is left to be killed.
        let _ = Guardian::be();
        Some(Exit::Done)
    } else {
        None
    }
}

/// Does not return, unless to say why it could not.
fn become_command(parent: Pid, program: &OsString, args: impl Iterator<Item = OsString>) -> Exit {
    if let Err(cause) = die_with(parent) {
        print::complain(&format!("cannot tie the command to this process: {cause}"));
        return Exit::System;
    }
    let cause = Command::new(program).args(args).exec();
    print::complain(&format!("cannot run {}: {cause}", print::name(&program.to_string_lossy())));
    Exit::of_exec(&cause)
}

/// If we are killed, nobody renews the lock and nobody would stop the command: the kernel does.
#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before that call.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::other("it is gone"));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: Pid) -> io::Result<()> {
    Ok(())
}
