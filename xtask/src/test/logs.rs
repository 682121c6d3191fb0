//! The outputs of failed tests, kept under `target/test-logs`.

use std::fs;
use std::path::{Path, PathBuf};

/// A file name has at most 255 bytes; `.1.log` and a mark need a few.
const LONGEST: usize = 230;

/// The directory of this run's logs.
pub(crate) struct Logs {
    dir: PathBuf,
    /// Paths are told relative to it.
    root: PathBuf,
}

impl Logs {
    /// Empties the directory: what is in it afterwards is of this run.
    pub(crate) fn new(dir: PathBuf, root: PathBuf) -> Result<Logs, String> {
        let logs = Logs { dir, root };
        if logs.dir.exists() {
            let removed = fs::remove_dir_all(&logs.dir);
            removed.map_err(|error| format!("cannot empty {}: {error}", logs.dir.display()))?;
        }
        let made = fs::create_dir_all(logs.captures());
        made.map_err(|error| format!("cannot create {}: {error}", logs.dir.display()))?;
        Ok(logs)
    }

    /// Where the outputs of running tests go.
    pub(crate) fn captures(&self) -> PathBuf {
        self.dir.join("running")
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Keeps the output of a test's first or second run, and says where.
    pub(crate) fn keep(&self, test: &str, attempt: u8, output: &str) -> String {
        let file = self.dir.join(format!("{}.{attempt}.log", file_name(test)));
        match fs::write(&file, output) {
            Ok(()) => relative(&file, &self.root),
            Err(error) => format!("(not kept: {}: {error})", file.display()),
        }
    }
}

fn file_name(test: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let name: String = test.replace("::", ".").replace('/', ".").chars().map(plain).collect();
    // The end tells more than the beginning.
    name[name.len().saturating_sub(LONGEST)..].to_owned()
}

fn relative(file: &Path, root: &Path) -> String {
    file.strip_prefix(root).unwrap_or(file).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::scratch::Scratch;

    #[test]
    fn both_outputs_are_kept_and_older_ones_are_gone() {
        let root = Scratch::new().unwrap();
        let dir = root.path().join("target/test-logs");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("old.1.log"), "").unwrap();
        let logs = Logs::new(dir.clone(), root.path().to_owned()).unwrap();
        assert!(!dir.join("old.1.log").exists());
        let first = logs.keep("distlock/it::late::kernel", 1, "one");
        assert_eq!(first, "target/test-logs/distlock.it.late.kernel.1.log");
        assert_eq!(fs::read_to_string(root.path().join(first)).unwrap(), "one");
        assert!(logs.keep(&"x".repeat(500), 2, "two").ends_with("xxx.2.log"));
    }
}
