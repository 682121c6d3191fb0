//! The directory: files in it, who may use them, and what failures mean.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::doctor::{Finding, Level};
use crate::error::{Error, ErrorKind, Result};

use super::mount::System;

#[derive(Debug)]
pub(super) struct Dir {
    path: PathBuf,
}

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
        System::of(path).refuse_network(path)?;
        Ok(Dir { path: path.clone() })
    }

    /// Whether it is still fit for locks.
    pub(super) fn examined(&self, place: &str) -> Vec<Finding> {
        const SUBJECT: &str = "directory";
        let fault = |says: String| {
            let finding = Finding::new(Level::Fault, SUBJECT, place, says);
            let finding = finding.means("No lock can be acquired or released.");
            vec![finding.change(
                "Name a directory on this machine that every user of these locks may write to.",
            )]
        };
        if let Err(cause) =
            rustix::fs::access(&self.path, Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)
        {
            return fault(format!(
                "the directory cannot be read and written: {}",
                io::Error::from(cause)
            ));
        }
        let system = System::of(&self.path);
        if let Err(network) = system.refuse_network(&self.path) {
            return fault(network.to_string());
        }
        // The first lock of a state file makes that, and the first one of a process a file for the process.
        if let Ok(space) = rustix::fs::statvfs(&self.path)
            && (space.f_bavail == 0 || (space.f_files > 0 && space.f_favail == 0))
        {
            return fault("there is no space left for new files".to_owned());
        }
        if let System::Opaque(system) = system {
            let says =
                format!("the directory is on {system}, which may be shared with other machines");
            let finding = Finding::new(Level::Warning, SUBJECT, place, says).means(
                "If it is, a process of each machine can hold the same lock: file: locks hold on one machine only.",
            );
            return vec![finding.change("Name a directory on a local disk, or use redis://.")];
        }
        let says =
            "the directory is local and can be written to; its locks hold on this machine only";
        vec![Finding::new(Level::Ok, SUBJECT, place, says)]
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a file that was not there: whoever may write to the directory may use its locks.
    pub(super) fn create(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self.create_whole(path, flags) {
            Err(Errno::EXIST) => return Err(Errno::EXIST),
            Ok(file) => return Ok(file),
            Err(_) => {} // not every file system can do it
        }
        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
        self.share(&file);
        Ok(file)
    }

    /// Gives the file its name when it is shared already: others do not find it before, and being killed leaves nothing.
    #[cfg(target_os = "linux")]
    fn create_whole(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::open(&self.path, flags | OFlags::TMPFILE, mode)?;
        self.share(&file);
        let nameless = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, nameless, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    #[cfg(not(target_os = "linux"))]
    fn create_whole(&self, _: &Path, _: OFlags) -> Result<OwnedFd, Errno> {
        Err(Errno::OPNOTSUPP)
    }

    /// Creates a named pipe in the same way.
    pub(super) fn create_pipe(&self, path: &Path) -> Result<OwnedFd, Errno> {
        rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
        // For reading and writing: there always is a writer, so that it never ends.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let pipe = rustix::fs::open(path, flags, Mode::empty()).inspect_err(|_| {
            let _ = fs::remove_file(path);
        })?;
        self.share(&pipe);
        Ok(pipe)
    }

    /// As far as we may: whoever cannot be given access is told by its own errors.
    pub(super) fn share(&self, file: &OwnedFd) {
        let Ok(dir) = rustix::fs::stat(&self.path) else { return };
        let (owner, group) = (Uid::from_raw(dir.st_uid), Gid::from_raw(dir.st_gid));
        let us = geteuid();
        // Root may use anybody's directory, and must not keep its owner out, not even if it is killed. Of files that are
        // another's the owner is none of our business; for others than root this does nothing.
        if owner != us && rustix::fs::fstat(file).is_ok_and(|file| file.st_uid == us.as_raw()) {
            let _ = rustix::fs::fchown(file, Some(owner), Some(group));
        }
        // Whoever may only read gets nothing: that is enough to lock a file, and to keep everybody out.
        let shared = [(0o020, 0o060), (0o002, 0o006)];
        let shared = shared.iter().filter(|(writes, _)| dir.st_mode & writes != 0);
        let mode = shared.fold(0o600, |mode, (_, gets)| mode | gets);
        if mode != 0o600 {
            let _ = rustix::fs::fchown(file, None, Some(group));
            let _ = rustix::fs::fchmod(file, Mode::from_raw_mode(mode));
        }
    }

    /// The names of all files that begin so, without that beginning.
    pub(super) fn names(&self, prefix: &str) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let failed = |cause| trouble("cannot list", &self.path, cause);
        for file in fs::read_dir(&self.path).map_err(failed)? {
            // A name that is not UTF-8 is none of ours.
            let name = file.map_err(failed)?.file_name().into_string().unwrap_or_default();
            names.extend(name.strip_prefix(prefix).map(str::to_owned));
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A file that is open, and the name by which others find it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) opened: Stat,
}

impl Named {
    /// How it is now; `None` if it does not have that name any more.
    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        match rustix::fs::lstat(&self.path) {
            Ok(stat) => {
                let same = (stat.st_dev, stat.st_ino) == (self.opened.st_dev, self.opened.st_ino);
                Ok(same.then_some(stat))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// Whether others find it, as far as that can be told.
    pub(super) fn is_found(&self) -> bool {
        !matches!(self.stat(), Ok(None))
    }
}

/// Something that is not our state stands where it should be.
pub(super) fn conflict(path: &Path, why: &str) -> Error {
    let path = path.display();
    let advice = "nothing was changed; use another directory, or restore the file";
    Error::new(ErrorKind::Conflict, format!("cannot use {path}: {why}; {advice}"))
}

/// An operation failed before it changed anything.
pub(super) fn trouble(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    let cause = cause.into();
    let (kind, advice) = match Errno::from_io_error(&cause) {
        Some(Errno::ACCESS | Errno::PERM) => {
            (ErrorKind::Config, "; every user of a lock needs write access to its directory")
        }
        Some(Errno::ROFS) => (ErrorKind::Config, "; locks need a directory that can be written to"),
        Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
            (ErrorKind::Config, "; locks need a file system with file locks")
        }
        Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => {
            (ErrorKind::Unavailable, "; nothing was changed: make room on the disk")
        }
        Some(Errno::NOENT) => {
            (ErrorKind::Unavailable, "; if the directory was removed, its locks are lost")
        }
        _ => (ErrorKind::Unavailable, ""),
    };
    let message = format!("file: {what} {}: {cause}{advice}", path.display());
    Error::new(kind, message).with_source(cause)
}
