//! The process behind a server: a child of this process, or one that the host of shared servers lends.

use std::collections::BTreeSet;
use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard};

use super::launch::Plan;

/// Whose process a server is.
#[derive(Debug)]
pub(super) enum Process {
    /// A child of this process, which may break it and start it again.
    Own {
        /// How to start it again.
        plan: Arc<Plan>,
        child: Mutex<Child>,
    },
    /// A child of the [host](crate::shared), which other test processes use at the same time.
    Lent {
        pid: u32,
        /// The users that this process has made there: they go when this process no longer uses the server.
        users: Mutex<BTreeSet<String>>,
    },
}

impl Process {
    pub(super) fn own(plan: Plan, child: Child) -> Process {
        Process::Own { plan: Arc::new(plan), child: Mutex::new(child) }
    }

    pub(super) fn lent(pid: u32) -> Process {
        Process::Lent { pid, users: Mutex::default() }
    }

    pub(super) fn pid(&self) -> u32 {
        match self {
            Process::Own { child, .. } => locked(child).id(),
            Process::Lent { pid, .. } => *pid,
        }
    }

    /// The plan and the child, for a caller who wants to `what` the server.
    ///
    /// # Panics
    /// When the server is lent.
    pub(super) fn breakable(&self, what: &str) -> (&Arc<Plan>, MutexGuard<'_, Child>) {
        match self {
            Process::Own { plan, child } => (plan, locked(child)),
            Process::Lent { pid, .. } => panic!(
                "cannot {what} the server with process id {pid}: other tests use it at the same time; a test that \
                 breaks a server starts one of its own with Server::builder"
            ),
        }
    }

    /// Whether the process has neither ended nor is about to.
    pub(super) fn runs(&self) -> bool {
        let waited_for = match self {
            // Only the parent can tell its child from another process that was given the same id.
            Process::Own { child, .. } => !matches!(locked(child).try_wait(), Ok(None)),
            Process::Lent { .. } => false,
        };
        // A process that ends loses its command line before its parent can wait for it.
        let line = std::fs::read(format!("/proc/{}/cmdline", self.pid()));
        !waited_for && line.is_ok_and(|line| !line.is_empty())
    }

    /// Remembers a user that this process has made.
    pub(super) fn remember_user(&self, name: &str) {
        if let Process::Lent { users, .. } = self {
            locked(users).insert(name.to_owned());
        }
    }

    /// The users to remove from a server that goes on without this process.
    pub(super) fn take_users(&mut self) -> BTreeSet<String> {
        match self {
            Process::Own { .. } => BTreeSet::new(),
            Process::Lent { users, .. } => std::mem::take(&mut locked(users)),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Process::Own { child, .. } = self {
            // Also after a panic elsewhere: the process must go.
            kill(&mut locked(child));
        }
    }
}

pub(super) fn kill(child: &mut Child) {
    // Both fail only when the process has already been waited for.
    let _ = child.kill();
    let _ = child.wait();
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
