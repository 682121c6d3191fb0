//! The URL of a primary that sentinels choose.
//!
//! `redis+sentinel://user:password@sentinel1:26379,sentinel2/primary/db?sentinel_user=…&sentinel_pass=…`, and
//! `rediss+sentinel://` with the options of `rediss://` besides: TLS to servers and sentinels alike. User and password before
//! the hosts are for the servers.

use std::fmt;

use super::map::Address;
use super::several::{Several, config, listed};
use crate::error::Result;
use crate::redis::target::{self, Target};

/// Where sentinels listen unless they are told otherwise.
const DEFAULT_PORT: u16 = 26379;

/// Whom to ask for which primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sentinels {
    /// The sentinels.
    pub(crate) targets: Vec<Target>,
    /// The name that they have for the primary.
    pub(crate) name: String,
    /// How a server is reached, whatever its address.
    pub(crate) server: Target,
}

impl Sentinels {
    /// `None` if the URL is not of this kind.
    pub(crate) fn parse(url: &str) -> Option<Result<Sentinels>> {
        Some(Sentinels::read(Several::split(url, "sentinel")?))
    }

    fn read(mut url: Several<'_>) -> Result<Sentinels> {
        // A password with a slash that is not encoded ends up here.
        if url.path.contains('@') {
            return Err(config(
                "the URL has an @ behind its hosts: reserved characters must be written as %XX",
            ));
        }
        let path = url.path.strip_prefix('/').unwrap_or(url.path);
        let (name, db) = path.split_once('/').unwrap_or((path, ""));
        let name = target::decode(name, "name of the primary")?;
        if name.is_empty() {
            return Err(config(
                "redis+sentinel:// needs the name that the sentinels have for the primary: \
                 redis+sentinel://host1,host2/mymaster",
            ));
        }
        let mut take =
            |option| url.take(option).map(|value| target::decode(value, option)).transpose();
        let (user, password) = (take("sentinel_user")?, take("sentinel_pass")?);
        if user.is_some() && password.is_none() {
            return Err(config("`sentinel_user` in the URL needs `sentinel_pass`"));
        }
        let open = url.anonymous();
        let sentinel = |host: &str| {
            open.target(&with_port(host), "")?.with_credentials(user.clone(), password.clone())
        };
        let targets = url.hosts().map(sentinel).collect::<Result<Vec<Target>>>()?;
        // Any host will do: only what stands around it counts.
        let server = url.target("localhost", &format!("/{db}"))?;
        Ok(Sentinels { targets, name, server })
    }

    /// The target for a sentinel that another one knows of.
    pub(crate) fn sentinel(&self, at: &Address) -> Target {
        self.targets[0].at(&at.host, at.port)
    }
}

fn with_port(host: &str) -> String {
    let name = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    match host.is_empty() || name.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:{DEFAULT_PORT}"),
    }
}

impl fmt::Display for Sentinels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the primary {:?} of the sentinels {}", self.name, listed(&self.targets))?;
        match self.server.db {
            0 => Ok(()),
            db => write!(f, " (db {db})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn parse(url: &str) -> Result<Sentinels> {
        Sentinels::parse(url).expect("a URL with sentinels")
    }

    #[test]
    fn sentinels_and_servers_have_credentials_of_their_own() {
        let url = "redis+sentinel://al:p%2C%40@h1:1,10.0.0.2,[::1],[::2]:2/mm/3?sentinel_user=bo&sentinel_pass=q+%26";
        let set = parse(url).unwrap();
        let sentinel = |at: &str| Target::parse(&format!("redis://bo:q+%26@{at}")).unwrap();
        let all = ["h1:1", "10.0.0.2:26379", "[::1]:26379", "[::2]:2"];
        assert_eq!(set.targets, all.map(sentinel));
        assert_eq!(set.name, "mm");
        let server = Target::parse("redis://al:p%2C%40@h9:9/3").unwrap();
        assert_eq!(set.server.at("h9", 9), server);
        assert_eq!(set.sentinel(&Address { host: "h8".to_owned(), port: 8 }), sentinel("h8:8"));
        assert_eq!(
            set.to_string(),
            "the primary \"mm\" of the sentinels h1:1, 10.0.0.2:26379, [::1]:26379, [::2]:2 (db 3)"
        );
    }

    #[test]
    fn most_of_it_can_be_left_out() {
        let set = parse("redis+sentinel://h/mm").unwrap();
        assert_eq!(set.targets, [Target::parse("redis://h:26379").unwrap()]);
        assert_eq!(set.server.at("h", 6379), Target::parse("redis://h").unwrap());
        assert_eq!(parse("redis+sentinel://h/mm/").unwrap(), set);
        assert_eq!(parse("redis+sentinel://h/a%20b/0").unwrap().name, "a b");
        let only = parse("redis+sentinel://h/mm?sentinel_pass=x").unwrap();
        assert_eq!(only.targets, [Target::parse("redis://:x@h:26379").unwrap()]);
        assert!(Sentinels::parse("redis://h/mm").is_none());
        assert!(Sentinels::parse("redis+cluster://h").is_none());
    }

    #[test]
    #[cfg(feature = "tls")]
    fn tls_is_for_all() {
        use crate::redis::connect::Endpoint;
        let set = parse("rediss+sentinel://h1,h2:2/mm?ca=/c.pem&sentinel_pass=x&sni=n").unwrap();
        for target in set.targets.iter().chain([&set.server]) {
            let Endpoint::Tls { options, .. } = &target.endpoint else { panic!("{target:?}") };
            assert_eq!(options.sni.as_deref(), Some("n"));
        }
    }

    #[test]
    fn whoever_leaves_out_the_name_is_told_what_to_write() {
        for url in
            ["redis+sentinel://h", "redis+sentinel://h/", "redis+sentinel://h?sentinel_pass=x"]
        {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            assert!(error.to_string().contains("redis+sentinel://host1,host2/mymaster"), "{error}");
        }
    }

    #[test]
    fn bad_urls_are_config_errors_that_keep_the_password_to_themselves() {
        let bad = [
            "redis+sentinel://",
            "redis+sentinel:///mm",
            "redis+sentinel://user:hunter2@/mm",
            "redis+sentinel://user:hunter2@h1,,h2/mm",
            "redis+sentinel://user:hunter2@h1,h2:0/mm",
            "redis+sentinel://user:hunter2@h1/mm/hunter2",
            "redis+sentinel://user:hunter2@h1/mm/1/hunter2",
            "redis+sentinel://user:hunter2@h1/mm?hunter2=1",
            "redis+sentinel://user:hunter2@h1/mm?sentinel_user=hunter2",
            "redis+sentinel://user:hunter2@h1/mm?sentinel_pass=%zzhunter2",
            "redis+sentinel://user:hunter2@h1/mm#hunter2",
            "redis+sentinel://user:1/hunter2@h1/mm",
            "redis+sentinel://user:hun?ter2@h1/mm",
            "redis+sentinel://:hun#ter2@h1/mm",
            "redis+sentinel://hunter2@h1/mm",
        ];
        for url in bad {
            let error = parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{url}");
            let said = format!("{error} {error:?}");
            assert!(!said.contains("unter2") && !said.contains("ter2"), "{url}: {said}");
        }
        let set = parse("redis+sentinel://user:hunter2@h1/mm?sentinel_pass=hunter3").unwrap();
        assert!(!format!("{set} {set:?}").contains("hunter"), "{set:?}");
    }
}
