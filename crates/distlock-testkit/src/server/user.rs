//! Users who may do as little as possible.

use distlock::doctor::{Acl, Channels};

use super::{Cluster, Flavor, SentinelSet, Server};

/// Letters and digits only: it goes into URLs as it is.
const PASSWORD: &str = "least0privilege";

impl Server {
    /// Makes a user with the least that locks of all kinds need whose names start with `prefix` (listing them included), and
    /// gives the URL of that user. One user per prefix: asking again gives the same.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn least_privilege(&self, prefix: &str) -> String {
        self.user_with(&format!("least{}", word(prefix)), &Acl::new(prefix).listing().rules())
    }

    /// [`least_privilege`](Server::least_privilege) for programs whose holders say who they are.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn least_privilege_saying_who(&self, prefix: &str) -> String {
        let rules = Acl::new(prefix).listing().holder_info().rules();
        self.user_with(&format!("says{}", word(prefix)), &rules)
    }

    /// [`least_privilege`](Server::least_privilege) without anything that has to do with Pub/Sub.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn without_channels(&self, prefix: &str) -> String {
        self.without_pubsub("deaf", &Acl::new(prefix).listing(), prefix)
    }

    /// The same for programs whose holders say who they are.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn without_channels_saying_who(&self, prefix: &str) -> String {
        self.without_pubsub("deafsays", &Acl::new(prefix).listing().holder_info(), prefix)
    }

    fn without_pubsub(&self, user: &str, acl: &Acl, prefix: &str) -> String {
        let mut rules = acl.rules();
        rules.retain(|rule| {
            !rule.starts_with('&') && !rule.contains("subscribe") && !rule.contains("publish")
        });
        self.user_with(&format!("{user}{}", word(prefix)), &rules)
    }

    /// Makes a user with exactly these rules, and gives the URL of that user.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn user_with(&self, name: &str, rules: &[String]) -> String {
        self.set_user(name, rules);
        with_user(&self.url(), name)
    }

    fn set_user(&self, name: &str, rules: &[String]) {
        let password = format!(">{PASSWORD}");
        let mut line =
            vec!["ACL", "SETUSER", name, "reset", "on", &password, "resetchannels", "-@all"];
        line.extend(rules.iter().map(String::as_str));
        self.try_cli_blocking(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        self.process.remember_user(name);
    }
}

impl SentinelSet {
    /// [`Server::least_privilege`] on every server, and a user with the least that it takes to ask them on every sentinel.
    ///
    /// # Panics
    /// When one refuses the rules.
    pub fn least_privilege(&self, prefix: &str) -> String {
        let name = format!("least{}", word(prefix));
        let rules = Acl::new(prefix).listing().moving().rules();
        for server in self.servers() {
            server.set_user(&name, &rules);
        }
        for sentinel in self.sentinels() {
            sentinel.set_user(&name, &Acl::for_sentinels().rules());
        }
        let url = with_user(&self.url(), &name);
        let (url, options) = url.split_once('?').unwrap_or((&url, ""));
        let others = options.split('&').filter(|option| !option.starts_with("sentinel_"));
        let others: Vec<&str> = others.filter(|option| !option.is_empty()).collect();
        let more = format!("sentinel_user={name}&sentinel_pass={PASSWORD}");
        format!("{url}?{}", [&others[..], &[&more]].concat().join("&"))
    }
}

/// The URL with this user instead of whoever is in it.
fn with_user(url: &str, name: &str) -> String {
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
    format!("{scheme}://{name}:{PASSWORD}@{rest}")
}

impl Cluster {
    /// [`Server::least_privilege`] on every server, for this option for pub/sub.
    ///
    /// # Panics
    /// When a server refuses the rules.
    pub fn least_privilege(&self, prefix: &str, pubsub: &str) -> String {
        self.least("least", Acl::new(prefix).listing(), prefix, pubsub)
    }

    /// The same for programs whose holders say who they are.
    ///
    /// # Panics
    /// When a server refuses the rules.
    pub fn least_privilege_saying_who(&self, prefix: &str, pubsub: &str) -> String {
        self.least("says", Acl::new(prefix).listing().holder_info(), prefix, pubsub)
    }

    fn least(&self, user: &str, acl: Acl, prefix: &str, pubsub: &str) -> String {
        let channels = match pubsub {
            "classic" => Channels::Classic,
            "both" => Channels::Both,
            _ if self.nodes()[0].flavor() == Flavor::Redis62 => Channels::Classic,
            _ => Channels::Sharded,
        };
        let name = format!("{user}{}{pubsub}", word(prefix));
        let rules = acl.cluster(channels).rules();
        for node in self.nodes() {
            node.set_user(&name, &rules);
        }
        with_user(&self.url(pubsub), &name)
    }
}

/// A user's name that tells prefixes apart.
fn word(prefix: &str) -> String {
    prefix.bytes().map(|byte| format!("{byte:x}")).collect()
}
