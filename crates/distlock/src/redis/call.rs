//! One step as a script call: EVALSHA, and the script itself if the server does not know it yet.

use std::fmt;
use std::sync::OnceLock;

use redis::Arg;
use redis::{Cmd, ServerErrorKind, ToRedisArgs, Value};

use super::holders;
use super::link::{Line, Links};
use super::pubsub::Way;
use super::refusal;
use crate::error::{Error, ErrorKind, Result};

/// A script, known to servers by its hash.
pub(crate) struct Script {
    code: &'static str,
    sha: OnceLock<String>,
    /// The same for servers where releases are called out otherwise.
    variants: [OnceLock<Option<&'static Script>>; 2],
    /// The same, with what holders say of themselves kept beside it.
    noted: OnceLock<&'static Script>,
}

impl Script {
    pub(crate) const fn new(code: &'static str) -> Script {
        let variants = [OnceLock::new(), OnceLock::new()];
        Script { code, sha: OnceLock::new(), variants, noted: OnceLock::new() }
    }

    fn sha(&self) -> &str {
        self.sha.get_or_init(|| redis::Script::new(self.code).get_hash().to_owned())
    }

    /// The script that calls out releases this way. `None` if it is the same one.
    fn variant(&'static self, way: Way) -> Option<&'static Script> {
        let at = match way {
            Way::Classic => return None,
            Way::Sharded => 0,
            Way::Both => 1,
        };
        *self.variants[at].get_or_init(|| way.script(self.code).map(Script::made))
    }

    /// As long-lived as the script it is made from, and made once.
    fn made(code: String) -> &'static Script {
        Box::leak(Box::new(Script::new(Box::leak(code.into_boxed_str()))))
    }

    fn noted(&'static self) -> &'static Script {
        self.noted.get_or_init(|| Script::made(holders::around(self.code)))
    }
}

/// A script with its keys and arguments.
#[derive(Clone)]
pub(crate) struct Call {
    script: &'static Script,
    command: Cmd,
    /// What it takes counts only when replicas have acknowledged it.
    acknowledged: bool,
    /// It takes a hold, see [`Line::taking`].
    takes: bool,
}

impl Call {
    /// A call on `keys` keys. The first arguments added are the keys; `bytes` is a guess of what all of them need.
    pub(crate) fn new(script: &'static Script, keys: usize, args: usize, bytes: usize) -> Call {
        let sha = script.sha();
        // Sized once: a call costs two allocations here, however many arguments it has.
        let mut command = Cmd::with_capacity(3 + keys + args, 7 + sha.len() + 4 + bytes);
        command.arg("EVALSHA").arg(sha).arg(keys);
        Call { script, command, acknowledged: false, takes: false }
    }

    /// The same call with one more key or argument.
    pub(crate) fn arg(mut self, value: impl ToRedisArgs) -> Call {
        self.command.arg(value);
        self
    }

    /// The same call, which takes a hold. If its caller leaves before the reply is there, it must not run any more once the
    /// server is told to forget that hold.
    pub(crate) fn takes(mut self) -> Call {
        self.takes = true;
        self
    }

    /// The same call, which takes a hold that counts only when as many replicas have it as the server's node asks for.
    pub(crate) fn acknowledged(mut self) -> Call {
        self.acknowledged = true;
        self
    }

    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// The same call, with releases called out this way. A copy if that is not the classic one: those who build calls need
    /// not know, and on a single server it costs nothing.
    pub(crate) fn in_way(self, way: Way) -> Call {
        match self.script.variant(way) {
            Some(script) => self.copied(script, &[], &[]),
            None => self,
        }
    }

    /// The same call inside the script that keeps what holders say, with more keys behind its keys and more arguments behind its
    /// arguments.
    pub(crate) fn inside_another(self, keys: &[String], args: &[String]) -> Call {
        let script = self.script.noted();
        self.copied(script, keys, args)
    }

    fn copied(self, script: &'static Script, more_keys: &[String], more_args: &[String]) -> Call {
        let simple = |arg| if let Arg::Simple(arg) = arg { Some(arg) } else { None };
        let all: Vec<&[u8]> = self.command.args_iter().skip(2).filter_map(simple).collect();
        let Some((count, rest)) = all.split_first() else { return self };
        let count: usize =
            std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(0);
        let (keys, args) = rest.split_at(count.min(rest.len()));
        let bytes: usize = rest.iter().map(|arg| arg.len()).sum::<usize>()
            + more_keys.iter().chain(more_args).map(String::len).sum::<usize>();
        let sha = script.sha();
        let many = 3 + rest.len() + more_keys.len() + more_args.len();
        let mut command = Cmd::with_capacity(many, 7 + sha.len() + 4 + bytes);
        command.arg("EVALSHA").arg(sha).arg(count + more_keys.len());
        command.arg(keys).arg(more_keys).arg(args).arg(more_args);
        Call { script, command, acknowledged: self.acknowledged, takes: self.takes }
    }

