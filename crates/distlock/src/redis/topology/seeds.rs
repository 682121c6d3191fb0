//! The URL of a cluster: some of its servers, and what is the same for all of them.
//!
//! `redis+cluster://user:password@host1:7000,host2:7001?pubsub=auto`, and `rediss+cluster://` with the options of `rediss://`
//! besides.

use std::fmt;

use super::map::Address;
use super::several::{Several, config, listed};
use crate::error::Result;
use crate::redis::target::Target;

/// How releases are called out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PubSub {
    /// Sharded if the servers can, as Redisson has it.
    Auto,
    /// As [`Way`](crate::redis::pubsub::Way) says.
    Fixed(crate::redis::pubsub::Way),
}

/// Where to ask for the rest of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seeds {
    pub(crate) targets: Vec<Target>,
    pub(crate) pubsub: PubSub,
}

impl Seeds {
    /// `None` if the URL is not that of a cluster.
    pub(crate) fn parse(url: &str) -> Option<Result<Seeds>> {
        Some(Seeds::read(Several::split(url, "cluster")?))
    }

    fn read(mut url: Several<'_>) -> Result<Seeds> {
        let pubsub = url.take("pubsub").map_or(Ok(PubSub::Auto), way)?;
        let servers = url.hosts().map(|host| url.target(host, url.path));
        let targets = servers.collect::<Result<Vec<Target>>>()?;
        if targets.iter().any(|target| target.db != 0) {
            return Err(config("a cluster has no databases but 0: leave it out of the URL"));
        }
        Ok(Seeds { targets, pubsub })
    }

    /// The target for a server that the cluster announces.
    pub(crate) fn target(&self, at: &Address) -> Target {
        self.targets[0].at(&at.host, at.port)
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the cluster with {}", listed(&self.targets))
    }
}

fn way(word: &str) -> Result<PubSub> {
    use crate::redis::pubsub::Way;
    Ok(match word {
        "auto" => PubSub::Auto,
        "classic" => PubSub::Fixed(Way::Classic),
        "sharded" => PubSub::Fixed(Way::Sharded),
        "both" => PubSub::Fixed(Way::Both),
        _ => return Err(config("`pubsub` in the URL is one of auto, classic, sharded and both")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    #[cfg(feature = "tls")]
    use crate::redis::connect::Endpoint;
    use crate::redis::pubsub::Way;

    fn parse(url: &str) -> Result<Seeds> {
        Seeds::parse(url).expect("a cluster's URL")
    }

    #[test]
    fn servers_are_read_and_share_the_rest() {
        let seeds = parse("redis+cluster://al:p%2C%40@h1:7000,10.0.0.2,[::1]:7002/?pubsub=both");
        let seeds = seeds.unwrap();
        assert_eq!(seeds.pubsub, PubSub::Fixed(Way::Both));
        let single = |at: &str| Target::parse(&format!("redis://al:p%2C%40@{at}")).unwrap();
        assert_eq!(seeds.targets, ["h1:7000", "10.0.0.2:6379", "[::1]:7002"].map(single));
        let moved = Address { host: "h9".to_owned(), port: 9 };
        assert_eq!(seeds.target(&moved), single("h9:9"));
        assert_eq!(seeds.to_string(), "the cluster with h1:7000, 10.0.0.2:6379, [::1]:7002");
    }

    #[test]
    fn ways_are_read() {
        for (word, way) in [("auto", PubSub::Auto), ("sharded", PubSub::Fixed(Way::Sharded))] {
            assert_eq!(parse(&format!("redis+cluster://h?pubsub={word}")).unwrap().pubsub, way);
        }
        assert_eq!(parse("redis+cluster://h").unwrap().pubsub, PubSub::Auto);
        assert!(Seeds::parse("redis://h").is_none());
        assert!(Seeds::parse("redis+unix:///s").is_none());
    }

    #[test]
    #[cfg(feature = "tls")]
    fn tls_is_for_all() {
        let seeds = parse("rediss+cluster://h1,h2:2?ca=/c.pem&pubsub=classic&sni=n").unwrap();
        for target in &seeds.targets {
            let Endpoint::Tls { options, .. } = &target.endpoint else { panic!("{target:?}") };
            assert_eq!(options.sni.as_deref(), Some("n"));
        }
        let moved = seeds.target(&Address { host: "h9".to_owned(), port: 9 });
        assert!(matches!(moved.endpoint, Endpoint::Tls { port: 9, .. }));
    }

    #[test]
    fn bad_urls_are_config_errors_that_keep_the_password_to_themselves() {
        let bad = [
            "redis+cluster://",
            "redis+cluster://user:hunter2@",
            "redis+cluster://user:hunter2@h1,,h2",
            "redis+cluster://user:hunter2@h1,h2:0",
            "redis+cluster://user:hunter2@h1/1",
            "redis+cluster://user:hunter2@h1/hunter2",
            "redis+cluster://user:hunter2@h1?pubsub=hunter2",
            "redis+cluster://user:hunter2@h1?hunter2=1",
            "redis+cluster://user:hunter2@h1#hunter2",
            "redis+cluster://user:hunter2/x@h1",
            "redis+cluster://:hun#ter2@h1",
        ];
        for url in bad {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            let said = format!("{error} {error:?}");
            assert!(!said.contains("unter2"), "{url}: {said}");
        }
    }
}
