//! The directory: every system call that the file store makes, and what its failures mean.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{Access, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::doctor::{Finding, Level};
use crate::env::{Env, Moment, System};
use crate::error::{Error, ErrorKind, Result};

use super::name::Place;
use super::record::LARGEST;

#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
}

/// What a state file's metadata said: it differs after every change that a waiter must hear of.
pub(super) type Trace = Option<(u64, i64, i64, i64, i64)>;

impl Dir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the directory, making it, for this user alone, if it is not there.
    pub(super) fn open(path: &Path) -> Result<Dir> {
        let config = |what: &str, cause: io::Error| {
            let advice = "name a directory on this machine that you may write to";
            let message = format!("file: {} {what}: {cause}; {advice}", path.display());
            Error::new(ErrorKind::Config, message).with_source(cause)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|cause| {
            let what = if path.exists() { "is not a directory" } else { "cannot be created" };
            config(what, cause)
        })?;
        // Absolute from here on: the program may change its working directory.
        let path = &path.canonicalize().map_err(|cause| config("cannot be resolved", cause))?;
        rustix::fs::access(path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|cause| config("cannot be written to", cause.into()))?;
        refuse_network(path)?;
        Ok(Dir { path: path.clone() })
    }

    /// Whether it is still fit for locks.
    pub(super) fn examined(&self, place: &str) -> Vec<Finding> {
        const SUBJECT: &str = "directory";
        let fault = |says: String| {
            let finding = Finding::new(Level::Fault, SUBJECT, place, says);
            let finding = finding.means("No lock can be taken or released.");
            vec![finding.change(
                "Name a directory on this machine that every user of these locks may write to.",
            )]
        };
        if let Err(cause) =
            rustix::fs::access(&self.path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        {
            return fault(format!("it cannot be read and written: {}", io::Error::from(cause)));
        }
        if let Err(network) = refuse_network(&self.path) {
            return fault(network.to_string());
        }
        // A new lock is a new file.
        if let Ok(space) = rustix::fs::statvfs(&self.path)
            && (space.f_bavail == 0 || (space.f_files > 0 && space.f_favail == 0))
        {
            return fault("there is no space left for new files".to_owned());
        }
        let says = "it is local and can be written to; locks are for the processes of this machine";
        vec![Finding::new(Level::Ok, SUBJECT, place, says)]
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Enters the critical section around `place`, or says `None` if another is inside.
    pub(super) fn try_enter<'a>(&'a self, place: &'a Place) -> Result<Option<Inside<'a>>> {
        let path = self.file(&place.lock_file());
        let trouble = |cause: Errno| trouble("cannot lock", &path, cause.into());
        // Opened anew each time: an open file that two threads or a fork share would let both in.
        let lock = open_lock_file(&path).map_err(trouble)?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(cause) => return Err(trouble(cause)),
        }
        let inside = Inside { dir: self, place, lock };
        // A lock file that was deleted guards nothing: others will create, and lock, a new one.
        match rustix::fs::fstat(&inside.lock) {
            Ok(stat) if stat.st_nlink > 0 => Ok(Some(inside)),
            Ok(_) => Ok(None),
            Err(cause) => Err(trouble(cause)),
        }
    }

    /// The content of a state file, `None` if there is none. State files are replaced, never written to: a reader
    /// needs no lock to see the old or the new one whole.
    pub(super) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let path = self.file(name);
        // Neither a symbolic link nor a pipe that somebody put there may lead us away or make us wait.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(conflict(&path, "it is a symbolic link")),
            Err(cause) => return Err(trouble("cannot read", &path, cause.into())),
        };
        let meta = file.metadata().map_err(|cause| trouble("cannot read", &path, cause))?;
        if !meta.is_file() {
            return Err(conflict(&path, "it is not a file"));
        }
        let mut text = Vec::new();
        let read = file.take(LARGEST as u64 + 1).read_to_end(&mut text);
        read.map_err(|cause| trouble("cannot read", &path, cause))?;
        if text.len() > LARGEST {
            return Err(conflict(&path, "it is too large"));
        }
        if text.iter().all(|byte| *byte == 0) && written_before_boot(&meta) {
            // A power cut may keep a file's name and lose its content; what it held ended with that boot.
            return Ok(None);
        }
        Ok(Some(text))
    }

    /// What the metadata of a state file says now.
    pub(super) fn trace(&self, name: &str) -> Trace {
        let meta = fs::symlink_metadata(self.file(name)).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()))
    }

    /// Shows others that somebody here listens for a release at `place`.
    pub(super) fn be_present(&self, place: &Place) -> Option<Presence> {
        // It is a hint for others; we hear of releases with or without it.
        let presence = Presence(open_lock_file(&self.file(&place.presence_file())).ok()?);
        presence.renew();
        Some(presence)
    }

    /// Whether others listen for a release at `place`, or at one that shares its lock file.
    pub(super) fn others_are_present(&self, place: &Place, own: Option<&Presence>) -> bool {
        let alone = |file: &OwnedFd| {
            rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::AGAIN)
        };
        match own {
            Some(own) => {
                let alone = alone(&own.0);
                own.renew(); // whichever way it went, the shared lock is gone
                !alone
            }
            None => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let path = self.file(&place.presence_file());
                rustix::fs::open(path, flags, Mode::empty()).is_ok_and(|file| !alone(&file))
            }
        }
    }

    /// The names of all files that may hold a state.
    pub(super) fn names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let failed = |cause| trouble("cannot list", &self.path, cause);
        for file in fs::read_dir(&self.path).map_err(failed)? {
            // A name that is not UTF-8 is none of ours, and ours never begin with a dot.
            let name = file.map_err(failed)?.file_name().into_string();
            names.extend(name.ok().filter(|name| !name.starts_with('.')));
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A shared lock on a file that says "somebody here listens"; dropping it ends that.
#[derive(Debug)]
pub(super) struct Presence(OwnedFd);

impl Presence {
    /// Takes the lock again if it was lost to somebody who was just asking.
    pub(super) fn renew(&self) {
        let _ = rustix::fs::flock(&self.0, FlockOperation::NonBlockingLockShared);
    }
}

/// The inside of a critical section; dropping it leaves.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    dir: &'a Dir,
    place: &'a Place,
    lock: OwnedFd,
}