    /// Runs it, at most once. Not knowing a script is found out before anything runs, so sending it again with its
    /// script is no second run.
    pub(crate) async fn run(&self, links: &Links) -> Result<Value> {
        let mut line = links.line().await?.taking(self.takes);
        let reply = line.send(&self.command).await?;
        if is_unknown_script(&reply) {
            return self.checked(self.load_and_run(&mut line, false).await?);
        }
        self.checked(reply)
    }

    /// The reply, unless it is a refusal.
    pub(crate) fn checked(&self, reply: Value) -> Result<Value> {
        refusal::checked_in(self.script.code, reply)
    }

    /// Asks one server of a cluster, which may refuse. With `asking` even for a slot that it is only about to get.
    pub(crate) async fn ask(&self, links: &Links, asking: bool) -> Result<Value> {
        let mut line = links.line().await?.taking(self.takes);
        let reply = match asking {
            false => line.send(&self.command).await?,
            true => {
                let mut both = redis::Pipeline::with_capacity(2);
                both.cmd("ASKING");
                both.add_command(self.command.clone());
                line.send_all(&both, 2).await?.pop().unwrap_or_default()
            }
        };
        if is_unknown_script(&reply) {
            return self.load_and_run(&mut line, asking).await;
        }
        Ok(reply)
    }

    /// Asks one server of a cluster several things with one script; each answer may be a refusal.
    pub(crate) async fn ask_all(calls: &[Call], links: &Links) -> Result<Vec<Value>> {
        let Some(first) = calls.first() else { return Ok(Vec::new()) };
        let mut all = redis::Pipeline::with_capacity(1 + calls.len());
        all.cmd("SCRIPT").arg("LOAD").arg(first.script.code);
        for call in calls {
            all.add_command(call.command.clone());
        }
        let mut replies = links.line().await?.send_all(&all, 1 + calls.len()).await?.into_iter();
        if let Some(Value::ServerError(refused)) = replies.next() {
            return Err(refusal::of(&refused));
        }
        Ok(replies.collect())
    }

    async fn load_and_run(&self, line: &mut Line, asking: bool) -> Result<Value> {
        let mut all = redis::Pipeline::with_capacity(3);
        all.cmd("SCRIPT").arg("LOAD").arg(self.script.code);
        if asking {
            // Good for the next command alone.
            all.cmd("ASKING");
        }
        all.add_command(self.command.clone());
        let mut replies = line.send_all(&all, 2 + usize::from(asking)).await?.into_iter();
        let (loaded, ran) = (replies.next(), replies.next_back());
        // A refused SCRIPT LOAD says more than the NOSCRIPT that follows from it.
        if let Some(Value::ServerError(refused)) = loaded {
            return Err(refusal::of(&refused));
        }
        Ok(ran.unwrap_or_default())
    }
}

/// Calls for one write, and which of the replies is which call's.
#[derive(Default)]
pub(crate) struct Bundle {
    commands: redis::Pipeline,
    count: usize,
    places: Vec<usize>,
    loads: Vec<(&'static Script, usize)>,
}

impl Bundle {
    /// Adds a call; with its script if the server does not know it.
    pub(crate) fn add(&mut self, call: &Call, asking: bool, load: bool) {
        if load && !self.loads.iter().any(|(known, _)| std::ptr::eq(*known, call.script)) {
            self.loads.push((call.script, self.count));
            self.commands.cmd("SCRIPT").arg("LOAD").arg(call.script.code);
            self.count += 1;
        }
        if asking {
            self.commands.cmd("ASKING");
            self.count += 1;
        }
        self.commands.add_command(call.command.clone());
        self.places.push(self.count);
        self.count += 1;
    }

    /// Sends them; each gets its reply, which may be a refusal.
    pub(crate) async fn send(self, line: &mut Line) -> Result<Vec<Value>> {
        let mut replies = line.send_all(&self.commands, self.count).await?;
        if replies.len() != self.count {
            // Not to be expected; but a missing answer must not be read as one.
            let text =
                "the server left out replies: the operations may or may not have been applied";
            return Err(Error::new(ErrorKind::Indeterminate, text));
        }
        let mut take = |at: usize| replies.get_mut(at).map(std::mem::take).unwrap_or_default();
        let is_refused = |loaded: &Value| matches!(loaded, Value::ServerError(_));
        let refused = self.loads.iter().map(|(_, at)| take(*at)).find(is_refused);
        let reply = |at| match (take(at), &refused) {
            // A refused SCRIPT LOAD says more than the NOSCRIPT that follows from it.
            (reply, Some(refused)) if is_unknown_script(&reply) => refused.clone(),
            (reply, _) => reply,
        };
        Ok(self.places.into_iter().map(reply).collect())
    }
}

pub(super) fn is_unknown_script(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(e) if e.kind() == Some(ServerErrorKind::NoScript))
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("sha", &self.script.sha()).finish_non_exhaustive()
    }
}
