//! Every key, channel, field and message name: the contract with Redisson on one page.
//!
//! | what | for `L` | for `x{t}y` |
//! |---|---|---|
//! | lock: a hash `{owner: depth}`, always with a time to live | `L` | `x{t}y` |
//! | channel where releases are called out; any message is a wake-up, ours is `0` | `redisson_lock__channel:{L}` | `redisson_lock__channel:x{t}y` |
//!
//! An owner is `uuid:n` in ASCII, a depth a decimal integer of at least 1, a time to live is in milliseconds.

use std::fmt;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs};

/// Where the releases of the lock `name` are called out.
pub(crate) fn channel(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_lock__channel", name }
}

/// A name derived from a lock's by Redisson's prefix rule: the lock's name becomes the hash tag unless it brings one.
/// The test really is "contains `{`", whether or not a tag results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prefixed<'a> {
    prefix: &'static str,
    name: &'a str,
}

impl fmt::Display for Prefixed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prefixed { prefix, name } = self;
        if name.contains('{') {
            write!(f, "{prefix}:{name}")
        } else {
            write!(f, "{prefix}:{{{name}}}")
        }
    }
}

/// A command argument written straight into the command, without a string in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> ToRedisArgs for Text<T> {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        out.write_arg_fmt(&self.0);
    }
}

/// A lease in whole milliseconds. Rounded up: rounding down would end a lease before its holder expects it, and zero
/// would delete the key at once.
pub(crate) fn millis(lease: Duration) -> u64 {
    let up = lease.as_nanos().div_ceil(1_000_000).max(1);
    u64::try_from(up).unwrap_or(u64::MAX)
}

/// Whether `field` reads `uuid:n`, as an owner does.
pub(crate) fn is_owner(field: &str) -> bool {
    field.parse::<crate::Owner>().is_ok()
}

/// A pattern for SCAN that matches the names which start with `prefix`, taken literally.
pub(crate) fn starting_with(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 1);
    for c in prefix.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_follow_redissons_brace_rule() {
        let table = [
            ("L", "redisson_lock__channel:{L}"),
            ("x{t}y", "redisson_lock__channel:x{t}y"),
            ("a:b", "redisson_lock__channel:{a:b}"),
            ("a{b", "redisson_lock__channel:a{b"),
            ("a}b", "redisson_lock__channel:{a}b}"),
            ("{L}", "redisson_lock__channel:{L}"),
        ];
        for (name, expected) in table {
            assert_eq!(channel(name).to_string(), expected);
        }
    }

    #[test]
    fn leases_round_up_to_milliseconds() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(1)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(crate::config::LONGEST), 315_360_000_000);
    }

    #[test]
    fn prefixes_match_literally() {
        assert_eq!(starting_with(""), "*");
        assert_eq!(starting_with("a*[b]?\\"), "a\\*\\[b\\]\\?\\\\*");
    }

    #[test]
    fn owners_are_told_from_other_fields() {
        assert!(is_owner("3f2504e0-4f89-41d3-9a0c-0305e82c3301:17"));
        assert!(!is_owner("mode"));
        assert!(!is_owner("3f2504e0-4f89-41d3-9a0c-0305e82c3301:17:write"));
    }
}
