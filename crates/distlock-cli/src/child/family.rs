//! All that the command started, where it leads no process group: found by who descends from whom.
//!
//! Whatever loses its parent becomes our child, so that everything in the family descends from us for as long as it runs. What
//! starts a session of its own has left it.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions};

/// The dead whose parents died before them wait for us. Each keeps its number until then.
const BURIALS: Duration = Duration::from_secs(10);

/// The processes that descend from us.
pub(super) struct Family {
    /// This process; `None` where the system does not tell who descends from whom.
    us: Option<Process>,
    /// What descended from us before the command did: a shell that became us may have left it.
    others: Vec<Process>,
    buried: Instant,
}

/// A process, as it was when it was looked at.
#[derive(Clone, Debug)]
struct Process {
    pid: Pid,
    parent: i32,
    session: i32,
    /// When it was started: numbers are used again.
    began: u64,
    dead: bool,
}

impl Family {
    /// Call it before the command is started.
    pub(super) fn new() -> Family {
        let us = adopt().and_then(|pid| Process::read(&pid.to_string()));
        let mut family = Family { us, others: Vec::new(), buried: Instant::now() };
        family.others = family.descendants();
        family
    }

    /// Those that run.
    pub(super) fn living(&self) -> Vec<Pid> {
        let Some(us) = &self.us else { return Vec::new() };
        let found = self.descendants().into_iter();
        found.filter(|one| !one.dead && one.session == us.session).map(|one| one.pid).collect()
    }

    /// Waits for the dead that are ours to wait for, now and then; another task waits for `command`.
    pub(super) fn tidy(&mut self, command: Pid) {
        let Some(us) = &self.us else { return };
        if self.buried.elapsed() < BURIALS {
            return;
        }
        let ours = us.pid.as_raw_nonzero().get();
        for one in self.descendants() {
            if one.dead && one.parent == ours && one.pid != command {
                let _ = rustix::process::waitpid(Some(one.pid), WaitOptions::NOHANG);
            }
        }
        self.buried = Instant::now();
    }

    fn descendants(&self) -> Vec<Process> {
        let Some(us) = &self.us else { return Vec::new() };
        let others = |one: &Process| {
            self.others.iter().any(|other| (other.pid, other.began) == (one.pid, one.began))
        };
        let mut rest = all_processes();
        rest.retain(|one| !others(one));
        let mut found = Vec::new();
        let mut parents = vec![us.pid];
        while let Some(parent) = parents.pop() {
            let parent = parent.as_raw_nonzero().get();
            let (children, strangers) = rest.into_iter().partition(|one| one.parent == parent);
            rest = strangers;
            let children: Vec<Process> = children;
            parents.extend(children.iter().map(|child| child.pid));
            found.extend(children);
        }
        found
    }
}

/// Makes us the parent of all that lose theirs; who we are, if `/proc` calls us by the same number.
#[cfg(target_os = "linux")]
fn adopt() -> Option<i32> {
    let us = rustix::process::getpid();
    // That of another namespace has other numbers, and theirs are not to be signalled.
    let seen = fs::read_link("/proc/self").ok()?;
    let same = seen.to_str()?.parse() == Ok(us.as_raw_nonzero().get());
    (same && rustix::process::set_child_subreaper(Some(us)).is_ok())
        .then(|| us.as_raw_nonzero().get())
}

#[cfg(not(target_os = "linux"))]
fn adopt() -> Option<i32> {
    None
}

/// Whether the terminal that we were started from, if any, listens to us, as far as the system tells.
pub(super) fn in_foreground() -> bool {
    let stat = fs::read("/proc/self/stat").unwrap_or_default();
    listens(&String::from_utf8_lossy(&stat)).unwrap_or(false)
}

/// The same, read from `proc(5)`'s stat. A group that began in another namespace has no number, and cannot be compared.
fn listens(stat: &str) -> Option<bool> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let (ours, foreground): (i32, i32) =
        (fields.get(2)?.parse().ok()?, fields.get(5)?.parse().ok()?);
    Some(ours > 0 && ours == foreground)
}

/// Every process that can be seen. What starts or ends meanwhile may be missing.
fn all_processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .filter_map(|name| Process::read(&name))
        .collect()
}

impl Process {
    fn read(number: &str) -> Option<Process> {
        let stat = fs::read(format!("/proc/{number}/stat")).ok()?;
        Process::parse(number, &String::from_utf8_lossy(&stat))
    }

    /// Reads `proc(5)`'s stat. Names of programs stand in parentheses and may hold anything.
    fn parse(number: &str, stat: &str) -> Option<Process> {
        let pid = Pid::from_raw(number.parse().ok()?)?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        Some(Process {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
            dead: matches!(*fields.first()?, "Z" | "X"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_cannot_pass_for_another_by_its_name() {
        let stat = "42 (x) S 1 1 (1)) Z 7 8 9 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 12345 6 7";
        let seen = Process::parse("42", stat).unwrap();
        assert_eq!((seen.pid.as_raw_nonzero().get(), seen.parent, seen.session), (42, 7, 9));
        assert_eq!((seen.began, seen.dead), (12345, true));
        assert!(Process::parse("42", "42 (x) S 1").is_none());
    }

    #[test]
    fn a_terminal_listens_to_its_foreground_group_alone() {
        let stat = |group, foreground| format!("42 (x) S 1 {group} 9 34816 {foreground} 4194560 1");
        assert_eq!(listens(&stat(7, 7)), Some(true));
        // In the background, without a terminal, started from another namespace.
        for (group, foreground) in [(7, 8), (7, -1), (0, 0)] {
            assert_eq!(listens(&stat(group, foreground)), Some(false), "{group} {foreground}");
        }
        assert_eq!(listens("42 (x) S 1"), None);
    }

    #[test]
    fn we_are_among_those_that_are_seen() {
        let us = std::process::id();
        assert!(all_processes().iter().any(|one| one.pid.as_raw_nonzero().get() as u32 == us));
    }
}
