//! What a server's refusal means.

use redis::{ServerError, Value};

use super::acl;
use crate::error::{Error, ErrorKind, Result};

/// Codes of a server that cannot work now; the step did not happen.
const NOT_NOW: [&str; 9] = [
    "OOM",
    "LOADING",
    "BUSY",
    "READONLY",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "TRYAGAIN",
    "NOREPLICAS",
    "MISCONF",
];

/// The reply, unless it is a refusal.
pub(crate) fn checked(reply: Value) -> Result<Value> {
    match reply {
        Value::ServerError(refused) => Err(of(&refused)),
        reply => Ok(reply),
    }
}

/// The reply of a script, unless it is a refusal.
pub(crate) fn checked_in(script: &str, reply: Value) -> Result<Value> {
    match reply {
        Value::ServerError(refused) => {
            Err(explain(refused.code(), refused.details().unwrap_or_default(), Some(script)))
        }
        reply => Ok(reply),
    }
}

/// The error for a refusal.
pub(crate) fn of(refused: &ServerError) -> Error {
    explain(refused.code(), refused.details().unwrap_or_default(), None)
}

/// The error for a refusal that came through the client's own error type.
pub(crate) fn of_redis(refused: &redis::RedisError) -> Error {
    explain(refused.code().unwrap_or_default(), refused.detail().unwrap_or_default(), None)
}

/// Whether a refusal has this code. Redis before 7 reports what a script met inside a text of its own, with a general code.
pub(crate) fn says(refused: &ServerError, word: &str) -> bool {
    refused.code() == word || words(refused.details().unwrap_or_default()).any(|w| w == word)
}

/// Whether a reply is such a refusal, or a list with one in it: a script about many answers for each.
pub(crate) fn is_in(reply: &Value, is_such: &impl Fn(&ServerError) -> bool) -> bool {
    match reply {
        Value::ServerError(refused) => is_such(refused),
        Value::Array(answers) => answers.iter().any(|answer| is_in(answer, is_such)),
        _ => false,
    }
}

fn explain(code: &str, text: &str, script: Option<&str>) -> Error {
    // Redis before 7 reports what a script met inside a text of its own, with a general code.
    let says = |word: &str| code == word || words(text).any(|w| w == word);
    let error = |kind, what: &str| {
        let said = format!("{code} {}", without_script(text));
        Error::new(kind, format!("{what} ({})", said.trim()))
    };

    if says("WRONGTYPE") {
        let text = "the name is in use by another kind of lock, or by data that is not a lock: choose another name for this \
                    lock; redis-cli's TYPE shows what is stored (WRONGTYPE)";
        return Error::new(ErrorKind::Conflict, text);
    }
    if says("NOPERM") || is_acl_in_script(text) {
        let (missing, all) = (acl::missing(text, script), acl::all_commands());
        let what = format!(
            "the Redis user lacks {missing}; locks of all kinds need {all}, and their names as ~keys and &channels: \
             `distlock doctor --acl PREFIX` prints the rules"
        );
        return error(ErrorKind::Config, &what);
    }
    if says("NOAUTH") || says("WRONGPASS") || says("DENIED") {
        return error(
            ErrorKind::Config,
            "the server refused the user name or password: check those in the URL",
        );
    }
    if says("MOVED") || says("ASK") || says("CROSSSLOT") {
        return error(
            ErrorKind::Config,
            "this server is part of a cluster: write redis+cluster:// instead of redis://",
        );
    }
    if NOT_NOW.into_iter().any(says) || text.contains("max number of clients") {
        return error(ErrorKind::Unavailable, "the server cannot do this now");
    }
    error(ErrorKind::Unavailable, "the server refused the operation")
}

/// What the server said, without the hash of the script and the line in it, which tell a reader nothing: Redis 7 puts them at the end
/// (`… script: 20236ca…, on @user_script:7.`), its predecessors at the beginning (`Error running script (call to f_20236ca…): @user_script:7: …`).
pub(crate) fn without_script(text: &str) -> &str {
    let text = text.split_once(" script: ").map_or(text, |(said, _)| said);
    match text.strip_prefix("Error running script (call to ") {
        None => text,
        Some(rest) => {
            let said = rest.split_once("): ").map_or(rest, |(_, said)| said);
            let line = said.strip_prefix("@user_script:").and_then(|at| at.split_once(": "));
            line.map_or(said, |(_, said)| said)
        }
    }
}

/// The permission that is missing, if a refusal is about one.
pub(crate) fn lacks(refused: &ServerError) -> Option<String> {
    let text = refused.details().unwrap_or_default();
    let acl = refused.code() == "NOPERM" || is_acl(text);
    acl.then(|| acl::missing(text, None))
}

/// Whether these words are about a permission.
pub(crate) fn is_acl(text: &str) -> bool {
    words(text).any(|word| word == "NOPERM") || is_acl_in_script(text)
}

