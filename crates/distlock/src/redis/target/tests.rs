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
