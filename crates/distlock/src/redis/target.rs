//! Where a server is and who we are to it, read from a URL. Those of several servers are in `topology/`.
//!
//! No error here repeats a piece of the URL: a character that was not encoded shifts the pieces, and then a password is
//! where a port or a path should be.

#[cfg(test)]
mod tests;

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
        // Of `a:1,b:2` the parser would say that the port is no number.
        let hosts = text.split_once("://").map_or("", |(_, rest)| rest);
        let hosts = hosts.split(['/', '?', '#']).next().unwrap_or_default();
        if hosts.rsplit('@').next().is_some_and(|last| last.contains(','))
            || hosts.matches('@').count() > 1 && hosts.contains(',')
        {
            return Err(several());
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

fn several() -> Error {
    config(
        "the URL names several servers: write redis+sentinel://, redis+replicated:// or redis+cluster:// for servers that belong \
         together; connect to independent servers one by one, and use RedLock::new for a majority of them",
    )
}

fn host_and_port(url: &Url) -> Result<(String, u16)> {
    let host = match url.host() {
        Some(url::Host::Domain(name)) => decode(name, "host")?,
        Some(url::Host::Ipv4(address)) => address.to_string(),
        Some(url::Host::Ipv6(address)) => address.to_string(),
        None => String::new(),
    };
    if host.is_empty() {
        return Err(config("the URL has no host: write redis://host or redis://host:port"));
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
