//! A lock whose acquisitions are numbered, the gate that checks the numbers, and commands that run only while a lock is held.

use std::time::Duration;

use redis::Value;

use super::call::{Call, Script};
use super::exclusive::{self, OWNER_BYTES};
use super::refusal::{self, nonsense};
use super::wire::{self, Text, millis};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Attempt, Claim, ClaimKind, Command, Reply, unsupported};

static ACQUIRE: Script = Script::new(include_str!("scripts/fenced_acquire.lua"));
static ADMIT: Script = Script::new(include_str!("scripts/fenced_admit.lua"));
static FORGET: Script = Script::new(include_str!("scripts/fenced_forget.lua"));
static SEND: Script = Script::new(include_str!("scripts/guarded_send.lua"));

/// More arguments than a script can hand to a command.
const MOST_ARGUMENTS: usize = 7000;

/// What no script may run, or what would make no sense in one: blocking, subscribing, transactions and scripts inside a
/// script, and what concerns the connection. The server refuses them as well, but not in words that help.
const NOT_IN_SCRIPTS: &[&str] = &[
    "ASKING",
    "AUTH",
    "BLMOVE",
    "BLMPOP",
    "BLPOP",
    "BRPOP",
    "BRPOPLPUSH",
    "BZMPOP",
    "BZPOPMAX",
    "BZPOPMIN",
    "CLIENT",
    "CONFIG",
    "DEBUG",
    "DISCARD",
    "EVAL",
    "EVALSHA",
    "EVALSHA_RO",
    "EVAL_RO",
    "EXEC",
    "FCALL",
    "FCALL_RO",
    "FUNCTION",
    "HELLO",
    "MONITOR",
    "MULTI",
    "PSUBSCRIBE",
    "PSYNC",
    "PUNSUBSCRIBE",
    "QUIT",
    "RESET",
    "SCRIPT",
    "SELECT",
    "SHUTDOWN",
    "SSUBSCRIBE",
    "SUBSCRIBE",
    "SUNSUBSCRIBE",
    "SYNC",
    "UNSUBSCRIBE",
    "UNWATCH",
    "WAIT",
    "WAITAOF",
    "WATCH",
];

pub(crate) fn acquire(claim: &Claim) -> Call {
    let bytes = 2 * claim.name.len() + 2 * OWNER_BYTES + 48;
    let call = Call::new(&ACQUIRE, 2, 4, bytes)
        .arg(&*claim.name)
        .arg(Text(wire::token(&claim.name)))
        .arg(Text(claim.owner))
        .arg(millis(claim.lease))
        .arg(claim.depth);
    match claim.heir_of {
        Some(before) => call.arg(Text(before)),
        None => call,
    }
}

pub(crate) fn acquired(lease: Duration, reply: Value) -> Result<Attempt> {
    match &reply {
        Value::BulkString(text) => {
            let token = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            match token {
                Some(token) => Ok(Attempt::Acquired { token: Some(token), lease }),
                None => Err(nonsense("an acquisition", &reply)),
            }
        }
        // Without a token it is not what was asked for.
        Value::Nil => Err(nonsense("an acquisition", &reply)),
        _ => exclusive::acquired(lease, reply),
    }
}

pub(crate) fn admit(name: &str, token: u64) -> Call {
    Call::new(&ADMIT, 1, 1, name.len() + 40).arg(Text(wire::fence(name))).arg(token)
}

pub(crate) fn forget(name: &str) -> Call {
    Call::new(&FORGET, 1, 0, name.len() + 20).arg(Text(wire::fence(name)))
}

/// The command, to be run only if the claim's owner still holds its lock.
pub(crate) fn guarded(claim: &Claim, command: &Command) -> Result<Call> {
    check(claim, command)?;
    let size = |args: &[Vec<u8>]| args.iter().map(|arg| arg.len() + 8).sum::<usize>();
    let plain: Vec<&Vec<u8>> = command.args().iter().flatten().collect();
    let bytes = claim.name.len()
        + OWNER_BYTES
        + size(command.keys())
        + plain.iter().map(|arg| arg.len() + 8).sum::<usize>()
        + command.args().len();
    let mut call = Call::new(&SEND, 1 + command.keys().len(), 5 + plain.len(), bytes);
    call = call.arg(&*claim.name);
    for key in command.keys() {
        call = call.arg(key.as_slice());
    }
    call = match claim.kind {
        ClaimKind::Exclusive | ClaimKind::Fenced | ClaimKind::Fair { .. } => {
            call.arg("hexists").arg(Text(claim.owner)).arg("")
        }
        ClaimKind::Write { .. } => {
            call.arg("hexists").arg(format!("{}:write", claim.owner)).arg("")
        }
        ClaimKind::Read => {
            let holds = wire::read_holds(&claim.name);
            call.arg("hget").arg(Text(claim.owner)).arg(Text(holds))
        }
        ClaimKind::Simple => call.arg("get").arg(Text(claim.owner)).arg(""),
        ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } | ClaimKind::LatchOpen => {
            return Err(unsupported("a guarded command for permits and latches"));
        }
    };
    let letters: String =
        command.args().iter().map(|arg| if arg.is_some() { 'a' } else { 'k' }).collect();
    call = call.arg(command.name()).arg(letters);
    for arg in plain {
        call = call.arg(arg.as_slice());
    }
    Ok(call)
}

