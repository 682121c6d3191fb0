//! Who is alive: a file for each process, locked for as long as that lives, which says who it is.
//!
//! A process is dead when two witnesses agree: the kernel has let go of the lock on its file, and no process with its pid and
//! start time is left, as far as that can be seen from here. From another pid namespace the lock alone has to do.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};

use super::bell;
use super::dir::{Dir, Named, trouble};

/// What the names of these files begin with.
const PREFIX: &str = "life-";

/// What those end with that are not to be found yet.
const FRESH: &str = "new";

/// They are not longer, in bytes.
const LONGEST: u64 = 512;

/// For how long somebody who was seen alive is believed to be.
const BELIEVED: Duration = Duration::from_millis(50);

/// This process's life, as others see it.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) id: Uuid,
    _locked: fs::File,
    pub(super) named: Named,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Alive,
    Dead,
    /// Its file is there, and nobody has locked it or written to it: it is being born, or died of that. It has nothing yet.
    Unborn,
    /// It left no trace: only its leases tell.
    Unknown,
}

fn file_name(id: Uuid) -> String {
    format!("{PREFIX}{}", id.simple())
}

impl Life {
    pub(super) fn begin(dir: &Dir, boot: Uuid) -> Result<Life> {
        loop {
            let id = Uuid::new_v4();
            let path = dir.file(&file_name(id));
            if let Some((locked, opened)) = be_born(dir, &path, boot)? {
                return Ok(Life { id, _locked: locked, named: Named { path, opened } });
            }
        }
    }

    /// Somebody has cleared up too much: makes it seen again.
    pub(super) fn show_again(&mut self, dir: &Dir, boot: Uuid) -> Result<()> {
        let path = &self.named.path;
        // Under another name until it is locked: nobody may take one who lives, and holds something, for dead.
        let fresh = path.with_extension(FRESH);
        let _ = fs::remove_file(&fresh);
        let Some((locked, opened)) = be_born(dir, &fresh, boot)? else { return Ok(()) };
        fs::rename(&fresh, path).map_err(|cause| {
            let _ = fs::remove_file(&fresh);
            trouble("cannot write", path, cause)
        })?;
        (self._locked, self.named.opened) = (locked, opened);
        tracing::warn!(
            target: "distlock", path = %self.named.path.display(),
            "the life file of this process had been removed; it was written again"
        );
        Ok(())
    }

    /// Ends it before the process does: nothing of it is left in the directory.
    pub(super) fn end(self) {
        let _ = fs::remove_file(&self.named.path);
    }
}

/// Makes the file of this process, locks it and writes to it who that is. `None` if somebody who clears up has taken it for
/// one that is left over: until it is locked it looks like that.
fn be_born(dir: &Dir, path: &Path, boot: Uuid) -> Result<Option<(fs::File, Stat)>> {
    let made = dir.create(path, OFlags::RDWR);
    breathe(made.map_err(|cause| trouble("cannot write", path, cause))?, path, boot)
}

/// The rest of it. Between the two anything may happen to the file.
pub(super) fn breathe(file: OwnedFd, path: &Path, boot: Uuid) -> Result<Option<(fs::File, Stat)>> {
    let failed = |what, cause: io::Error| {
        let _ = fs::remove_file(path);
        trouble(what, path, cause)
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN | Errno::INTR) => {
            let _ = fs::remove_file(path);
            return Ok(None);
        }
        Err(cause) => return Err(failed("cannot lock", cause.into())),
    }
    let stat = rustix::fs::fstat(&file).map_err(|cause| failed("cannot read", cause.into()))?;
    if stat.st_nlink == 0 {
        return Ok(None);
    }
    let mut file = fs::File::from(file);
    let text = Process::own(boot).text();
    file.write_all(text.as_bytes()).map_err(|cause| failed("cannot write", cause))?;
    Ok(Some((file, stat)))
}

