//! What a user of the server needs, in the notation of its access lists: one table, from which the profile for operators,
//! the words of errors and the doctor's dry run are made. A test compares it with the scripts.

#[cfg(test)]
mod tests;

use std::fmt;

use super::wire;
use crate::store::Kind;

/// What one kind needs.
pub(crate) struct Needs {
    pub(crate) kind: Kind,
    /// Commands in its scripts.
    commands: &'static str,
    /// Keys beside the one that has the lock's name.
    keys: &'static [Derive],
    /// Where its releases are called out.
    channel: Option<Derive>,
    /// Whether those who wait subscribe to it.
    listens: bool,
    /// The scripts, without their `.lua`.
    #[cfg(test)]
    scripts: &'static str,
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
        keys: &[|name| wire::permits_out(name).to_string()],
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
const LISTING: &[&str] = &["hexists", "hgetall", "hlen", "pttl", "scan"];
const CLUSTER: &[&str] = &["asking", "cluster|info", "cluster|slots"];
const SENTINELS: &[&str] = &[
    "sentinel|get-master-addr-by-name",
    "sentinel|master",
    "sentinel|replicas",
    "sentinel|sentinels",
];
const DOCTOR: &[&str] = &["config|get", "info", "time"];

/// How releases are called out: `pubsub=` in the URL of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channels {
    /// `SUBSCRIBE` and `PUBLISH`: everything but a cluster, and clusters before Redis 7.
    #[default]
    Classic,
    /// `SSUBSCRIBE` and `SPUBLISH`: what `pubsub=auto` is in a cluster of Redis 7 or later.
    Sharded,
    /// Both.
    Both,
}

impl Channels {
    /// The commands that stand for one of plain channels.
    fn of(self, command: &'static str) -> Vec<&'static str> {
        let sharded = match command {
            "publish" => "spublish",
            "subscribe" => "ssubscribe",
            "unsubscribe" => "sunsubscribe",
            "pubsub|numsub" => "pubsub|shardnumsub",
            other => return vec![other],
        };
        match self {
            Channels::Classic => vec![command],
            Channels::Sharded => vec![sharded],
            Channels::Both => vec![command, sharded],
        }
    }
}

/// What a user of the server needs for locks, and nothing more: the rules for `ACL SETUSER`.
///
/// Accepted by Redis 6.2 and later and by Valkey. A guard that runs commands of your own
/// ([`Guard::send`](crate::Guard::send)) needs those commands and their keys besides.
///
/// ```
/// use distlock::doctor::Acl;
/// use distlock::store::Kind;
///
/// let acl = Acl::new("app:").kinds(&[Kind::Mutex]);
/// assert!(acl.rules().contains(&"+hset".to_owned()));
/// assert!(acl.rules().contains(&"&redisson_lock__channel:{app:*".to_owned()));
/// assert!(acl.set_user("shop").starts_with("ACL SETUSER shop reset on >PASSWORD resetchannels -@all +del "));
/// ```
#[derive(Clone, Debug)]
#[must_use = "rules do nothing until a server has them"]
pub struct Acl {
    prefix: String,
    kinds: Vec<Kind>,
    channels: Channels,
    more: Vec<&'static str>,
}

impl Acl {
    /// For all kinds of locks whose names start with `prefix`, on a server by itself. White space in it becomes `?`, because
    /// rules have none.
    pub fn new(prefix: impl Into<String>) -> Acl {
        let kinds = NEEDS.iter().map(|needs| needs.kind).collect();
        Acl { prefix: prefix.into(), kinds, channels: Channels::Classic, more: Vec::new() }
    }

    /// For sentinels: what it takes to ask them who is the primary. Servers have users of their own.
    ///
    /// ```
    /// let rules = distlock::doctor::Acl::for_sentinels().rules();
    /// assert!(rules.contains(&"+sentinel|get-master-addr-by-name".to_owned()));
    /// ```
    pub fn for_sentinels() -> Acl {
        Acl::new("").kinds(&[]).and(SENTINELS)
    }

    /// For these kinds alone. A [`MultiLock`](crate::MultiLock) of other kinds than mutex needs those as well.
    pub fn kinds(mut self, kinds: &[Kind]) -> Acl {
        self.kinds = kinds.to_vec();
        self
    }

    /// On a cluster: give every server the same rules. Servers before Redis 7 know only [`Channels::Classic`].
    pub fn cluster(mut self, channels: Channels) -> Acl {
        self.channels = channels;
        self.and(CLUSTER).and(match channels {
            Channels::Classic => &[],
            // Asked once, to find out whether there are sharded channels.
            Channels::Sharded | Channels::Both => &["pubsub|shardnumsub"],
        })
    }

    /// With a primary that moves: `redis+sentinel://` and `redis+replicated://`.
    pub fn moving(self) -> Acl {
        self.and(&["role"])
    }

    /// With acknowledgements of replicas.
    pub fn acks(self) -> Acl {
        self.and(&["wait"])
    }

    /// In a database other than 0.
    pub fn database(self) -> Acl {
        self.and(&["select"])
    }

    /// With [`Locks::list`](crate::Locks::list), which sees the names of all keys of the server.
    pub fn listing(self) -> Acl {
        self.and(LISTING)
    }

