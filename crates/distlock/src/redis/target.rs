//! Where a server is and who we are to it, read from a URL. Those of several servers are in `topology/`.
//!
//! No error here repeats a piece of the URL: a character that was not encoded shifts the pieces, and then a password is
//! where a port or a path should be.

use std::fmt;
use std::path::PathBuf;

use url::Url;

use super::connect::{Endpoint, TlsOptions};
use crate::error::{Error, ErrorKind, Result};

const DEFAULT_PORT: u16 = 6379;

/// A server, a database on it, and credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) endpoint: Endpoint,
    pub(crate) db: i64,
    credentials: Option<(Option<String>, String)>,
}

impl Target {
    /// Reads `redis://`, `rediss://` and `redis+unix://` URLs.
    pub(crate) fn parse(text: &str) -> Result<Target> {
        // Before anything else: several hosts are no URL to those who read just one.
        for (kind, feature) in
            [("cluster", "cluster"), ("sentinel", "sentinel"), ("replicated", "sentinel")]
        {
            let rest = text.strip_prefix("rediss").or_else(|| text.strip_prefix("redis"));
            let rest = rest.and_then(|rest| rest.strip_prefix('+'));
            let rest = rest.and_then(|rest| rest.strip_prefix(kind));
            if rest.is_some_and(|rest| rest.starts_with("://")) {
                return Err(config(format!(
                    "redis+{kind}:// needs the cargo feature `{feature}` of distlock"
                )));
            }
        }
        let url = Url::parse(text).map_err(|why| {
            config(format!(
                "the URL cannot be read ({why}): reserved characters in a user name or password must be written as %XX"
            ))
        })?;
        if url.fragment().is_some() {
            return Err(config("the URL has a fragment: write # as %23"));
        }
        match url.scheme() {
            "redis" => Target::tcp(&url),
            "rediss" if cfg!(feature = "tls") => Target::tls(&url),
            "rediss" => Err(config("rediss:// needs the cargo feature `tls` of distlock")),
            "redis+unix" => Target::unix(&url),
            _ => Err(config(
                "the URL is none of redis://, rediss://, redis+unix://, redis+sentinel://, redis+replicated:// and \
                 redis+cluster://",
            )),
        }
    }

    fn tcp(url: &Url) -> Result<Target> {
        let (host, port) = host_and_port(url)?;
        for _ in options(url, &[])? {}
        Ok(Target {
            endpoint: Endpoint::Tcp { host, port },
            db: db_of_path(url)?,
            credentials: credentials_of(url)?,
        })
    }

    fn tls(url: &Url) -> Result<Target> {
        let (host, port) = host_and_port(url)?;
        let mut tls = TlsOptions::default();
        for (name, value) in options(url, &["ca", "cert", "key", "sni"])? {
            match name {
                "ca" => tls.ca = Some(value.into()),
                "cert" => tls.cert = Some(value.into()),
                "key" => tls.key = Some(value.into()),
                _ => tls.sni = Some(value),
            }
        }
        if tls.cert.is_some() != tls.key.is_some() {
            return Err(config("a client certificate needs both `cert` and `key` in the URL"));
        }
        Ok(Target {
            endpoint: Endpoint::Tls { host, port, options: tls },
            db: db_of_path(url)?,
            credentials: credentials_of(url)?,
        })
    }

    fn unix(url: &Url) -> Result<Target> {
        if url.host_str().is_some_and(|host| !host.is_empty()) || has_userinfo(url) {
            return Err(config(
                "a redis+unix URL is redis+unix:///path/to.sock?db=0&user=name&pass=word",
            ));
        }
        let path = decode(url.path(), "path")?;
        if path.len() < 2 {
            return Err(config("the redis+unix URL has no path"));
        }
        let (mut db, mut user, mut password) = (0, None, None);
        for (name, value) in options(url, &["db", "user", "pass"])? {
            match name {
                "db" => db = db_number(&value)?,
                "user" => user = Some(value),
                _ => password = Some(value),
            }
        }
        Ok(Target {
            endpoint: Endpoint::Unix { path: PathBuf::from(path) },
            db,
            credentials: credentials(user, password)?,
        })
    }

