//! What a server of a cluster means by "not here".

use redis::{ServerErrorKind, Value};

use super::map::Address;
use crate::redis::refusal;

/// Where a step is to be sent instead.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot is served there from now on.
    Moved { slot: u16, to: Address },
    /// The slot is on its way there, and this key is there already.
    Ask { to: Address },
    /// Somewhere else, but the server does not know where.
    Unknown,
}

impl Redirect {
    /// What a reply of the server that was reached at `asked` says.
    pub(crate) fn of(reply: &Value, asked: &str) -> Option<Redirect> {
        let Value::ServerError(refused) = reply else { return None };
        let kind = refused.kind()?;
        if !matches!(kind, ServerErrorKind::Moved | ServerErrorKind::Ask) {
            return None;
        }
        let said = || {
            let (slot, to) = refused.details()?.split_once(' ')?;
            Some((slot.parse().ok()?, Address::parse(to.trim(), asked)?))
        };
        Some(match (kind, said()) {
            (_, None) => Redirect::Unknown,
            (ServerErrorKind::Ask, Some((_, to))) => Redirect::Ask { to },
            (_, Some((slot, to))) => Redirect::Moved { slot, to },
        })
    }
}

/// Whether a refusal is a reason to ask who serves what.
pub(crate) fn is_doubtful(reply: &Value) -> bool {
    const DOUBTFUL: [&str; 5] = ["CLUSTERDOWN", "MASTERDOWN", "READONLY", "LOADING", "NOREPLICAS"];
    refusal::is_in(reply, &|refused| DOUBTFUL.iter().any(|word| refusal::says(refused, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A refusal as the wire has it.
    fn refusal(line: &str) -> Value {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn refusals_say_where_to_go() {
        let to = |host: &str, port| Address { host: host.to_owned(), port };
        let table = [
            (
                "MOVED 3999 127.0.0.1:6381",
                Some(Redirect::Moved { slot: 3999, to: to("127.0.0.1", 6381) }),
            ),
            ("MOVED 1 :6381", Some(Redirect::Moved { slot: 1, to: to("me", 6381) })),
            ("ASK 3999 ::1:6381", Some(Redirect::Ask { to: to("::1", 6381) })),
            ("MOVED 1 ?:6381", Some(Redirect::Unknown)),
            ("MOVED", Some(Redirect::Unknown)),
            ("TRYAGAIN Multiple keys request during rehashing of slot", None),
            ("ERR MOVED 1 a:1", None),
        ];
        for (line, expected) in table {
            assert_eq!(Redirect::of(&refusal(line), "me"), expected, "{line}");
        }
        assert_eq!(Redirect::of(&Value::Okay, "me"), None);
    }

    #[test]
    fn some_refusals_are_a_reason_to_look_around() {
        for (line, doubtful) in [
            ("CLUSTERDOWN The cluster is down", true),
            ("READONLY You can't write against a read only replica.", true),
            // As Redis 6.2 has it if it was a script that was refused.
            (
                "ERR Error running script (call to f_1): @user_script:7: -READONLY You can't write",
                true,
            ),
            ("NOREPLICAS Not enough good replicas to write.", true),
            ("LOADING Redis is loading the dataset in memory", true),
            ("TRYAGAIN Multiple keys request during rehashing of slot", false),
            ("OOM command not allowed", false),
        ] {
            let among_others = Value::Array(vec![Value::Int(1), refusal(line)]);
            for reply in [refusal(line), among_others] {
                assert_eq!(is_doubtful(&reply), doubtful, "{reply:?}");
            }
        }
    }
}
