//! Where the locks are.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use distlock::doctor::{Acl, Channels};
use distlock::{Locks, Observer, Result};

use super::state;
use crate::args::{self, Kind};
use crate::exit::Failure;
use crate::print;

/// Where the locks are: one place, but for a majority of several. A URL may hold a password: it is for connecting, not for
/// printing.
pub(crate) struct Store {
    urls: Vec<String>,
    prefix: Option<String>,
}

/// How to connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) watchdog: Option<Duration>,
    /// Do not wait for the server to answer.
    pub(crate) lazy: bool,
    pub(crate) observer: Option<Arc<dyn Observer>>,
    /// As what holders are known to others.
    pub(crate) service: Option<&'static str>,
}

impl Store {
    pub(super) fn new(args: args::Store, kind: Kind) -> Result<Store, Failure> {
        let urls = if args.url.is_empty() {
            match env::var("DISTLOCK_URL") {
                Ok(url) if !url.is_empty() => {
                    let urls = match kind {
                        Kind::Redlock => several(&url),
                        _ => vec![url],
                    };
                    if urls.iter().all(|url| url.trim().is_empty()) {
                        let text =
                            "DISTLOCK_URL holds only white space: name a store in it, or unset it";
                        return Err(Failure::Usage(text.to_owned()));
                    }
                    urls
                }
                // Two hosts with an empty variable would use two directories, and exclude each other no more.
                Ok(_) => {
                    let text = "DISTLOCK_URL is set but empty: name a store in it, or unset it to keep locks in files of this machine";
                    return Err(Failure::Usage(text.to_owned()));
                }
                // A path of the user's: white space in it separates nothing.
                Err(env::VarError::NotPresent) => vec![state::default_url()?],
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failure::Usage(
                        "DISTLOCK_URL is not UTF-8: name a store in it, or unset it".into(),
                    ));
                }
            }
        } else {
            if args.url.iter().any(|url| has_password(url)) {
                print::complain(
                    "every user of this machine can read the password in --url; put the URL into DISTLOCK_URL instead",
                );
            }
            args.url
        };
        if urls.len() > 1 && kind != Kind::Redlock {
            return Err(Failure::Usage(format!(
                "--url was given {} times: only --kind redlock takes several stores, --kind {} takes one",
                urls.len(),
                kind.word()
            )));
        }
        let urls = urls.into_iter().map(|url| match url.as_str() {
            "file:" | "file://" => state::default_url(),
            _ => Ok(url),
        });
        Ok(Store { urls: urls.collect::<Result<_, _>>()?, prefix: args.prefix })
    }

    /// Refuses a redlock one server of which is named twice: its vote would count twice.
    pub(super) fn with_different_members(self, kind: Kind) -> Result<Store, Failure> {
        let servers: Vec<String> = self.addresses().iter().map(|address| server(address)).collect();
        let twice = (1..servers.len()).find(|&at| servers[..at].contains(&servers[at]));
        match twice.filter(|_| kind == Kind::Redlock) {
            None => Ok(self),
            Some(at) => Err(Failure::Usage(format!(
                "the server of {} is named twice: --kind redlock needs different servers",
                self.addresses()[at]
            ))),
        }
    }

    /// Warns where locks protect less than their user may think: for commands that others must be excluded from, or that look for
    /// locks of others.
    pub(super) fn warn_of_weakness(&self, kind: Kind) {
        if self.urls.iter().any(|url| scheme(url) == "memory") {
            print::warn(
                "locks in memory: exist in this process only and exclude no other process; use file:, or redis://",
            );
        }
        if kind == Kind::Redlock {
            match self.urls.len() {
                1 => print::warn(
                    "--kind redlock on one store does not survive the loss of that store; repeat --url for at least three",
                ),
                2 => print::warn(
                    "--kind redlock on two stores needs both of them; use three, of which one may fail",
                ),
                _ => {}
            }
        }
    }

    /// Whether the locks are files.
    pub(crate) fn is_file(&self) -> bool {
        self.urls.iter().all(|url| scheme(url) == "file")
    }

    /// Where each of the stores is, without users, passwords and options.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.urls.iter().map(|url| address(url)).collect()
    }

    /// What to look at if no store replies: a port without TLS waits for more of what it takes for a command.
    pub(crate) fn tls_hint(&self) -> &'static str {
        match self.urls.iter().any(|url| scheme(url).starts_with("rediss")) {
            true => "; write redis:// instead of rediss:// if the port is not encrypted",
            false => "",
        }
    }

    /// The scheme alone, or how many there are: safe to print.
    pub(crate) fn place(&self) -> String {
        match self.urls.as_slice() {
            [url] => scheme(url).to_owned(),
            urls => format!("a majority of {} stores", urls.len()),
        }
    }

    /// One `Locks` per URL.
    pub(crate) async fn connect(&self, setup: &Setup) -> Result<Vec<Locks>> {
        let mut all = Vec::with_capacity(self.urls.len());
        for url in &self.urls {
            let mut builder = Locks::builder().url(url);
            if let Some(prefix) = &self.prefix {
                builder = builder.prefix(prefix);
            }
            if let Some(watchdog) = setup.watchdog {
                builder = builder.watchdog(watchdog);
            }
            if let Some(observer) = &setup.observer {
                builder = builder.observer(observer.clone());
            }
            if let Some(service) = setup.service {
                builder = builder.holder_info(service);
            }
            // Of several, a minority may be down.
            if setup.lazy || self.urls.len() > 1 {
                builder = builder.lazy();
            }
            all.push(builder.connect().await?);
        }
        Ok(all)
    }

    /// What a user of this store needs for locks whose names start with `prefix`.
    pub(crate) fn acl(&self, prefix: &str, kinds: &[distlock::store::Kind]) -> Acl {
        // `run` says who it is, and `show` reads it.
        let acl = Acl::new(prefix).kinds(kinds).holder_info();
        let Some(url) = self.urls.first() else { return acl };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let option = |word: &str| query.split('&').any(|option| option == word);
        // Behind the name of the primary, where there is one.
        let path = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match scheme.split_once('+').map(|(_, kind)| kind) {
            Some("cluster") if option("pubsub=classic") => acl.cluster(Channels::Classic),
            Some("cluster") if option("pubsub=both") => acl.cluster(Channels::Both),
            Some("cluster") => acl.cluster(Channels::Sharded),
            Some("sentinel") => database(acl.moving(), parts.get(1)),
            Some("replicated") => database(acl.moving(), parts.first()),
            Some(_) => acl,
            None => database(acl, parts.first()),
        }
    }
}