    /// The same at another address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Target {
        let host = host.to_owned();
        let endpoint = match &self.endpoint {
            Endpoint::Tls { options, .. } => Endpoint::Tls { host, port, options: options.clone() },
            Endpoint::Tcp { .. } | Endpoint::Unix { .. } => Endpoint::Tcp { host, port },
        };
        Target { endpoint, ..self.clone() }
    }

    /// The same for another user.
    pub(crate) fn with_credentials(
        self,
        user: Option<String>,
        password: Option<String>,
    ) -> Result<Target> {
        Ok(Target { credentials: credentials(user, password)?, ..self })
    }

    /// Whether it logs in as somebody.
    pub(crate) fn has_credentials(&self) -> bool {
        self.credentials.is_some()
    }

    /// What the client crate needs to log in.
    pub(crate) fn login(&self) -> redis::RedisConnectionInfo {
        let mut login = redis::RedisConnectionInfo::default()
            .set_protocol(redis::ProtocolVersion::RESP3)
            .set_lib_name("distlock", env!("CARGO_PKG_VERSION"))
            .set_db(self.db);
        if let Some((user, password)) = &self.credentials {
            if let Some(user) = user {
                login = login.set_username(user);
            }
            login = login.set_password(password);
        }
        login
    }
}

/// Says where, never who: this goes into logs and errors.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.endpoint)?;
        match self.db {
            0 => Ok(()),
            db => write!(f, " (db {db})"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

fn config(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

fn host_and_port(url: &Url) -> Result<(String, u16)> {
    let host = match url.host() {
        Some(url::Host::Domain(name)) => decode(name, "host")?,
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    if host.is_empty() {
        return Err(config("the URL has no host"));
    }
    match url.port() {
        Some(0) => Err(config("the URL's port is 0")),
        port => Ok((host, port.unwrap_or(DEFAULT_PORT))),
    }
}

fn db_of_path(url: &Url) -> Result<i64> {
    match url.path().trim_start_matches('/') {
        "" => Ok(0),
        db => db_number(db),
    }
}

fn db_number(text: &str) -> Result<i64> {
    match text.parse::<u32>() {
        Ok(db) => Ok(i64::from(db)),
        Err(_) => Err(config("the database in the URL is not a number")),
    }
}

fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn credentials_of(url: &Url) -> Result<Option<(Option<String>, String)>> {
    let user = decode(url.username(), "user name")?;
    let password = url.password().map(|word| decode(word, "password")).transpose()?;
    credentials(Some(user), password)
}

fn credentials(
    user: Option<String>,
    password: Option<String>,
) -> Result<Option<(Option<String>, String)>> {
    let user = user.filter(|user| !user.is_empty());
    match password {
        Some(password) => Ok(Some((user, password))),
        None if user.is_some() => Err(config(
            "the URL has a user name without a password: write user:password@, or :password@ for the default user",
        )),
        None => Ok(None),
    }
}

/// The options behind the `?`, each with its value, all of them among `known`.
fn options<'a>(url: &'a Url, known: &[&'static str]) -> Result<Vec<(&'static str, String)>> {
    let pairs = url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair: &'a str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let Some(name) = known.iter().find(|known| **known == name) else {
                return Err(config(match known {
                    [] => "this URL takes no options: write ? as %3F".to_owned(),
                    _ => format!("unknown option in the URL: it takes {}", known.join(", ")),
                }));
            };
            // Not form encoding: a plus sign in a password means itself.
            Ok((*name, decode(value, name)?))
        })
        .collect()
}

pub(crate) fn decode(text: &str, part: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|b| char::from(b).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
            _ => {
                return Err(config(format!(
                    "the {part} in the URL has a % without two hex digits: write % as %25"
                )));
            }
        }
    }
    String::from_utf8(bytes).map_err(|_| config(format!("the {part} in the URL is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn addresses_are_read() {
        let table = [
            ("redis://localhost", tcp("localhost", 6379), 0),
            ("redis://10.0.0.1:7000/3", tcp("10.0.0.1", 7000), 3),
            ("redis://[::1]:6380/", tcp("::1", 6380), 0),
            ("redis+unix:///run/r.sock", Endpoint::Unix { path: "/run/r.sock".into() }, 0),
            ("redis+unix:///a%20b?db=4", Endpoint::Unix { path: "/a b".into() }, 4),
        ];
        for (text, endpoint, db) in table {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.endpoint, target.db), (endpoint, db), "{text}");
        }
    }

    #[test]
    fn credentials_are_decoded() {
        let table = [
            ("redis://h", None),
            ("redis://:p%40ss%2Fw%25@h", Some((None, "p@ss/w%"))),
            ("redis://al:b+c@h", Some((Some("al"), "b+c"))),
            ("redis+unix:///s?user=al&pass=b+c%26", Some((Some("al"), "b+c&"))),
        ];
        for (text, expected) in table {
            let found = Target::parse(text).unwrap().credentials;
            let found = found.as_ref().map(|(user, word)| (user.as_deref(), word.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn bad_urls_are_config_errors_that_keep_the_password_to_themselves() {
        let bad = [
            "redis://user:hunter2@",
            "redis://user@host",
            "redis://user:hunter2@host/hunter2",
            "redis://user:hunter2@host?hunter2=1",
            "redis://user:hunter2@host#hunter2",
            "redis://user:hunter2/x@host",
            "redis://:hun#ter2@host",
            "redis://user:%zzhunter2@host",
            "redis://user:%ffhunter2@host",
            "redis://user:hunter2@host:99999",
            "redis://user:hunter2@host:0",
            "redis+unix://user:hunter2@/path",
            "redis+unix:///path?pass=hunter2&db=hunter2",
            "redis+unix:///?pass=hunter2",
            "http://user:hunter2@host",
            "hunter2",
        ];
        for text in bad {
            let error = Target::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config, "{text}");
            let said = format!("{error} {error:?}");
            assert!(!said.contains("unter2"), "{text}: {said}");
        }
    }

    #[test]
    fn debug_and_display_show_no_credentials() {
        let target = Target::parse("redis://admin:hunter2@host/1").unwrap();
        assert_eq!(target.to_string(), "host:6379 (db 1)");
        let said = format!("{target:?}");
        assert!(!said.contains("hunter2") && !said.contains("admin"), "{said}");
    }

    /// Those who are built with it do not get here.
    #[test]
    fn several_servers_without_their_feature_say_so() {
        for (kind, feature) in
            [("cluster", "cluster"), ("sentinel", "sentinel"), ("replicated", "sentinel")]
        {
            for scheme in ["redis", "rediss"] {
                let url = format!("{scheme}+{kind}://:hunter2@h1,h2/x");
                let error = Target::parse(&url).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Config, "{url}");
                assert!(error.to_string().contains(&format!("feature `{feature}`")), "{error}");
            }
        }
    }

    #[test]
    #[cfg(not(feature = "tls"))]
    fn tls_without_its_feature_says_so() {
        let error = Target::parse("rediss://host").unwrap_err();
        assert!(error.to_string().contains("feature `tls`"));
    }

    #[test]
    #[cfg(feature = "tls")]
    fn tls_options_are_read() {
        let target = Target::parse("rediss://host:1?ca=/c.pem&cert=/x&key=/y&sni=n").unwrap();
        let Endpoint::Tls { host, port, options } = target.endpoint else { panic!() };
        assert_eq!((host.as_str(), port), ("host", 1));
        assert_eq!(options.ca, Some("/c.pem".into()));
        assert_eq!(options.sni.as_deref(), Some("n"));
        assert!(Target::parse("rediss://host?cert=/x").is_err());
        assert!(Target::parse("rediss://host?insecure=1").is_err());
    }
}
