//! Every key, channel, field and message name: the contract with Redisson on one page.
//!
//! | what | for `L` | for `x{t}y` |
//! |---|---|---|
//! | lock: a hash `{owner: depth}`, always with a time to live | `L` | `x{t}y` |
//! | channel where releases are called out; any message is a wake-up, ours is `0` | `redisson_lock__channel:{L}` | `redisson_lock__channel:x{t}y` |
//! | fair: the channel of one waiter | `redisson_lock__channel:{L}:owner` | `redisson_lock__channel:x{t}y:owner` |
//! | fair: the queue, a list of owners, first in line first | `redisson_lock_queue:{L}` | `redisson_lock_queue:x{t}y` |
//! | fair: until when each keeps its place, a sorted set of owners by epoch milliseconds | `redisson_lock_timeout:{L}` | `redisson_lock_timeout:x{t}y` |
//! | fenced: the last token | `redisson_lock_token:{L}` | `redisson_lock_token:x{t}y` |
//! | rw: lock: a hash `{mode: read, owner: depth, …}` or `{mode: write, owner:write: depth}`, the writer's reads in it like a reader's | `L` | `x{t}y` |
//! | rw: channel of both halves; ours are `0` when the last reader leaves, `1` when a writer does | `redisson_rwlock:{L}` | `redisson_rwlock:x{t}y` |
//! | rw: one read hold, the n-th of its owner | `{L}:owner:rwlock_timeout:n` | `x{t}y:owner:rwlock_timeout:n` |
//! | rw: the writer that readers wait behind; ours alone | `{L}:distlock_writer` | `x{t}y:distlock_writer` |
//! | semaphores: permits left, a number | `L` | `x{t}y` |
//! | semaphores: channel | `redisson_sc:{L}` | `redisson_sc:x{t}y` |
//! | leased semaphore: permits that are out, a sorted set of ids by epoch milliseconds | `{L}:timeout` | `x{t}y:timeout` |
//! | semaphore: who has how many through this library; ours alone | `{L}:distlock_permits` | `x{t}y:distlock_permits` |
//! | semaphore: an owner that gave up, where connections may not be ended; ours alone | `{L}:distlock_permits:owner` | `x{t}y:distlock_permits:owner` |
//! | latch: the count | `L` | `x{t}y` |
//! | latch: channel (without the test for a brace) | `redisson_countdownlatch__channel__{L}` | `redisson_countdownlatch__channel__{x{t}y}` |
//! | latch: the answer to a count-down, until it has arrived; ours alone | `{L}:distlock_counted:owner` | `x{t}y:distlock_counted:owner` |
//! | what holders say of themselves, a hash `{owner: text}` (`owner:write` of a writer, the 24 digits that the ids of one acquisition of leased permits begin with); ours alone | `{L}:distlock_holders` | `x{t}y:distlock_holders` |
//! | a fence's highest token; ours alone | `distlock_fence:{L}` | `distlock_fence:x{t}y` |
//!
//! An owner is `uuid:n` in ASCII, a depth a decimal integer of at least 1, a time to live is in milliseconds.

use std::fmt;
use std::time::Duration;

use redis::{RedisWrite, ToRedisArgs};

use crate::owner::Owner;

/// Where the releases of the lock `name` are called out.
pub(crate) fn channel(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_lock__channel", name }
}

/// Where a waiter of the fair lock `name` is called.
pub(crate) fn waiter_channel(name: &str, owner: Owner) -> String {
    format!("{}:{owner}", channel(name))
}

/// Who waits for the fair lock `name`, in order.
pub(crate) fn queue(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_lock_queue", name }
}

/// Until when those who wait for the fair lock `name` keep their places.
pub(crate) fn timeouts(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_lock_timeout", name }
}

/// The last fencing token of the lock `name`.
pub(crate) fn token(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_lock_token", name }
}

/// Where releases of the read-write lock `name` are called out.
pub(crate) fn rw_channel(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_rwlock", name }
}

/// What the key of each read hold begins with: `owner:rwlock_timeout:n` follows.
pub(crate) fn read_holds(name: &str) -> Suffixed<'_> {
    Suffixed { name, suffix: "" }
}

/// The writer that the readers of `name` wait behind.
pub(crate) fn waiting_writer(name: &str) -> Suffixed<'_> {
    Suffixed { name, suffix: "distlock_writer" }
}

/// Where permits of the semaphore `name` are called out.
pub(crate) fn permits_channel(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "redisson_sc", name }
}

/// Who has permits of the semaphore `name` through this library.
pub(crate) fn permits_out(name: &str) -> Suffixed<'_> {
    Suffixed { name, suffix: "distlock_permits" }
}

/// The permits of the leased semaphore `name` that are out.
pub(crate) fn leases(name: &str) -> Suffixed<'_> {
    Suffixed { name, suffix: "timeout" }
}

/// Where the latch `name` is called out. The one name that Redisson derives without looking for a brace.
pub(crate) fn latch_channel(name: &str) -> String {
    format!("redisson_countdownlatch__channel__{{{name}}}")
}

/// The answer to a count-down of the latch `name`.
pub(crate) fn counted(name: &str, request: impl fmt::Display) -> String {
    format!("{}:{request}", Suffixed { name, suffix: "distlock_counted" })
}

/// What the holders of the lock `name` say of themselves.
pub(crate) fn holders(name: &str) -> Suffixed<'_> {
    Suffixed { name, suffix: HOLDERS }
}

/// Whether a key is one that holds no lock but what holders say.
pub(crate) fn is_holders(key: &str) -> bool {
    key.strip_suffix(HOLDERS).is_some_and(|name| name.ends_with(':'))
}

const HOLDERS: &str = "distlock_holders";

/// The highest token that the fence `name` has seen.
pub(crate) fn fence(name: &str) -> Prefixed<'_> {
    Prefixed { prefix: "distlock_fence", name }
}

/// A name derived from a lock's by Redisson's suffix rule, which has the same test as the prefix rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suffixed<'a> {
    name: &'a str,
    suffix: &'static str,
}

impl fmt::Display for Suffixed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Suffixed { name, suffix } = self;
        if name.contains('{') {
            write!(f, "{name}:{suffix}")
        } else {
            write!(f, "{{{name}}}:{suffix}")
        }
    }
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
    fn derived_names_follow_redissons_rules() {
        assert_eq!(queue("L").to_string(), "redisson_lock_queue:{L}");
        assert_eq!(timeouts("x{t}y").to_string(), "redisson_lock_timeout:x{t}y");
        assert_eq!(token("L").to_string(), "redisson_lock_token:{L}");
        assert_eq!(rw_channel("L").to_string(), "redisson_rwlock:{L}");
        assert_eq!(holders("L").to_string(), "{L}:distlock_holders");
        assert!(is_holders("x{t}y:distlock_holders") && !is_holders("L"));
        assert_eq!(read_holds("L").to_string(), "{L}:");
        assert_eq!(read_holds("x{t}y").to_string(), "x{t}y:");
        assert_eq!(permits_channel("L").to_string(), "redisson_sc:{L}");
        assert_eq!(leases("x{t}y").to_string(), "x{t}y:timeout");
        assert_eq!(latch_channel("x{t}y"), "redisson_countdownlatch__channel__{x{t}y}");
    }

    #[test]
    fn leases_round_up_to_milliseconds() {
        assert_eq!(millis(Duration::from_nanos(1)), 1);
        assert_eq!(millis(Duration::from_millis(1)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::ZERO), 1);
        assert_eq!(millis(crate::locks::config::LONGEST), 315_360_000_000);
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