/// Everybody who has a file in the directory.
pub(super) fn everybody(dir: &Dir) -> Result<Vec<Uuid>> {
    let names = dir.names(PREFIX)?;
    Ok(names.iter().filter_map(|name| Uuid::try_parse(name).ok()).collect())
}

/// Whether anything has the name of its file.
pub(super) fn has_file(dir: &Dir, id: Uuid) -> bool {
    !matches!(rustix::fs::lstat(dir.file(&file_name(id))), Err(Errno::NOENT))
}

/// Nothing of this one is left elsewhere: takes its pipe and its file away, if it is dead indeed. One that is being born finds
/// out, and is born again by another name.
pub(super) fn bury(dir: &Dir, id: Uuid) {
    if remove_unlocked(&dir.file(&file_name(id))) {
        bell::remove(dir, id);
    }
}

/// Takes away what those who were killed while they made themselves seen again have left. One who is about to do it does it
/// again.
pub(super) fn clear_away_fresh(dir: &Dir) {
    for name in dir.names(PREFIX).unwrap_or_default() {
        let fresh = name.strip_suffix(FRESH).and_then(|name| name.strip_suffix('.'));
        if fresh.is_some_and(|id| Uuid::try_parse(id).is_ok()) {
            remove_unlocked(&dir.file(&format!("{PREFIX}{name}")));
        }
    }
}

/// Whether it was there, nobody lives by it, and it is gone now.
fn remove_unlocked(path: &Path) -> bool {
    // Open until it is gone, and so locked: nobody can begin to live by it in between.
    let Some(file) = open(path) else { return false };
    !is_locked(&file) && fs::remove_file(path).is_ok()
}

/// Refuses a directory that is used by a process with another boot id, and that lives. No reboot is between it and us: it is in a
/// container that has a boot id of its own, or we are, and what it holds would look to us like something of an earlier boot.
pub(super) fn refuse_other_boots(dir: &Dir, boot: Uuid) -> Result<()> {
    let is_elsewhere = |id: Uuid| {
        let file = open(&dir.file(&file_name(id)))?;
        let process = Process::read(&file).filter(|process| process.boot != boot)?;
        is_locked(&file).then_some(process)
    };
    let Some(other) = everybody(dir)?.into_iter().find_map(is_elsewhere) else { return Ok(()) };
    let message = format!(
        "file: {} is also used by processes with another boot id ({}; here it is {boot}), as in containers that get a boot id of \
         their own (LXC, systemd-nspawn): they cannot share file: locks with their host or with each other; give each a \
         directory of its own, let them see the host's {BOOT_ID}, or use redis://",
        dir.path().display(),
        other.boot
    );
    Err(Error::new(ErrorKind::Config, message))
}

/// The file of a process. Whatever else somebody put there neither leads us away nor makes us wait.
fn open(path: &Path) -> Option<fs::File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    file.metadata().is_ok_and(|meta| meta.is_file()).then_some(file)
}

/// Whether its process has it locked. If not, that cannot lock it while the file stays open here. Whoever looks locks it like
/// this, so that nobody takes one who looks for the process.
fn is_locked(file: &fs::File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockShared).is_err()
}

/// What is known of others, for a moment at least.
#[derive(Debug)]
pub(super) struct Lives {
    boot: Uuid,
    seen: Mutex<HashMap<Uuid, (Instant, State)>>,
}

impl Lives {
    pub(super) fn new(boot: Uuid) -> Lives {
        Lives { boot, seen: Mutex::default() }
    }

    pub(super) fn state(&self, dir: &Dir, id: Uuid) -> State {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match seen.get(&id) {
            Some((_, State::Dead)) => return State::Dead,
            Some((when, state)) if when.elapsed() < BELIEVED => return *state,
            _ => {}
        }
        let state = self.look(dir, id);
        seen.retain(|_, (when, state)| *state == State::Dead || when.elapsed() < BELIEVED);
        seen.insert(id, (Instant::now(), state));
        state
    }