/// In another database than 0, it has to be chosen.
fn database(acl: Acl, db: Option<&&str>) -> Acl {
    match db {
        None | Some(&("" | "0")) => acl,
        Some(_) => acl.database(),
    }
}

/// The URL without its user, its password and its options. What may be part of a password is left out.
fn address(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.split('?').next().unwrap_or_default().to_owned();
    };
    let base = rest.split('?').next().unwrap_or_default();
    match (base.rsplit_once('@'), rest.contains('@')) {
        (Some((_, place)), _) => format!("{scheme}://{place}"),
        (None, false) => format!("{scheme}://{base}"),
        // The password has a `?` in it, or an option an `@`: it cannot be told which.
        (None, true) => format!("{scheme}://"),
    }
}

/// The server of an address: its databases fail together, and this machine has several names.
fn server(address: &str) -> String {
    let Some((scheme, place)) = address.split_once("://") else { return address.to_owned() };
    if !matches!(scheme, "redis" | "rediss") {
        return address.to_owned();
    }
    let place = place.split('/').next().unwrap_or_default().to_ascii_lowercase();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if port.chars().all(|c| c.is_ascii_digit()) => (host, port),
        _ => (place.as_str(), "6379"),
    };
    let host = if matches!(host, "localhost" | "[::1]") { "127.0.0.1" } else { host };
    format!("{host}:{port}")
}

/// What is safe to print of a URL.
fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("place", &self.place()).finish_non_exhaustive()
    }
}

