//! Users who may do as little as possible.

use distlock::doctor::{Acl, Channels};

use super::{Cluster, Flavor, Server};

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

    /// [`least_privilege`](Server::least_privilege) without anything that has to do with Pub/Sub.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn without_channels(&self, prefix: &str) -> String {
        let mut rules = Acl::new(prefix).listing().rules();
        rules.retain(|rule| {
            !rule.starts_with('&') && !rule.contains("subscribe") && !rule.contains("publish")
        });
        self.user_with(&format!("deaf{}", word(prefix)), &rules)
    }

    /// Makes a user with exactly these rules, and gives the URL of that user.
    ///
    /// # Panics
    /// When the server refuses the rules.
    pub fn user_with(&self, name: &str, rules: &[String]) -> String {
        self.set_user(name, rules);
        let user = format!("://{name}:{PASSWORD}@");
        match self.plan.password.as_deref() {
            Some(password) => self.url().replacen(&format!("://:{password}@"), &user, 1),
            None => self.url().replacen("://", &user, 1),
        }
    }

    fn set_user(&self, name: &str, rules: &[String]) {
        let password = format!(">{PASSWORD}");
        let mut line =
            vec!["ACL", "SETUSER", name, "reset", "on", &password, "resetchannels", "-@all"];
        line.extend(rules.iter().map(String::as_str));
        self.try_cli_blocking(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
    }
}

impl Cluster {
    /// [`Server::least_privilege`] on every server, for this option for pub/sub.
    ///
    /// # Panics
    /// When a server refuses the rules.
    pub fn least_privilege(&self, prefix: &str, pubsub: &str) -> String {
        let channels = match pubsub {
            "classic" => Channels::Classic,
            "both" => Channels::Both,
            _ if self.nodes()[0].flavor() == Flavor::Redis62 => Channels::Classic,
            _ => Channels::Sharded,
        };
        let name = format!("least{}{pubsub}", word(prefix));
        let rules = Acl::new(prefix).listing().cluster(channels).rules();
        for node in self.nodes() {
            node.set_user(&name, &rules);
        }
        let url = self.url(pubsub);
        let (scheme, rest) = url.split_once("://").expect("a URL");
        let rest = rest.split_once('@').map_or(rest, |(_, rest)| rest);
        format!("{scheme}://{name}:{PASSWORD}@{rest}")
    }
}

/// A user's name that tells prefixes apart.
fn word(prefix: &str) -> String {
    prefix.bytes().map(|byte| format!("{byte:x}")).collect()
}
