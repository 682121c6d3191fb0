//! One step as a script call: EVALSHA, and the script itself if the server does not know it yet.

use std::fmt;
use std::sync::OnceLock;

use redis::{Cmd, ServerErrorKind, ToRedisArgs, Value};

use super::link::{Line, Links};
use super::refusal;
use crate::error::Result;

/// A script, known to servers by its hash.
pub(crate) struct Script {
    code: &'static str,
    sha: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(code: &'static str) -> Script {
        Script { code, sha: OnceLock::new() }
    }

    fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.code).get_hash().to_owned())
    }
}

/// A script with its keys and arguments.
pub(crate) struct Call {
    script: &'static Script,
    command: Cmd,
}

impl Call {
    /// A call on `keys` keys. The first arguments added are the keys; `bytes` is a guess of what all of them need.
    pub(crate) fn new(script: &'static Script, keys: usize, args: usize, bytes: usize) -> Call {
        let sha = script.sha();
        // Sized once: a call costs two allocations here, however many arguments it has.
        let mut command = Cmd::with_capacity(3 + keys + args, 7 + sha.len() + 4 + bytes);
        command.arg("EVALSHA").arg(sha).arg(keys);
        Call { script, command }
    }

    /// The same call with one more key or argument.
    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Call {
        self.command.arg(value);
        self
    }

    /// Runs it, at most once. Not knowing a script is found out before anything runs, so sending it again with its
    /// script is no second run.
    pub(crate) async fn run(&self, links: &Links) -> Result<Value> {
        let mut line = links.line().await?;
        let reply = line.send(&self.command).await?;
        if is_unknown_script(&reply) {
            return refusal::checked(self.load_and_run(&mut line).await?);
        }
        refusal::checked(reply)
    }

    async fn load_and_run(&self, line: &mut Line) -> Result<Value> {
        let mut both = redis::Pipeline::with_capacity(2);
        both.cmd("SCRIPT").arg("LOAD").arg(self.script.code);
        both.add_command(self.command.clone());
        let mut replies = line.send_all(&both, 2).await?.into_iter();
        let (loaded, ran) = (replies.next(), replies.next());
        // A refused SCRIPT LOAD says more than the NOSCRIPT that follows from it.
        if let Some(Value::ServerError(refused)) = loaded {
            return Err(refusal::of(&refused));
        }
        Ok(ran.unwrap_or_default())
    }
}

fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(e) if e.kind() == Some(ServerErrorKind::NoScript))
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("sha", &self.script.sha()).finish_non_exhaustive()
    }
}
