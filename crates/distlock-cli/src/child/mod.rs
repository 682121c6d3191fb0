//! The command: started so that it dies with us, and signalled with everything that it started.
//!
//! What must happen in other processes happens in copies of this program, started through hidden subcommands: doing
//! it between fork and exec needs unsafe code.

mod family;

use std::collections::HashSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};

use crate::exit::Exit;
use crate::print;
use family::Family;

/// Becomes the command.
const CHILD: &str = "__child";

/// Kills the command's process group if we are gone.
const GUARDIAN: &str = "__guardian";

/// A family may grow while it is killed: it is looked for again this often at most.
const GENERATIONS: u32 = 20;

/// What the guardian is told last if there is nothing to kill.
const ALL_IS_WELL: &str = "!";

/// A running command.
pub(crate) struct Child {
    process: tokio::process::Child,
    pid: Pid,
    reach: Reach,
    /// Whether it has been said that signals do not reach it.
    out_of_reach: bool,
}

/// Whom a signal to the command reaches.
enum Reach {
    /// The process group that it leads.
    Group(Guardian),
    /// Those that descend from it, in a process group that it shares with us, and maybe with others.
    Family(Family),
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
        // its foreground group read, so a command that may talk to the user stays in ours. In `… | distlock run` standard
        // input is something else, but one that asks for a password opens the terminal itself.
        let leads = !io::stdin().is_terminal() && !family::in_foreground();
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
        // It is there before the command is, and is told of it at once.
        let mut reach = match leads {
            true => Reach::Group(Guardian::start()?),
            false => Reach::Family(Family::new()),
        };
        let process = starter.spawn()?;
        let pid = process.id().and_then(|pid| Pid::from_raw(pid as i32));
        let pid = pid.expect("BUG: a process that was not waited for has an id");
        if let Reach::Group(guardian) = &mut reach
            && let Err(cause) = guardian.watch(pid)
        {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            return Err(cause);
        }
        Ok(Child { process, pid, reach, out_of_reach: false })
    }

    /// Whether it leads a process group of its own; otherwise the terminal's signals reach it without us.
    pub(crate) fn leads(&self) -> bool {
        matches!(self.reach, Reach::Group(_))
    }

    /// Sends a signal to the command and to all it started, as far as that is known. What is stopped wakes up: it could not
    /// act on a signal, nor end.
    pub(crate) fn signal(&mut self, signal: Signal) {
        let mut told = HashSet::new();
        // What is started while we look is found when we look again. But what starts after SIGTERM may be clearing up.
        let looks = if signal == Signal::KILL { GENERATIONS } else { 1 };
        for _ in 0..looks {
            let mut new = match &self.reach {
                Reach::Group(_) => vec![self.pid],
                Reach::Family(family) if signal == Signal::TERM || signal == Signal::KILL => {
                    family.living()
                }
                // A terminal that hangs up tells all who are on it.
                Reach::Family(_) => Vec::new(),
            };
            // Others of the family, or all, may be hidden from us.
            new.extend(self.process.id().map(|_| self.pid));
            new.retain(|pid| told.insert(*pid));
            if new.is_empty() {
                break;
            }
            for pid in new {
                self.send(pid, signal);
                if signal != Signal::KILL {
                    self.send(pid, Signal::CONT);
                }
            }
        }
    }

    /// Sends a signal to the command alone.
    pub(crate) fn signal_alone(&mut self, signal: Signal) {
        // Once it has been waited for, its number may be another's.
        if self.process.id().is_some() {
            let sent = rustix::process::kill_process(self.pid, signal);
            self.note(sent);
        }
    }

    /// To one of those that a signal goes to: a process group, or a process.
    fn send(&mut self, to: Pid, signal: Signal) {
        let sent = match self.reach {
            Reach::Group(_) => rustix::process::kill_process_group(to, signal),
            Reach::Family(_) => rustix::process::kill_process(to, signal),
        };
        self.note(sent);
    }

    fn note(&mut self, sent: Result<(), Errno>) {
        // Any other error means that no process is left to receive it.
        if sent == Err(Errno::PERM) && !self.out_of_reach {
            self.out_of_reach = true;
            print::complain(
                "the command runs as another user and cannot be signalled: it may outlive the lock; run distlock as that user",
            );
        }
    }

    /// Does now and then what a parent must do.
    pub(crate) fn tidy(&mut self) {
        if let Reach::Family(family) = &mut self.reach {
            family.tidy(self.pid);
        }
    }

    /// Waits for the command itself. Cancel safe.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// All is well: what the command left running may stay. A command that is dropped without this is killed.
    pub(crate) fn dismiss(mut self) {
        if let Reach::Group(guardian) = &mut self.reach {
            let _ = guardian.tell(ALL_IS_WELL);
        }
    }

    /// Whether anything that the command started is still there after it ended.
    pub(crate) fn left_something(&self) -> bool {
        match &self.reach {
            Reach::Family(family) => !family.living().is_empty(),
            Reach::Group(_) => {
                // As the first process of a container we inherit what it started, and the dead count until they are
                // waited for.
                let dead = || rustix::process::waitpgid(self.pid, WaitOptions::NOHANG);
                while matches!(dead(), Ok(Some(_))) {}
                // What may not be signalled is there, too.
                rustix::process::test_kill_process_group(self.pid) != Err(Errno::SRCH)
            }
        }
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

    /// What it does: waits for the word that all is well, or for the end of the process that should have given it.
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
        // An error means that no process is left to be killed.
        let _ = Guardian::be();
        Some(Exit::Done)
    } else {
        None
    }
}

/// Does not return, unless to say why it could not.
fn become_command(parent: Pid, program: &OsString, args: impl Iterator<Item = OsString>) -> Exit {
    if let Err(cause) = die_with(parent) {
        print::complain(&format!("cannot make the command end with this process: {cause}"));
        return Exit::System;
    }
    let cause = Command::new(program).args(args).exec();
    print::complain(&format!("cannot run {}: {cause}", print::name(&program.to_string_lossy())));
    Exit::of_exec(&cause)
}

/// If this process is killed, the lock is not renewed, and the kernel must kill the command.
#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before that call.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::Error::other("the parent process has ended"));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_: Pid) -> io::Result<()> {
    Ok(())
}
