//! A directory that goes away with its owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A new directory under the system's temporary directory, removed on drop; or a look at that of another process.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Whether this process made it and removes it.
    owned: bool,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            // Short: the path of a Unix socket may have no more than 107 bytes.
            let name = format!("dlkit-{}-{next}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match fs::create_dir(&path) {
                Ok(()) => return Scratch { path, owned: true },
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("cannot create {}: {error}", path.display()),
            }
        }
    }

    /// The directory of another process, which is the one that removes it.
    pub(crate) fn borrowed(path: impl Into<PathBuf>) -> Self {
        Scratch { path: path.into(), owned: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.owned {
            // Nothing to be done about a directory that cannot be removed.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
