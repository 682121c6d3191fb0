//! Temporary directories.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A fresh directory that is removed with this value.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Its path is short: the path of a socket has at most 107 bytes.
    pub(crate) fn new() -> Result<Scratch, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("xtask-{}-{n}", std::process::id()));
        let made = std::fs::create_dir_all(&path);
        made.map_err(|error| format!("cannot create {}: {error}", path.display()))?;
        Ok(Scratch(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
