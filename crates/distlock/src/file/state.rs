//! A state file: a page of records, written so that a process that is killed at any point leaves the old page or the new one.
//!
//! ```text
//! 0    distlock, version, capacity, generation, length, base, checksum of the page, boot, checksum of this header
//! 64   at first the base: slot 0, as many bytes as the capacity, then slot 1
//! ```
//! The page is in the slot that the lowest bit of the generation names. A step writes its page to the other one, then the header
//! of 64 bytes, which is what makes it count: of a page that was cut off nothing is ever read. A page that has outgrown its slots
//! gets larger ones behind them, and a small one goes back to the beginning. Nothing is synced to the disk: what is held ends
//! with the boot.

use std::fs::{self, File};
use std::io::{self, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use uuid::Uuid;

use crate::env::{Env, Moment, System};
use crate::error::Result;

use super::dir::{Dir, Named, conflict, trouble};
use super::header::{HEADER, Header, OTHER_VERSION, Room, sum};
use super::life;
use super::record::{Page, Wrong};

/// No state file is larger: about a million holds.
const LARGEST: u64 = 256 << 20;

/// What the names of state files begin with.
pub(super) const PREFIX: &str = "locks-";

/// A state file that is open. Its lock belongs to this open file, which threads must not share without a mutex of their own.
#[derive(Debug)]
pub(super) struct StateFile {
    file: File,
    pub(super) named: Named,
}

/// What a state file says.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) page: Vec<u8>,
    generation: u64,
    room: Room,
}

pub(super) fn path(dir: &Dir, stripe: usize) -> PathBuf {
    dir.file(&format!("{PREFIX}{stripe:02}"))
}

impl StateFile {
    /// Opens the file; makes it if that is wanted.
    pub(super) fn open(dir: &Dir, stripe: usize, make: bool) -> Result<Option<StateFile>> {
        let path = path(dir, stripe);
        // Neither a symbolic link nor a pipe that somebody put there may lead us away or make us wait.
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        loop {
            let file = match rustix::fs::open(&path, flags, Mode::empty()) {
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(Errno::NOENT) => match dir.create(&path, OFlags::RDWR) {
                    Err(Errno::EXIST) => continue, // another was faster
                    other => other,
                },
                other => other,
            };
            let file: OwnedFd = match file {
                Ok(file) => file,
                Err(Errno::LOOP) => return Err(conflict(&path, "it is a symbolic link")),
                Err(Errno::ISDIR) => return Err(conflict(&path, "it is a directory")),
                Err(cause) => return Err(trouble("cannot open", &path, cause)),
            };
            let failed = |cause| trouble("cannot open", &path, cause);
            let stat = rustix::fs::fstat(&file).map_err(failed)?;
            if !FileType::from_raw_mode(stat.st_mode).is_file() {
                return Err(conflict(&path, "it is not a file"));
            }
            // Whoever made it may have been killed before it was shared. With something in it it may be anybody's.
            if stat.st_size == 0 && stat.st_nlink == 1 {
                dir.share(&file);
            }
            return Ok(Some(StateFile { file: file.into(), named: Named { path, opened: stat } }));
        }
    }