/// What a script's user may not do is worded without a code, by Redis and by Valkey in other words.
fn is_acl_in_script(text: &str) -> bool {
    text.contains("user executing the script can't") || text.contains("ACL failure in script")
}

/// Whether a refusal says that the server cannot work now.
pub(crate) fn is_not_now(text: &str) -> bool {
    words(text).any(|word| NOT_NOW.contains(&word))
}

/// Whether a step was refused because some of its keys are at one server and some at another, while their slot moves.
pub(crate) fn is_apart(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
        && words(&error.to_string()).any(|word| word == "TRYAGAIN")
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_uppercase()).filter(|word| !word.is_empty())
}

/// The error for a reply that no version of the script gives.
pub(crate) fn nonsense(step: &str, reply: &Value) -> Error {
    let sort = match reply {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::Okay => "a text",
        Value::Array(_) => "a list",
        _ => "something unexpected",
    };
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the server's reply to {step} is {sort}, which Redis does not send here: is this a Redis server?"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_apart_by_code_and_by_text() {
        use ErrorKind::*;
        let table = [
            ("WRONGTYPE", "Operation against a key holding the wrong kind of value", Conflict),
            (
                "ERR",
                "Error running script (call to f_1): @user_script:7: WRONGTYPE Operation",
                Conflict,
            ),
            ("NOPERM", "this user has no permissions to run the 'pexpire' command", Config),
            ("ERR", "Error running script (call to f_1): -NOPERM The user", Config),
            ("ERR", "The user executing the script can't run this command or subcommand", Config),
            ("ERR", "ACL failure in script: No permissions to access a key", Config),
            ("NOAUTH", "Authentication required.", Config),
            ("WRONGPASS", "invalid username-password pair or user is disabled.", Config),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", Unavailable),
            ("ERR", "Error running script: @user_script:3: -OOM command not allowed", Unavailable),
            ("BUSY", "Valkey is busy running a script.", Unavailable),
            ("LOADING", "Redis is loading the dataset in memory", Unavailable),
            ("READONLY", "You can't write against a read only replica.", Unavailable),
            ("MISCONF", "Redis is configured to save RDB snapshots", Unavailable),
            ("NOREPLICAS", "Not enough good replicas to write.", Unavailable),
            ("ERR", "max number of clients reached", Unavailable),
            ("MOVED", "3999 127.0.0.1:6381", Config),
            ("ERR", "something new", Unavailable),
        ];
        for (code, text, kind) in table {
            assert_eq!(explain(code, text, None).kind(), kind, "{code} {text}");
        }
    }

    #[test]
    fn no_error_has_the_hash_of_a_script() {
        for (code, text, said) in [
            ("ERR", "wrong number script: 20236cafe, on @user_script:5.", "(ERR wrong number)"),
            (
                "OOM",
                "command not allowed script: 20236cafe, on @user_script:7.",
                "(OOM command not allowed)",
            ),
            (
                "ERR",
                "Error running script (call to f_20236cafe): @user_script:7: -OOM command not allowed",
                "(ERR -OOM command not allowed)",
            ),
            ("ERR", "Error running script (call to f_20236cafe): @user_script: 7: odd", "odd"),
            (
                "WRONGTYPE",
                "Operation against a key script: 20236cafe, on @user_script:7.",
                "(WRONGTYPE)",
            ),
        ] {
            let error = explain(code, text, None).to_string();
            assert!(error.contains(said), "{text}: {error}");
            assert!(!error.contains("20236cafe") && !error.contains("delete"), "{error}");
        }
    }

    #[test]
    fn keys_that_are_apart_are_told_from_other_trouble() {
        let apart = explain("TRYAGAIN", "Multiple keys request during rehashing of slot", None);
        assert!(is_apart(&apart));
        assert!(!is_apart(&explain("CLUSTERDOWN", "The cluster is down", None)));
    }

    #[test]
    fn a_missing_permission_is_named_where_the_server_says_as_much() {
        const SCRIPT: &str = "local a = 1\nredis.call('hset', k)\nreturn redis.pcall('del', k)";
        let table = [
            ("this user has no permissions to run the 'pexpire' command", "+pexpire"),
            ("this user has no permissions to run the 'script|load' command", "+script|load"),
            ("ACL failure in script: User u has no permissions to run the 'get' command", "+get"),
            (
                "The user executing the script can't run this command script: 1, on @user_script:2.",
                "+hset",
            ),
            ("@user_script: 2: The user executing the script can't run this command", "+hset"),
            ("The user executing the script can't run this command or subcommand", "+del"),
            ("No permissions to access a key", "a ~key"),
            ("The user executing the script can't access at least one of the keys", "a ~key"),
            ("this user has no permissions to access one of the channels", "an &channel"),
        ];
        for (text, missing) in table {
            let error = explain("NOPERM", text, Some(SCRIPT)).to_string();
            assert!(error.contains(&format!("lacks {missing}")), "{text}: {error}");
        }
    }
}
