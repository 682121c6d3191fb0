//! The allowed values of settings. Checked by the builder, and before it by profiles, which know the line.

use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::locks::config;

/// `Ok`, or a text that says what is wrong and what to write instead.
type Checked = std::result::Result<(), String>;

pub(crate) fn watchdog(timeout: Duration) -> Checked {
    match (config::WATCHDOG_FLOOR..=config::LONGEST).contains(&timeout) {
        true => Ok(()),
        false => Err(format!(
            "a watchdog timeout of {timeout:?} is out of range: use {:?} to 10 years",
            config::WATCHDOG_FLOOR
        )),
    }
}

pub(crate) fn fair_patience(patience: Duration) -> Checked {
    match patience.is_zero() || patience > config::LONGEST {
        false => Ok(()),
        true => Err(format!("a patience of {patience:?} is out of range: use 1 ms to 10 years")),
    }
}

pub(crate) fn slow_hold(after: Duration) -> Checked {
    match after.is_zero() || after > config::LONGEST {
        false => Ok(()),
        true => Err("slow_hold must be 1 ms to 10 years: omit it for no warnings".to_owned()),
    }
}

/// Parses the URL without connecting. As every error about a URL, its error repeats no part of it.
#[cfg(feature = "profiles")]
pub(crate) fn url(url: &str) -> crate::error::Result<()> {
    common_mistakes(url)?;
    match url.split_once(':') {
        Some(("memory", _)) => Ok(()),
        Some(("file", _)) if cfg!(feature = "file") => Ok(()),
        #[cfg(feature = "redis")]
        Some((scheme, _)) if scheme.starts_with("redis") => crate::redis::check(url),
        _ => Err(no_store()),
    }
}

/// Refuses common mistakes in a URL, with the correct form. The error repeats nothing but an address, which is no password.
pub(crate) fn common_mistakes(url: &str) -> crate::error::Result<()> {
    let wrong = |text: String| Err(Error::new(ErrorKind::Config, text));
    if url.split([',', ';', ' ']).filter(|part| part.contains("://")).count() > 1 {
        let text = "these are several URLs: connect to each for itself, and use RedLock::new for a majority of independent servers; servers \
                    that belong together are one URL, as in redis+sentinel://host1,host2/primary or redis+cluster://host1,host2";
        return wrong(text.to_owned());
    }
    if is_address(url) {
        return wrong(format!("this URL has no scheme: did you mean redis://{url}?"));
    }
    let dir = url.strip_prefix("file:").map(|dir| dir.strip_prefix("//").unwrap_or(dir));
    if dir.is_some_and(|dir| !dir.is_empty() && !dir.starts_with('/')) {
        let text = "file: needs an absolute directory, because programs that start in different directories would use different locks: \
                    write file:/dir or file:///dir";
        return wrong(text.to_owned());
    }
    Ok(())
}

/// Returns whether the text is `host:port`, `localhost` or an IP address.
fn is_address(text: &str) -> bool {
    let is_host = |host: &str| {
        !host.is_empty()
            && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
    };
    match text.rsplit_once(':') {
        // `memory:1` is a name, and `file:1` a relative directory.
        Some(("memory" | "file", _)) => false,
        Some((host, port)) => is_host(host) && port.parse::<u16>().is_ok_and(|port| port > 0),
        None => text == "localhost" || text.parse::<std::net::Ipv4Addr>().is_ok(),
    }
}

/// Returns the error for a URL whose scheme is unknown or not built in.
pub(crate) fn no_store() -> Error {
    let offered = [
        ("memory:", true),
        ("file:/dir", cfg!(feature = "file")),
        ("redis://host", cfg!(feature = "redis")),
        ("redis+unix:///socket", cfg!(feature = "redis")),
        ("rediss://host", cfg!(feature = "tls")),
        ("redis+sentinel://host/primary", cfg!(feature = "sentinel")),
        ("redis+replicated://host1,host2", cfg!(feature = "sentinel")),
        ("redis+cluster://host", cfg!(feature = "cluster")),
    ];
    let named = |built_in| {
        let urls = offered.iter().filter(|(_, is)| *is == built_in).map(|(url, _)| *url);
        urls.collect::<Vec<_>>().join(", ")
    };
    let mut text = format!(
        "this URL names no store that this program was built with: use one of {}",
        named(true)
    );
    let absent = named(false);
    if !absent.is_empty() {
        text += &format!("; not built in, for want of a cargo feature: {absent}");
    }
    Error::new(ErrorKind::Config, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_no_url_and_other_words_are_not_repeated() {
        for url in ["localhost:6379", "redis:6379", "10.0.0.7", "db-1.example.org:1", "localhost"] {
            let said = common_mistakes(url).expect_err(url).to_string();
            assert!(said.ends_with(&format!("did you mean redis://{url}?")), "{said}");
        }
        for url in ["file:1", "file:locks", "file:~/locks", "file:./locks", "file://tmp/locks"] {
            let said = common_mistakes(url).expect_err(url).to_string();
            assert!(said.contains("write file:/dir"), "{said}");
        }
        for url in [
            "memory:",
            "memory:1",
            "file:",
            "file:/dir",
            "file:///dir",
            "file:/a b,c",
            "redis://h:1",
            "redis+cluster://a:1,b:2",
            "canary",
            "user:canary@host:6379",
            "host:0",
            "host:99999",
            ":6379",
            "",
        ] {
            assert!(common_mistakes(url).is_ok(), "{url}");
        }
    }
}
