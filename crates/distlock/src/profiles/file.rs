//! `locks.toml`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::config;
use super::settings::{self, Settings};
use crate::error::{Error, Result};

#[derive(Default)]
pub(super) struct File {
    /// With its place in the file.
    pub(super) default: Option<(String, Place)>,
    pub(super) profiles: Vec<(String, Settings)>,
}

/// File, line and key.
pub(super) struct Place(String);

impl Place {
    pub(super) fn error(&self, why: &str) -> Error {
        config(format!("{}{why}", self.0))
    }
}

/// Reads it. Errors name the file, the line and the key, and never a value.
pub(super) fn parse(text: &str, path: &str) -> Result<File> {
    let reader = Reader { text, path };
    let whole = DeTable::parse(text).map_err(|why| {
        let at = why.span().map_or(0, |span| span.start);
        reader.error(at, "", why.message())
    })?;
    let mut file = File::default();
    for (key, value) in whole.get_ref() {
        let at = key.span().start;
        match (&**key.get_ref(), value.get_ref()) {
            ("default", DeValue::String(name)) => {
                file.default = Some((name.to_string(), reader.place(at, "default")));
            }
            ("default", other) => {
                return Err(reader.wrong(at, "default", "the name of a profile", other));
            }
            ("profile", DeValue::Table(profiles)) => {
                for (name, profile) in profiles {
                    let name = name.get_ref().to_string();
                    let settings = reader.profile(&name, profile)?;
                    file.profiles.push((name, settings));
                }
            }
            ("profile", other) => {
                return Err(reader.wrong(at, "profile", "tables, as in [profile.main]", other));
            }
            (other, _) => {
                return Err(reader.error(
                    at,
                    other,
                    "no such key: the keys are default and profile",
                ));
            }
        }
    }
    Ok(file)
}

struct Reader<'a> {
    text: &'a str,
    path: &'a str,
}

impl Reader<'_> {
    fn profile(&self, name: &str, profile: &Spanned<DeValue<'_>>) -> Result<Settings> {
        let path = format!("profile.{name}");
        let DeValue::Table(keys) = profile.get_ref() else {
            let text = format!("a table, as in [{path}]");
            return Err(self.wrong(profile.span().start, &path, &text, profile.get_ref()));
        };
        let mut settings = Settings::default();
        for (key, value) in keys {
            let (at, path) = (key.span().start, format!("{path}.{}", key.get_ref()));
            let value = match (value.get_ref(), settings::example(key.get_ref())) {
                (DeValue::String(text), _) => text.to_string(),
                (other, Some(example)) => {
                    let text = format!("a text, as in {example}");
                    return Err(self.wrong(at, &path, &text, other));
                }
                (DeValue::Boolean(yes), _) => yes.to_string(),
                (DeValue::Integer(number), _) if number.radix() == 10 => number.as_str().to_owned(),
                // Its digits alone would be another number.
                (DeValue::Integer(number), _) => {
                    u64::from_str_radix(number.as_str(), number.radix())
                        .map_err(|_| self.error(at, &path, "the number is too large"))?
                        .to_string()
                }
                (DeValue::Float(number), _) => number.as_str().to_owned(),
                (other, _) => {
                    return Err(self.wrong(at, &path, "a text, a number, true or false", other));
                }
            };
            settings.set(key.get_ref(), &value).map_err(|why| self.error(at, &path, &why))?;
        }
        Ok(settings)
    }

    fn wrong(&self, at: usize, key: &str, expected: &str, found: &DeValue<'_>) -> Error {
        self.error(at, key, &format!("expected {expected}, found a TOML {}", found.type_str()))
    }

    fn error(&self, at: usize, key: &str, why: &str) -> Error {
        self.place(at, key).error(why)
    }

    fn place(&self, at: usize, key: &str) -> Place {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
        Place(format!("{}:{line}: {key}", self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings> {
        let mut file = parse(&format!("[profile.main]\n{line}"), "locks.toml")?;
        Ok(file.profiles.remove(0).1)
    }

    #[test]
    fn numbers_mean_what_toml_says() {
        for (line, same) in [
            ("acks = 0x10", "acks = 16"),
            ("acks = 0o17", "acks = \"15\""),
            ("acks = 0b11", "acks = 3"),
            ("acks = 1_0", "acks = 10"),
            ("watchdog = 1.5", "watchdog = \"1500ms\""),
            ("watchdog = 0x1e", "watchdog = \"30s\""),
        ] {
            assert!(read(line).expect(line) == read(same).expect(same), "{line} is not {same}");
        }
    }

    #[test]
    fn words_are_words_and_not_whatever_can_be_written_as_one() {
        for line in [
            "holder_info = false",
            "prefix = true",
            "prefix = 7",
            "url = 5",
            "wait_by = 1.5",
            "mutex_as = 0x10",
        ] {
            let key = line.split(' ').next().expect(line);
            let text = read(line).err().expect(line).to_string();
            let said =
                format!("locks.toml:2: profile.main.{key}: expected a text, as in {key} = \"");
            assert!(text.starts_with(&said), "{text}");
        }
    }

    #[test]
    fn what_no_lock_could_be_made_with_is_refused_where_it_stands() {
        for (line, why) in [
            ("watchdog = '1ms'", "use 100ms to 10 years"),
            ("watchdog = 0", "use 100ms to 10 years"),
            ("watchdog = '4000d'", "use 100ms to 10 years"),
            ("fair_patience = '0'", "use 1 ms to 10 years"),
            ("slow_hold = '0s'", "omit it for no warnings"),
            ("url = 'reddis://h'", "use one of memory:"),
            ("url = 'localhost'", "did you mean redis://localhost?"),
            ("url = ''", "use one of memory:"),
            #[cfg(feature = "redis")]
            ("url = 'redis://u:canary@h:port'", "the URL cannot be read"),
            #[cfg(all(feature = "redis", not(feature = "cluster")))]
            ("url = 'redis+cluster://canary'", "needs the cargo feature `cluster`"),
            #[cfg(all(feature = "redis", not(feature = "tls")))]
            ("url = 'rediss://canary'", "needs the cargo feature `tls`"),
        ] {
            let text = read(line).err().expect(line).to_string();
            let key = line.split(' ').next().expect(line);
            assert!(text.starts_with(&format!("locks.toml:2: profile.main.{key}: ")), "{text}");
            assert!(text.contains(why) && !text.contains("canary"), "{text}");
        }
    }

    #[test]
    fn numbers_that_mean_nothing_here_are_refused_with_the_reason() {
        for (line, why) in [
            ("acks = 1.5", "how many replicas"),
            ("acks = -1", "how many replicas"),
            ("acks = 0xfffffffffffffffff", "too large"),
            ("watchdog = 1e3", "a number of seconds"),
            ("watchdog = nan", "a number of seconds"),
            ("watchdog = 2026-11-16", "expected a text, a number, true or false"),
        ] {
            let text = read(line).err().expect(line).to_string();
            assert!(text.contains("locks.toml:2: profile.main.") && text.contains(why), "{text}");
        }
    }
}