/// Refuses early what the server would refuse late, or worse, would do.
fn check(claim: &Claim, command: &Command) -> Result<()> {
    let no = |text: String| Err(Error::new(ErrorKind::Config, text));
    let name = command.name();
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_graphic()) {
        return no(format!("{name:?} is not a command: expected one word, for instance SET"));
    }
    if NOT_IN_SCRIPTS.iter().any(|refused| refused.eq_ignore_ascii_case(name)) {
        return no(format!(
            "{name} cannot be run under a guard: Redis does not allow it in scripts"
        ));
    }
    if command.args().len() > MOST_ARGUMENTS {
        let count = command.args().len();
        return no(format!("{count} arguments are too many for one guarded command"));
    }
    if command.keys().iter().any(|key| key.as_slice() == claim.name.as_bytes()) {
        return no("the command names the lock's own key: use another key for the data".to_owned());
    }
    Ok(())
}

/// The reply to the command, or `None` if the lock is not held any more.
pub(crate) fn guarded_reply(reply: Value) -> Result<Option<Reply>> {
    let nonsense = nonsense("a guarded command", &reply);
    match reply {
        Value::Int(0) => Ok(None),
        Value::Array(mut parts) => match (parts.pop(), parts.pop()) {
            (Some(reply), Some(Value::Int(1))) => Ok(Some(plain(reply).ok_or(nonsense)?)),
            (Some(Value::BulkString(text)), Some(Value::Int(2))) => {
                Err(refused(&String::from_utf8_lossy(&text)))
            }
            _ => Err(nonsense),
        },
        _ => Err(nonsense),
    }
}

/// Scripts speak RESP2: numbers, texts, lists and nothing.
fn plain(reply: Value) -> Option<Reply> {
    Some(match reply {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Int(number),
        Value::BulkString(bytes) => Reply::Bytes(bytes),
        Value::SimpleString(text) => Reply::Bytes(text.into_bytes()),
        Value::Okay => Reply::Bytes(b"OK".to_vec()),
        Value::Array(parts) => Reply::List(parts.into_iter().map(plain).collect::<Option<_>>()?),
        _ => return None,
    })
}

/// The lock is in order; it is the command that the server refuses.
fn refused(text: &str) -> Error {
    const MISFITS: [&str; 4] =
        ["WRONGTYPE", "not an integer", "not a valid float", "is not a float"];
    let (kind, why) = if MISFITS.iter().any(|misfit| text.contains(misfit)) {
        (ErrorKind::Conflict, "the command does not fit the type of its key")
    } else if refusal::is_not_now(text) {
        (ErrorKind::Unavailable, "the server cannot run the command now")
    } else {
        (ErrorKind::Config, "the server refuses the command")
    };
    Error::new(kind, format!("the lock is held, but {why} ({})", refusal::without_script(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn an_acquisition_without_a_token_is_none() {
        let token = Attempt::Acquired { token: Some(9_007_199_254_740_991), lease: LEASE };
        assert_eq!(acquired(LEASE, text("9007199254740991")).unwrap(), token);
        let busy = Attempt::Busy { ttl: Duration::from_millis(7) };
        assert_eq!(acquired(LEASE, Value::Int(7)).unwrap(), busy);
        assert_eq!(acquired(LEASE, Value::Int(-1)).unwrap_err().kind(), ErrorKind::Conflict);
        for odd in [Value::Nil, text("1e15"), text(""), text("-3"), Value::Okay] {
            assert_eq!(acquired(LEASE, odd).unwrap_err().kind(), ErrorKind::Unavailable);
        }
    }

    #[test]
    fn replies_to_guarded_commands_are_told_from_refusals_and_from_loss() {
        let ran = |reply| guarded_reply(Value::Array(vec![Value::Int(1), reply]));
        assert_eq!(guarded_reply(Value::Int(0)).unwrap(), None);
        assert_eq!(ran(Value::Nil).unwrap(), Some(Reply::Nil));
        assert_eq!(ran(Value::Int(0)).unwrap(), Some(Reply::Int(0)));
        assert_eq!(ran(Value::Okay).unwrap(), Some(Reply::Bytes(b"OK".to_vec())));
        let list = Value::Array(vec![text("a"), Value::Nil, Value::Array(vec![])]);
        let expected = vec![Reply::Bytes(b"a".to_vec()), Reply::Nil, Reply::List(vec![])];
        assert_eq!(ran(list).unwrap(), Some(Reply::List(expected)));

        let refused = |why| guarded_reply(Value::Array(vec![Value::Int(2), text(why)]));
        let table = [
            ("WRONGTYPE Operation against a key", ErrorKind::Conflict),
            ("ERR value is not an integer or out of range", ErrorKind::Conflict),
            ("OOM command not allowed when used memory", ErrorKind::Unavailable),
            ("-OOM command not allowed when used memory", ErrorKind::Unavailable),
            ("ERR Unknown Redis command called from script", ErrorKind::Config),
            ("NOPERM this user has no permissions", ErrorKind::Config),
        ];
        for (why, kind) in table {
            let error = refused(why).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains("the lock is held"), "{error}");
        }
        for odd in [Value::Nil, Value::Int(1), Value::Array(vec![]), Value::Okay] {
            assert_eq!(guarded_reply(odd).unwrap_err().kind(), ErrorKind::Unavailable);
        }
    }
}