    /// Looks anew the next time.
    pub(super) fn doubt(&self, id: Uuid) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    fn look(&self, dir: &Dir, id: Uuid) -> State {
        let Some(file) = open(&dir.file(&file_name(id))) else { return State::Unknown };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {}
            Err(Errno::AGAIN) => return State::Alive,
            Err(_) => return State::Unknown,
        }
        match Process::read(&file) {
            Some(process) if process.boot == self.boot && process.is_running() => State::Alive,
            // It may be about to lock it: whoever took it for dead could take from it what it is about to get.
            None if file.metadata().is_ok_and(|meta| meta.len() == 0) => State::Unborn,
            _ => State::Dead,
        }
    }

    /// Something that can be polled for the end of this process; `None` if it cannot be had from here, or it has ended.
    pub(super) fn end_of(&self, dir: &Dir, id: Uuid) -> Option<OwnedFd> {
        let file = open(&dir.file(&file_name(id)))?;
        let process = Process::read(&file).filter(|process| process.boot == self.boot)?;
        if !process.is_near() {
            return None;
        }
        let pid = Pid::from_raw(process.pid)?;
        let fd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        // Looked at after it was opened: the number may be another process's by now.
        process.is_running().then_some(fd)
    }
}

/// Who a process is.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: i32,
    /// When it began, in the kernel's ticks since boot; a later process with the same pid began later.
    start: u64,
    /// Which pid namespace its pid is of; 0 if it could not tell.
    namespace: u64,
    boot: Uuid,
}

impl Process {
    fn own(boot: Uuid) -> Process {
        let pid = i32::try_from(std::process::id()).unwrap_or_default();
        let (start, namespace) = match stat_of(pid).zip(own_namespace()) {
            Some(((_, start), namespace)) => (start, namespace),
            None => (0, 0),
        };
        Process { pid, start, namespace, boot }
    }

    fn text(&self) -> String {
        let Process { pid, start, namespace, boot } = self;
        format!("distlock 2\npid {pid}\nstart {start}\nnamespace {namespace}\nboot {boot}\nend\n")
    }

    fn read(file: &fs::File) -> Option<Process> {
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        let mut lines = text.lines();
        let mut field = |key: &str| lines.next()?.strip_prefix(key)?.strip_prefix(' ');
        field("distlock").filter(|version| *version == "2")?;
        let pid = field("pid")?.parse().ok()?;
        let start = field("start")?.parse().ok()?;
        let namespace = field("namespace")?.parse().ok()?;
        let boot = Uuid::try_parse(field("boot")?).ok()?;
        (lines.next() == Some("end")).then_some(Process { pid, start, namespace, boot })
    }

    /// Whether its pid means something here.
    fn is_near(&self) -> bool {
        self.namespace != 0 && own_namespace() == Some(self.namespace)
    }

    /// Whether it is seen to run, not whether it does.
    fn is_running(&self) -> bool {
        self.is_near()
            && stat_of(self.pid).is_some_and(|(state, start)| {
                start == self.start && !matches!(state, 'Z' | 'X' | 'x')
            })
    }
}

fn own_namespace() -> Option<u64> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    let text = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?;
    text.parse().ok()
}

/// What the kernel says of a process: its state, and when it began.
fn stat_of(pid: i32) -> Option<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in parentheses and may have more of them.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Which boot this is: what is held counts from it, so an entry of another one is over, if nobody lives who is of that.
pub(super) fn boot_id() -> Result<Uuid> {
    let text = fs::read_to_string(BOOT_ID);
    let id = text.as_ref().ok().and_then(|text| Uuid::try_parse(text.trim()).ok());
    id.ok_or_else(|| {
        let message = format!("file: works on Linux only: it needs the boot id in {BOOT_ID}");
        Error::new(ErrorKind::Unsupported, message)
    })
}