    /// With what the [doctor](crate::Locks::doctor) looks at; without it the doctor says what it could not check.
    pub fn doctor(self) -> Acl {
        self.and(DOCTOR)
    }

    fn and(mut self, commands: &[&'static str]) -> Acl {
        self.more.extend(commands);
        self
    }

    /// The permissions, one rule each, sorted: commands, then keys, then channels. They are to be given to a user who has none.
    pub fn rules(&self) -> Vec<String> {
        let mut commands: Vec<&str> = self.more.clone();
        let (mut keys, mut channels) = (Vec::new(), Vec::new());
        for needs in NEEDS.iter().filter(|needs| self.kinds.contains(&needs.kind)) {
            commands.extend(needs.commands(self.channels));
            keys.extend(needs.key_patterns(&self.prefix));
            channels.extend(needs.channel_patterns(&self.prefix));
        }
        let commands = commands.into_iter().map(|command| format!("+{command}")).collect();
        let mut rules = sorted(commands);
        rules.extend(sorted(keys).into_iter().map(|key| format!("~{key}")));
        rules.extend(sorted(channels).into_iter().map(|channel| format!("&{channel}")));
        rules
    }

    /// The line that makes a user of that name, as `redis-cli` reads it. Put its password in the place of `PASSWORD`.
    pub fn set_user(&self, name: &str) -> String {
        let mut line =
            format!("ACL SETUSER {} reset on >PASSWORD resetchannels -@all", quoted(name));
        for rule in self.rules() {
            line.push(' ');
            line += &quoted(&rule);
        }
        line
    }
}

/// The rules, as they stand in `ACL SETUSER`.
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.rules().join(" "))
    }
}

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
    fn key_patterns(&self, prefix: &str) -> Vec<String> {
        let mut all = vec![pattern(prefix)];
        all.extend(self.keys.iter().flat_map(|key| patterns(*key, prefix)));
        all
    }

    fn channel_patterns(&self, prefix: &str) -> Vec<String> {
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

/// Names that start with `prefix`.
fn pattern(prefix: &str) -> String {
    wire::starting_with(prefix).replace(|c: char| c.is_whitespace() || c == '\0', "?")
}

/// In order, without those that others cover; a server refuses a pattern after `*`.
fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all.dedup();
    let wide: Vec<String> =
        all.iter().filter_map(|rule| rule.strip_suffix('*').map(str::to_owned)).collect();
    let covered = |rule: &String| {
        let inside = |wide: &String| rule.starts_with(wide) && rule.len() > wide.len() + 1;
        wide.iter().any(inside)
    };
    all.retain(|rule| !covered(rule));
    all
}

/// As `redis-cli` reads it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\'' | '\\');
    if !word.is_empty() && word.chars().all(|c| plain(c) || !c.is_ascii()) {
        return word.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in word.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_ascii_control() => quoted += &format!("\\x{:02x}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The commands that a script calls by name, in order; `pubsub` with its subcommand.
pub(crate) fn commands_in(script: &str) -> impl Iterator<Item = &str> {
    let calls = script.split("redis.call('").flat_map(|part| part.split("redis.pcall('")).skip(1);
    calls.filter_map(|call| call.split_once('\'')).map(|(name, rest)| match (name, rest) {
        ("pubsub", _) if rest.starts_with(", 'numsub'") => "pubsub|numsub",
        ("pubsub", _) => "pubsub|shardnumsub",
        _ => name,
    })
}

/// What a server that refuses for want of a permission says is missing, as far as it says so. In a script, it says at best
/// in which line.
pub(crate) fn missing(text: &str, script: Option<&str>) -> String {
    if text.contains(" channel") {
        return "an &channel for the lock's name".to_owned();
    }
    if text.contains(" key") {
        return "a ~key for the lock's name".to_owned();
    }
    let named = text.split_once("to run the '").and_then(|(_, rest)| rest.split_once('\''));
    if let Some((command, _)) = named {
        return format!("+{command}");
    }
    let Some(script) = script else { return "a permission".to_owned() };
    let line = text.rsplit_once("@user_script:").and_then(|(_, rest)| {
        let number = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        script.lines().nth(number.parse::<usize>().ok()?.checked_sub(1)?)
    });
    // An error that a script passes on is one of a protected call. Of a command that it was told, nothing is known.
    let told = script.matches("redis.pcall(").count() != script.matches("redis.pcall('").count();
    let protected = || script.lines().filter(move |line| !told && line.contains("redis.pcall"));
    let commands = match line {
        Some(line) => sorted(commands_in(line).map(|command| format!("+{command}")).collect()),
        None => {
            sorted(protected().flat_map(commands_in).map(|command| format!("+{command}")).collect())
        }
    };
    match &commands[..] {
        [] => "a permission".to_owned(),
        [one] => one.clone(),
        several => format!("one of {}", several.join(" ")),
    }
}

/// All commands that locks of any kind take on a server by itself.
pub(crate) fn all_commands() -> String {
    let all = NEEDS.iter().flat_map(|needs| needs.commands(Channels::Classic));
    sorted(all.map(|command| format!("+{command}")).collect()).join(" ")
}