impl Inside<'_> {
    /// Replaces the state in one step: a kill at any point leaves the old state or the new one.
    pub(super) fn replace(&self, text: &str) -> Result<()> {
        let path = self.dir.file(&self.place.draft_file());
        let state = self.dir.file(&self.place.file);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || rustix::fs::open(&path, flags, Mode::from_raw_mode(0o666));
        let draft = match create() {
            // Left by a writer that was killed; we are inside, so it is nobody's.
            Err(Errno::EXIST) => rustix::fs::unlink(&path).and_then(|()| create()),
            other => other,
        };
        // Not synced to the disk: a lock need not outlive the boot, see `expires`.
        let written = draft.map_err(io::Error::from).and_then(|draft| {
            File::from(draft).write_all(text.as_bytes())?;
            fs::rename(&path, &state)
        });
        written.map_err(|cause| trouble("cannot write", &state, cause))
    }

    /// Removes the state: the lock is free.
    pub(super) fn remove(&self) -> Result<()> {
        let state = self.dir.file(&self.place.file);
        match fs::remove_file(&state) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(trouble("cannot remove", &state, cause))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Closing alone would not do: a child forked this instant by another thread has the file open until it execs.
        if let Err(cause) = rustix::fs::flock(&self.lock, FlockOperation::Unlock) {
            tracing::warn!(target: "distlock", %cause, "cannot unlock; closing the file will");
        }
    }
}

/// Opens a lock file. Creates it only if it is missing: in a sticky directory the kernel refuses O_CREATE on another
/// user's file.
fn open_lock_file(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => {
            rustix::fs::open(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o666))
        }
        other => other,
    }
}

/// Something that is not our state stands where it should be.
pub(super) fn conflict(path: &Path, why: &str) -> Error {
    let path = path.display();
    let advice = "nothing was changed; remove the file if you know that nobody holds the lock";
    Error::new(ErrorKind::Conflict, format!("cannot use {path}: {why}; {advice}"))
}

/// An operation failed before it changed anything.
fn trouble(what: &str, path: &Path, cause: io::Error) -> Error {
    let (kind, advice) = match Errno::from_io_error(&cause) {
        Some(Errno::ACCESS | Errno::PERM) => {
            (ErrorKind::Config, "; every user of a lock needs write access to its directory")
        }
        Some(Errno::ROFS) => (ErrorKind::Config, "; locks need a directory that can be written to"),
        Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
            (ErrorKind::Config, "; locks need a file system with file locks")
        }
        Some(Errno::NOSPC | Errno::DQUOT) => (ErrorKind::Unavailable, "; make room on the disk"),
        Some(Errno::NOENT) => (ErrorKind::Unavailable, "; was the directory removed?"),
        _ => (ErrorKind::Unavailable, ""),
    };
    let message = format!("file: {what} {}: {cause}{advice}", path.display());
    Error::new(kind, message).with_source(cause)
}

/// An expiry counts from one machine's boot: on another machine it would look like one of an earlier boot, and both
/// would hold the lock.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn refuse_network(path: &Path) -> Result<()> {
    // By the magic number that `statfs` gives.
    const NETWORK: [(u32, &str); 4] =
        [(0x6969, "NFS"), (0xff53_4d42, "CIFS"), (0xfe53_4d42, "SMB"), (0x00c3_6400, "Ceph")];
    let Ok(stat) = rustix::fs::statfs(path) else { return Ok(()) };
    let magic = stat.f_type as u32;
    let Some((_, system)) = NETWORK.iter().find(|(known, _)| *known == magic) else {
        return Ok(());
    };
    let message = format!(
        "file: {} is on {system}, but file: locks hold on one machine only; name a local directory, or use redis://",
        path.display()
    );
    Err(Error::new(ErrorKind::Config, message))
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn refuse_network(_: &Path) -> Result<()> {
    Ok(())
}

fn written_before_boot(meta: &fs::Metadata) -> bool {
    let uptime = System.now().since(Moment::from_origin(Duration::ZERO));
    let booted = SystemTime::now().checked_sub(uptime);
    meta.modified().ok().zip(booted).is_some_and(|(written, booted)| written < booted)
}
