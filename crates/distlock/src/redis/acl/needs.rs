//! What each kind needs: the table.

use super::{CLUSTER, Channels};
use crate::redis::wire;
use crate::store::Kind;

/// What one kind needs.
pub(crate) struct Needs {
    pub(crate) kind: Kind,
    /// Commands in its scripts.
    pub(super) commands: &'static str,
    /// Keys beside the one that has the lock's name.
    keys: &'static [Derive],
    /// Where its releases are called out.
    channel: Option<Derive>,
    /// Whether those who wait subscribe to it.
    listens: bool,
    /// The scripts, without their `.lua`.
    #[cfg(test)]
    pub(super) scripts: &'static str,
}

/// A name that belongs to a lock. What is any text stands in it as `*`.
type Derive = fn(&str) -> String;

const EXCLUSIVE: Needs = Needs {
    kind: Kind::Mutex,
    commands: "del hdel hexists hgetall hset pexpire pttl publish",
    keys: &[],
    channel: Some(|name| wire::channel(name).to_string()),
    listens: true,
    #[cfg(test)]
    scripts: "exclusive_acquire exclusive_force exclusive_inspect exclusive_release exclusive_renew guarded_send multi_acquire",
};

/// Every kind, in the order of the tour.
pub(crate) const NEEDS: [Needs; 11] = [
    EXCLUSIVE,
    Needs {
        kind: Kind::Fair,
        commands: "del exists hdel hexists hgetall hset lindex lpop lpos lrange lrem pexpire pttl publish pubsub|numsub rpush time zadd zrange zrem zscore",
        keys: &[|name| wire::queue(name).to_string(), |name| wire::timeouts(name).to_string()],
        #[cfg(test)]
        scripts: "exclusive_renew fair_acquire fair_force fair_give_up fair_inspect fair_queue fair_release guarded_send",
        ..EXCLUSIVE
    },
    Needs {
        kind: Kind::Rw,
        commands: "del exists get hdel hexists hget hgetall hlen hmget hset pexpire pttl publish set",
        keys: &[
            |name| format!("{}*:rwlock_timeout:*", wire::read_holds(name)),
            |name| wire::waiting_writer(name).to_string(),
        ],
        channel: Some(|name| wire::rw_channel(name).to_string()),
        listens: true,
        #[cfg(test)]
        scripts: "guarded_send rw_acquire_read rw_acquire_write rw_force rw_inspect rw_lives rw_release_read rw_release_write rw_renew",
    },
    Needs {
        kind: Kind::Fenced,
        commands: "del get hdel hexists hgetall hset pexpire pttl publish set time",
        keys: &[|name| wire::token(name).to_string(), |name| wire::fence(name).to_string()],
        #[cfg(test)]
        scripts: "exclusive_force exclusive_inspect exclusive_release exclusive_renew fenced_acquire fenced_admit fenced_forget guarded_send multi_acquire",
        ..EXCLUSIVE
    },
    Needs { kind: Kind::Spin, listens: false, ..EXCLUSIVE },
    Needs {
        kind: Kind::Simple,
        commands: "del get pexpire pttl set",
        keys: &[],
        channel: None,
        listens: false,
        #[cfg(test)]
        scripts: "guarded_send simple_acquire simple_force simple_inspect simple_release simple_renew",
    },
    Needs { kind: Kind::Multi, ..EXCLUSIVE },
    Needs { kind: Kind::Redlock, ..EXCLUSIVE },
    Needs {
        kind: Kind::Semaphore,
        commands: "decrby del exists get hdel hexists hget hgetall hset hsetnx incrby pttl publish set",
        // And what begins so: owners that gave up.
        keys: &[|name| format!("{}*", wire::permits_out(name))],
        channel: Some(|name| wire::permits_channel(name).to_string()),
        listens: true,
        #[cfg(test)]
        scripts: "permits_acquire permits_admin permits_force permits_inspect permits_number permits_release permits_renew",
    },
    Needs {
        kind: Kind::LeasedSemaphore,
        commands: "decrby del exists get incrby pexpire pttl publish set time zadd zcard zcount zmscore zrange zrangebyscore zrem zremrangebyrank zscore",
        keys: &[|name| wire::leases(name).to_string()],
        channel: Some(|name| wire::permits_channel(name).to_string()),
        listens: true,
        #[cfg(test)]
        scripts: "leased_acquire leased_admin leased_force leased_ids leased_inspect leased_release leased_renew permits_number",
    },
    Needs {
        kind: Kind::Latch,
        commands: "decr del get publish set",
        keys: &[|name| wire::counted(name, "*")],
        channel: Some(wire::latch_channel),
        listens: true,
        #[cfg(test)]
        scripts: "latch_acquire latch_admin latch_count_down latch_inspect latch_renew permits_number",
    },
];

