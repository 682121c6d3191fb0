//! What a user of the server needs, in the notation of its access lists: one table, from which the profile for operators,
//! the words of errors and the doctor's dry run are made. A test compares it with the scripts.

mod missing;
mod needs;
#[cfg(test)]
mod tests;

#[cfg(test)]
use missing::commands_in;
pub(crate) use missing::{all_commands, missing};
pub(crate) use needs::{NEEDS, Needs, holders_key};

use std::fmt;

use crate::store::Kind;

const LISTING: &[&str] = &["hexists", "hgetall", "hlen", "pttl", "scan"];
/// What keeping and reading what holders say takes, beside the lock itself.
const HOLDERS: &[&str] = &["del", "hdel", "hmget", "hset", "pexpire", "pttl", "pubsub|numsub"];
const CLUSTER: &[&str] = &["asking", "cluster|info", "cluster|slots"];
const SENTINELS: &[&str] = &[
    "sentinel|get-master-addr-by-name",
    "sentinel|master",
    "sentinel|replicas",
    "sentinel|sentinels",
];
/// What it takes to end a connection at the server whose command got no reply. Locks work without it, but such a command may then
/// run late, after newer ones.
pub(crate) const KILLING: &[&str] = &["client|info", "client|kill"];
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
/// Of the rules, `+client|info` and `+client|kill` are optional: with them, a connection whose command got no reply is ended at the
/// server before anything else is sent, so that the command cannot run late. They let the user end connections of others, too.
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
/// assert!(acl.set_user("shop").starts_with("ACL SETUSER shop reset on >PASSWORD resetchannels -@all +client|info "));
/// ```
#[derive(Clone, Debug)]
#[must_use = "rules do nothing until a server has them"]
pub struct Acl {
    prefix: String,
    kinds: Vec<Kind>,
    channels: Channels,
    holder_info: bool,
    more: Vec<&'static str>,
}

impl Acl {
    /// For all kinds of locks whose names start with `prefix`, on a server by itself. White space in it becomes `?`, because
    /// rules have none.
    pub fn new(prefix: impl Into<String>) -> Acl {
        let kinds = NEEDS.iter().map(|needs| needs.kind).collect();
        let (channels, more) = (Channels::Classic, Vec::new());
        Acl { prefix: prefix.into(), kinds, channels, holder_info: false, more }
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

    /// With [`Builder::holder_info`](crate::Builder::holder_info), and for reading what others say with it; also for counting who
    /// waits.
    ///
    /// ```
    /// let acl = distlock::doctor::Acl::new("app:").holder_info();
    /// assert!(acl.rules().contains(&"~{app:*}:distlock_holders".to_owned()));
    /// ```
    pub fn holder_info(mut self) -> Acl {
        self.holder_info = true;
        self
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
        // Who is only asked, as sentinels are, does nothing that could come too late.
        if !self.kinds.is_empty() {
            commands.extend(KILLING);
        }
        if self.holder_info {
            commands.extend(holders_take(self.channels));
            keys.extend(needs::holders_patterns(&self.prefix));
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

/// The commands for what holders say of themselves.
fn holders_take(channels: Channels) -> impl Iterator<Item = &'static str> {
    HOLDERS.iter().flat_map(move |command| channels.of(command))
}

/// All rules for that.
pub(crate) fn holders_rules(prefix: &str, channels: Channels) -> Vec<String> {
    let commands = holders_take(channels).map(|command| format!("+{command}"));
    let keys = needs::holders_patterns(prefix).into_iter().map(|key| format!("~{key}"));
    commands.chain(keys).collect()
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
