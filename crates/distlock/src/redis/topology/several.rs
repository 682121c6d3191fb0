//! URLs that name several servers: what stands before and behind the hosts is the same for all of them.
//!
//! Each server is reached as the URL of a single one would have it.

use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::Endpoint;
use crate::redis::target::Target;

/// The pieces of such a URL.
#[derive(Clone)]
pub(crate) struct Several<'a> {
    scheme: &'static str,
    /// With the `@`.
    user: String,
    hosts: &'a str,
    /// With its first `/`.
    pub(crate) path: &'a str,
    options: Vec<&'a str>,
    fragment: &'static str,
}

impl<'a> Several<'a> {
    /// The pieces of a `redis+KIND://` or `rediss+KIND://` URL; `None` if it is neither.
    pub(crate) fn split(url: &'a str, kind: &str) -> Option<Several<'a>> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = match scheme.split_once('+')? {
            ("redis", is) if is == kind => "redis",
            ("rediss", is) if is == kind => "rediss",
            _ => return None,
        };
        let (rest, fragment) = rest.split_once('#').map_or((rest, ""), |(rest, _)| (rest, "#"));
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), authority),
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let options = query.split('&').filter(|option| !option.is_empty()).collect();
        Some(Several { scheme, user, hosts, path, options, fragment })
    }

    /// Takes out an option that servers are not to see.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a str> {
        let mut value = None;
        self.options.retain(|option| match option.split_once('=') {
            Some((of, is)) if of == name => {
                value = Some(is);
                false
            }
            _ => true,
        });
        value
    }

    /// The hosts, each with its port if it has one.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.hosts.split(',')
    }

    /// The server at a host, with user, password and options of this URL.
    pub(crate) fn target(&self, host: &str, path: &str) -> Result<Target> {
        let Several { scheme, user, fragment, .. } = self;
        let query = match self.options.is_empty() {
            true => String::new(),
            false => format!("?{}", self.options.join("&")),
        };
        Target::parse(&format!("{scheme}://{user}{host}{path}{query}{fragment}"))
    }

    /// The same without user and password.
    pub(crate) fn anonymous(&self) -> Several<'a> {
        Several { user: String::new(), ..self.clone() }
    }
}

/// The host by which a server was asked.
pub(crate) fn host(target: &Target) -> &str {
    match &target.endpoint {
        Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } => host,
        Endpoint::Unix { .. } => "localhost",
    }
}

/// One after the other, for people.
pub(crate) fn listed(targets: &[Target]) -> String {
    let all: Vec<String> = targets.iter().map(Target::to_string).collect();
    all.join(", ")
}

pub(crate) fn config(message: &str) -> Error {
    Error::new(ErrorKind::Config, message)
}