/// What every step takes. HELLO and AUTH are not here: servers let everybody.
const STEPS: &[&str] = &["evalsha", "script|load"];
/// Asks a silent connection whether it is alive. A refusal is an answer as well, but fills the server's log.
const ALIVE: &str = "ping";

impl Needs {
    /// Every command that this kind takes.
    pub(crate) fn commands(&self, channels: Channels) -> Vec<&'static str> {
        let mut all: Vec<&str> = STEPS.to_vec();
        all.extend(self.commands.split(' '));
        if self.listens {
            all.extend(["subscribe", "unsubscribe", ALIVE]);
        }
        all.into_iter().flat_map(|command| channels.of(command)).collect()
    }

    /// The keys that locks of this kind with this prefix have.
    pub(super) fn key_patterns(&self, prefix: &str) -> Vec<String> {
        let mut all = vec![pattern(prefix)];
        all.extend(self.keys.iter().flat_map(|key| patterns(*key, prefix)));
        all
    }

    pub(super) fn channel_patterns(&self, prefix: &str) -> Vec<String> {
        self.channel.map(|channel| patterns(channel, prefix)).unwrap_or_default()
    }

    /// What its scripts take.
    #[cfg(test)]
    pub(crate) fn scripts_take(&self) -> impl Iterator<Item = &'static str> {
        self.commands.split(' ')
    }

    /// All rules of this kind.
    pub(crate) fn rules(&self, prefix: &str, channels: Channels, cluster: bool) -> Vec<String> {
        let more = CLUSTER.iter().copied().filter(|_| cluster);
        let commands = self.commands(channels).into_iter().chain(more);
        let mut rules: Vec<String> = commands.map(|command| format!("+{command}")).collect();
        rules.extend(self.key_patterns(prefix).into_iter().map(|key| format!("~{key}")));
        rules.extend(self.channel_patterns(prefix).into_iter().map(|at| format!("&{at}")));
        rules
    }

    /// The rule that allows `name`, if that belongs to the lock.
    pub(crate) fn rule(&self, name: &str, lock: &str, prefix: &str) -> Option<String> {
        let first = |derive: Derive| patterns(derive, prefix).into_iter().next();
        if name == lock {
            return Some(format!("~{}", pattern(prefix)));
        }
        if self.channel.is_some_and(|channel| channel(lock) == name) {
            return Some(format!("&{}", self.channel.and_then(first)?));
        }
        let is_it = |key: &&Derive| example(**key, lock) == name;
        Some(format!("~{}", self.keys.iter().find(is_it).copied().and_then(first)?))
    }

    /// Whether those who wait for it subscribe.
    pub(crate) fn listens(&self) -> bool {
        self.listens
    }

    /// Whether `name` looks like a channel of this kind.
    pub(crate) fn has_channel(&self, name: &str) -> bool {
        let channel = self.channel.map(|channel| channel("")).unwrap_or_default();
        let start = channel.trim_end_matches(['{', '}']);
        !start.is_empty() && name.starts_with(start)
    }

    /// The keys and channels of one lock, for a dry run.
    pub(crate) fn names(&self, lock: &str) -> (Vec<String>, Option<String>) {
        let mut keys = vec![lock.to_owned()];
        keys.extend(self.keys.iter().map(|key| example(*key, lock)));
        (keys, self.channel.map(|channel| channel(lock)))
    }
}

/// A name that the lock has, with something where anything may be. A star in the lock's own name stays.
fn example(derive: Derive, lock: &str) -> String {
    let derived = derive(lock);
    match derived.split_once(lock) {
        Some((before, after)) => format!("{before}{lock}{}", after.replace('*', "1")),
        None => derived,
    }
}

/// Both forms of a derived name, since a lock's name may bring braces of its own behind the prefix.
fn patterns(derive: Derive, prefix: &str) -> Vec<String> {
    // Something that no derived name has by itself, to find where the lock's name went.
    const HERE: char = '\0';
    let forms = [HERE.to_string(), format!("{HERE}{{")];
    let braces = prefix.contains('{');
    let forms = forms.iter().skip(usize::from(braces));
    let form = |name: &String| {
        let derived = derive(name);
        let (before, after) = derived.split_once(HERE).unwrap_or_default();
        let after = after.trim_start_matches('{');
        // What follows a closing brace at the end is an owner at most, and any owner may come.
        let after = if after == "}" { "" } else { after };
        format!("{before}{}{after}", pattern(prefix))
    };
    forms.map(form).collect()
}

/// Where the holders of one lock say who they are.
pub(crate) fn holders_key(lock: &str) -> String {
    wire::holders(lock).to_string()
}

/// Where holders of locks with this prefix say who they are.
pub(super) fn holders_patterns(prefix: &str) -> Vec<String> {
    patterns(|name| wire::holders(name).to_string(), prefix)
}

/// Names that start with `prefix`.
fn pattern(prefix: &str) -> String {
    wire::starting_with(prefix).replace(|c: char| c.is_whitespace() || c == '\0', "?")
}
