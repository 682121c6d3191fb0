//! The servers we test against, and where their programs are.

use std::env;
use std::path::PathBuf;

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// The Redis that the system has, 7 or later; the only one with TLS.
    Redis,
    /// Valkey.
    Valkey,
    /// Redis 6.2, the oldest that the library supports.
    Redis62,
}

impl Flavor {
    /// Every flavour, whether installed or not.
    pub const ALL: [Flavor; 3] = [Flavor::Redis, Flavor::Valkey, Flavor::Redis62];

    /// Those that are installed. `cargo xtask test` says which were left out.
    pub fn installed() -> Vec<Flavor> {
        Self::ALL.into_iter().filter(|flavor| flavor.program().is_some()).collect()
    }

    /// Its name between processes.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Flavor::Redis => "redis",
            Flavor::Valkey => "valkey",
            Flavor::Redis62 => "redis62",
        }
    }

    /// The flavour of that [name](Flavor::word).
    pub(crate) fn of_word(word: &str) -> Option<Flavor> {
        Self::ALL.into_iter().find(|flavor| flavor.word() == word)
    }

    /// The environment variable that says where the program is.
    pub fn variable(self) -> &'static str {
        match self {
            Flavor::Redis => "DISTLOCK_REDIS_SERVER",
            Flavor::Valkey => "DISTLOCK_VALKEY_SERVER",
            Flavor::Redis62 => "DISTLOCK_REDIS62_SERVER",
        }
    }

    /// The program, if it is installed.
    pub fn program(self) -> Option<PathBuf> {
        if let Some(path) = env::var_os(self.variable()) {
            return Some(PathBuf::from(path)).filter(|path| path.is_file());
        }
        match self {
            Flavor::Redis => on_path("redis-server"),
            Flavor::Valkey => on_path("valkey-server"),
            // Nobody has two versions on the path.
            Flavor::Redis62 => None,
        }
    }

    pub(super) fn require(self) -> PathBuf {
        self.program().unwrap_or_else(|| {
            panic!(
                "no server for Flavor::{self:?}: run the tests with `cargo xtask test`, which \
                 installs what is missing, or set {} to the path of its program",
                self.variable()
            )
        })
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}
