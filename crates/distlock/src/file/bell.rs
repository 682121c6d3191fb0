//! Calls between processes: each that listens has a named pipe, and whoever has something to call out writes to it.
//!
//! A pipe and not `inotify`, because only those who are called wake up, and nobody runs out of watches.

use std::fs;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use uuid::Uuid;

use crate::owner::Owner;

use super::code::Coded;
use super::dir::{Dir, Named};
use super::life;

/// How long a call is, with room to spare. Far below what a pipe takes in one piece.
const LENGTH: usize = 64;

/// Whoever finds so much in its pipe may have missed something: a full one takes no more.
const FULL: usize = 60 * 1024;

/// One call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// Which name, by its number.
    pub(super) hash: u128,
    pub(super) waiter: Option<Owner>,
    /// How often this one was called, this time included.
    pub(super) calls: u64,
}

impl Call {
    fn bytes(&self) -> [u8; LENGTH] {
        let mut out = self.hash.to_le_bytes().to_vec();
        self.waiter.write(&mut out);
        self.calls.write(&mut out);
        let mut bytes = [0; LENGTH];
        bytes[..out.len()].copy_from_slice(&out);
        bytes
    }

    fn read(mut bytes: &[u8]) -> Option<Call> {
        let hash = u128::from_le_bytes(super::code::take(&mut bytes, 16)?.try_into().ok()?);
        Some(Call { hash, waiter: Coded::read(&mut bytes)?, calls: Coded::read(&mut bytes)? })
    }
}

/// What the names of the pipes begin with.
const PREFIX: &str = "bell-";

fn file_name(process: Uuid) -> String {
    format!("{PREFIX}{}", process.simple())
}

/// The way to a pipe that somebody reads.
#[derive(Debug)]
pub(super) struct Wire {
    pipe: OwnedFd,
    _reader: OwnedFd,
}

impl Wire {
    /// `NXIO` if nobody reads it.
    pub(super) fn to(dir: &Dir, process: Uuid) -> Result<Wire, Errno> {
        let path = dir.file(&file_name(process));
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let pipe = rustix::fs::open(&path, flags | OFlags::WRONLY, Mode::empty())?;
        // Whatever else somebody put there is none of ours to write to.
        if !FileType::from_raw_mode(rustix::fs::fstat(&pipe)?.st_mode).is_fifo() {
            return Err(Errno::NXIO);
        }
        // If the last reader ended before the call, that would be a SIGPIPE, which ends a program that has set it back to its
        // default. So we are one, too.
        let _reader = rustix::fs::open(&path, flags | OFlags::RDONLY, Mode::empty())?;
        Ok(Wire { pipe, _reader })
    }

    pub(super) fn call(&self, call: &Call) -> Result<(), Errno> {
        rustix::io::write(&self.pipe, &call.bytes()).map(drop)
    }
}

/// Calls out to another process. `false` if that cannot hear any more.
pub(super) fn ring(dir: &Dir, process: Uuid, call: &Call) -> bool {
    match Wire::to(dir, process) {
        Ok(wire) => {
            // A full one need not be told: its owner looks at everything when it empties it.
            let _ = wire.call(call);
            true
        }
        // No reader, no pipe. Of anything else it finds out by itself when it looks, every now and then.
        Err(cause) => !matches!(cause, Errno::NXIO | Errno::NOENT),
    }
}

/// Takes away the pipes that nobody reads and that belong to nobody: one of a process that lives, or is still to be swept, has a
/// file of its own. Should somebody be about to read it, it is hung again.
pub(super) fn clear_away_deaf(dir: &Dir) {
    for name in dir.names(PREFIX).unwrap_or_default() {
        let Some(process) = Uuid::try_parse(&name).ok() else { continue };
        let path = dir.file(&file_name(process));
        let is_pipe = rustix::fs::lstat(&path)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_fifo());
        if is_pipe
            && !life::has_file(dir, process)
            && matches!(Wire::to(dir, process), Err(Errno::NXIO))
        {
            let _ = fs::remove_file(path);
        }
    }
}

/// Takes away the pipe of one that is dead.
pub(super) fn remove(dir: &Dir, process: Uuid) {
    let _ = fs::remove_file(dir.file(&file_name(process)));
}

/// This process's pipe.
#[derive(Debug)]
pub(super) struct Bell {
    pub(super) pipe: OwnedFd,
    pub(super) named: Named,
}

/// What was in the pipe.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) calls: Vec<Call>,
    /// There may have been more.
    pub(super) overflown: bool,
}

impl Bell {
    pub(super) fn hang(dir: &Dir, process: Uuid) -> Result<Bell, Errno> {
        let path = dir.file(&file_name(process));
        let pipe = dir.create_pipe(&path)?;
        let opened = rustix::fs::fstat(&pipe)?;
        Ok(Bell { pipe, named: Named { path, opened } })
    }

    /// Makes whoever waits for it look up.
    pub(super) fn nudge(&self) {
        let _ = rustix::io::write(&self.pipe, &[0xff; LENGTH]);
    }

    /// Everything that was called since the last time.
    pub(super) fn heard(&self) -> Heard {
        let (mut heard, mut total) = (Heard::default(), 0);
        let mut buffer = [0; 64 * LENGTH];
        while let Ok(read @ 1..) = rustix::io::read(&self.pipe, &mut buffer) {
            total += read;
            heard.calls.extend(buffer[..read].chunks(LENGTH).filter_map(Call::read));
            if total >= FULL {
                heard.overflown = true;
            }
        }
        heard
    }
}