    /// Whether the lock was free and is ours now.
    pub(super) fn try_lock(&self) -> Result<bool, Errno> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(cause) => Err(cause),
        }
    }

    pub(super) fn unlock(&self) {
        // Closing alone would not do: a child forked this instant by another thread has the file open until it execs.
        if let Err(cause) = rustix::fs::flock(&self.file, FlockOperation::Unlock) {
            tracing::warn!(target: "distlock", %cause, "cannot unlock the file: closing it unlocks it");
        }
    }

    /// What it says. Locked.
    pub(super) fn read(&self, dir: &Dir, stat: &Stat, boot: Uuid) -> Result<Content> {
        let path = &self.named.path;
        let failed = |cause| trouble("cannot read", path, cause);
        let size = stat.st_size.unsigned_abs();
        if size > LARGEST {
            return Err(conflict(path, "it is too large"));
        }
        let mut start = [0; 4096];
        let read = read_full(&self.file, &mut start, 0).map_err(failed)?;
        let start = &start[..read];
        let header = match Header::read(start) {
            Ok(header) => header,
            Err(OTHER_VERSION) => return Err(conflict(path, OTHER_VERSION)),
            // Under another name it may be anything, and somebody needs it.
            Err(why) => {
                let torn = stat.st_nlink == 1 && written_before_boot(stat);
                return self.broken(dir, why, torn, boot);
            }
        };
        let Some(header) = header else { return Ok(Content::blank()) };
        let (at, len) = (header.slot(), header.length as usize);
        let page = match start.get(at..at + len) {
            Some(page) => page.to_vec(),
            None if (at + len) as u64 > size => Vec::new(),
            None => {
                let mut page = vec![0; len];
                let read = read_full(&self.file, &mut page, at as u64).map_err(failed)?;
                page.truncate(read);
                page
            }
        };
        if page.len() != len || sum(&page) != header.sum {
            return self.broken(dir, "it is damaged", header.boot != boot, boot);
        }
        let mut content = Content { page, generation: header.generation, room: header.room };
        if header.boot != boot {
            life::refuse_other_boots(dir, boot)?;
            let page = Page::read(&content.page).and_then(|page| page.after_boot());
            content.page = page.map_err(|why| conflict(path, why))?;
        }
        Ok(content)
    }

    /// Something is wrong with it. A power cut may do that; then what it held ended with that boot, and it begins anew.
    fn broken(&self, dir: &Dir, why: Wrong, earlier_boot: bool, boot: Uuid) -> Result<Content> {
        let path = &self.named.path;
        if !earlier_boot {
            return Err(conflict(path, why));
        }
        life::refuse_other_boots(dir, boot)?;
        let kept = path.with_extension("torn");
        let copied = self.copy_to(dir, &kept).map_err(|cause| cause.to_string());
        tracing::warn!(
            target: "distlock", path = %path.display(), kept = %kept.display(), ?copied,
            "a power cut damaged this file: it was replaced by an empty one, and semaphores and latches in it must be set again"
        );
        Ok(Content::blank())
    }

    /// Copies it to a new file: whatever has that name, also a link to a file elsewhere, is taken away and never written to.
    fn copy_to(&self, dir: &Dir, path: &Path) -> io::Result<u64> {
        let _ = fs::remove_file(path);
        let mut copy = File::from(dir.create(path, OFlags::WRONLY)?);
        let mut own = &self.file;
        own.rewind()?;
        io::copy(&mut own, &mut copy)
    }

    /// Replaces what it says in one step. Locked. A failure has changed nothing, unless it is one of the disk.
    pub(super) fn write(&self, content: &Content, page: &[u8], boot: Uuid) -> Result<()> {
        let failed = |cause| trouble("cannot write", &self.named.path, cause);
        let room = content.room.for_page(page.len());
        let header = Header {
            room,
            generation: content.generation.wrapping_add(1),
            length: u32::try_from(page.len()).unwrap_or(u32::MAX),
            sum: sum(page),
            boot,
        };
        let at = header.slot();
        if room == content.room {
            self.file.write_all_at(page, at as u64).map_err(failed)?;
        } else {
            if room.end() as u64 > LARGEST {
                let cause = io::Error::other("there are too many locks for one directory");
                return Err(failed(cause));
            }
            // All of it, so that the disk has set the space aside: a release must not fail for want of it.
            let mut slots = vec![0; 2 * room.capacity];
            slots[at - room.base..][..page.len()].copy_from_slice(page);
            self.file.write_all_at(&slots, room.base as u64).map_err(failed)?;
        }
        self.file.write_all_at(&header.bytes(), 0).map_err(failed)?;
        if room.end() < content.room.end() {
            let _ = self.file.set_len(room.end() as u64);
        }
        Ok(())
    }

    /// Takes its name away. Locked, and blank.
    pub(super) fn remove(&self) {
        let _ = fs::remove_file(&self.named.path);
    }
}

impl Content {
    fn blank() -> Content {
        Content { page: Vec::new(), generation: 0, room: Room { base: HEADER, capacity: 0 } }
    }
}

/// As much as there is.
fn read_full(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match file.read_at(&mut buffer[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(read) => done += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(done)
}

fn written_before_boot(stat: &Stat) -> bool {
    let uptime = System.now().since(Moment::from_origin(Duration::ZERO));
    let written = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or_default()));
    written
        .zip(SystemTime::now().checked_sub(uptime))
        .is_some_and(|(written, booted)| written < booted)
}