/// The URLs in a text that has white space between them. What stands behind white space and does not begin as URLs do belongs
/// to the one before: a directory may have a name of several words.
fn several(text: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let ends = rest.match_indices(char::is_whitespace);
        let mut ends = ends.map(|(at, _)| at).filter(|at| has_scheme(rest[*at..].trim_start()));
        let (url, more) = rest.split_at(ends.next().unwrap_or(rest.len()));
        urls.push(url.trim_end().to_owned());
        rest = more.trim_start();
    }
    urls
}

/// Whether it begins as a URL does.
fn has_scheme(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.chars().all(is_part)
    })
}

fn has_password(url: &str) -> bool {
    let credentials = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    credentials.is_some_and(|(credentials, _)| credentials.contains(':'))
        || print::mask_options(url) != url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_password_counts_as_one() {
        assert!(has_password("redis://user:pw@host"));
        assert!(has_password("rediss://:pw@host:1"));
        assert!(!has_password("redis://user@host:1"));
        assert!(!has_password("redis://host:1"));
        assert!(!has_password("file:/a@b:c"));
        assert!(has_password("redis+unix:///run/r.sock?db=1&pass=pw"));
        assert!(has_password("redis+unix:/run/r.sock?pass=pw"));
        assert!(has_password("redis+sentinel://h/m?sentinel_user=u&sentinel_pass=pw"));
        assert!(!has_password("redis+sentinel://h/m?sentinel_user=u"));
        assert!(!has_password("rediss://h?ca=/c.pem&sni=n"));
    }

    #[test]
    fn one_server_is_one_member() {
        let store = |urls: &[&str]| {
            let urls = urls.iter().map(|&url| url.to_owned()).collect();
            Store { urls, prefix: None }.with_different_members(Kind::Redlock)
        };
        assert!(store(&["redis://a", "redis://b", "redis://a:6380"]).is_ok());
        assert!(store(&["memory:1", "memory:2", "file:/a", "file:/b"]).is_ok());
        for twice in
            [["redis://a/1", "rediss://u:p@A:6379"], ["redis://localhost", "redis://127.0.0.1"]]
        {
            assert!(store(&twice).is_err(), "{twice:?}");
        }
    }

    #[test]
    fn an_address_has_no_secrets() {
        let cases = [
            ("redis://host:1/2", "redis://host:1/2"),
            ("redis://u:p@ss@host:1?x=y", "redis://host:1"),
            ("rediss+cluster://:pw@a:1,b:2", "rediss+cluster://a:1,b:2"),
            ("redis+sentinel://h/m?sentinel_pass=a@b", "redis+sentinel://"),
            ("redis://u:p?q@host", "redis://"),
            ("redis+unix:///s?pass=pw", "redis+unix:///s"),
            ("redis+unix:/s?pass=pw", "redis+unix:/s"),
            ("file:/home/a@b", "file:/home/a@b"),
        ];
        for (url, shown) in cases {
            assert_eq!(address(url), shown);
        }
    }

    #[test]
    fn several_urls_are_told_apart_and_one_with_spaces_stays_one() {
        let cases: [(&str, &[&str]); 6] = [
            (
                "redis://a redis://b:1\n rediss+cluster://c",
                &["redis://a", "redis://b:1", "rediss+cluster://c"],
            ),
            ("file:/home/John Doe/x file:/b", &["file:/home/John Doe/x", "file:/b"]),
            (" memory:1\tmemory:2 ", &["memory:1", "memory:2"]),
            ("file:/home/J. R.  :x/1:2", &["file:/home/J. R.  :x/1:2"]),
            ("no-url", &["no-url"]),
            (" \n", &[]),
        ];
        for (text, urls) in cases {
            assert_eq!(several(text), urls, "{text:?}");
        }
    }

    #[test]
    fn a_plan_does_not_show_its_url() {
        let store = Store { urls: vec!["redis://u:canary@h".into()], prefix: None };
        assert!(!format!("{store:?}").contains("canary"));
    }
}
