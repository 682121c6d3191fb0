//! Commands that run only while a lock is held.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::{self, State, Tenure};
use crate::error::{Error, ErrorKind, Result};
use crate::guard::Guard;
use crate::store::{Claim, Command, Reply};

impl Guard {
    /// Runs `command` on the Redis server if the lock is still held; the server checks and runs it in one atomic operation.
    ///
    /// A holder that lost the lock cannot write this way, even if its process was paused before: the server refuses the command.
    ///
    /// Name every key of the command as such: [`Command::key`]. In a cluster the keys must be in the lock's slot: give both names
    /// the same `{tag}`. The lock's own name cannot be one of them.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::{ErrorKind, Locks, store::Command};
    ///
    /// let locks = Locks::memory(); // connect to a Redis server instead: only that can run commands
    /// let guard = locks.mutex("{stock:42}:lock").lock().await?;
    /// let sold = guard.send(&Command::new("DECRBY").key("{stock:42}").arg("1")).await;
    /// assert_eq!(sold.unwrap_err().kind(), ErrorKind::Unsupported);
    /// # Ok::<(), distlock::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Cancel safety
    /// If the future is dropped, the command may or may not have been applied, or may still be applied.
    ///
    /// # Errors
    /// `Lost` if the lock is not held any more: the command was not applied, and the guard is lost from now on.
    /// `Indeterminate` if the reply did not arrive: the command may have been applied, so it is not sent again. `Unavailable` if it
    /// was not applied. `Conflict` if the command does not fit the type of its key. `Config` for a command that the server
    /// refuses, or that cannot run in a script: blocking ones, `MULTI`, `EVAL`, `SUBSCRIBE`. `Unsupported` for permits, and on
    /// stores without commands.
    pub async fn send(&self, command: &Command) -> Result<Reply> {
        let tenure = &self.hold.tenure;
        let sent = send(tenure, command).await;
        sent.map_err(|e| e.about(tenure.kind, tenure.name()))
    }
}

async fn send(tenure: &Arc<Tenure>, command: &Command) -> Result<Reply> {
    let engine = &tenure.engine;
    let claim = Claim {
        name: tenure.name().clone(),
        owner: tenure.stay,
        lease: Duration::ZERO,
        depth: 1,
        heir_of: None,
        kind: tenure.what,
        info: None,
    };
    for again in [true, false] {
        if tenure.vitals.state(engine.env.now()) == State::Lost {
            break;
        }
        if let Some(reply) = engine.store.guarded(&claim, command).await? {
            return Ok(reply);
        }
        // Nothing ran. Perhaps the store does not know yet that the lock passed to this owner from another one of this process: then the same
        // command can be sent again.
        match engine.inspect(tenure.what, tenure.name()).await {
            Ok(seen) if again && seen.depth_of(&tenure.owner) > 0 => continue,
            Err(e) if e.kind() != ErrorKind::Conflict => {
                let text = "the command did not run, and whether the lock is held is not known";
                return Err(Error::new(ErrorKind::Unavailable, text).with_source(e));
            }
            _ => tenure.lose(),
        }
    }
    Err(engine::lost())
}
