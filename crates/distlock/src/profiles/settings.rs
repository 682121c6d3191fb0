//! What can be set in a profile, and how the environment overrides it.

use std::collections::HashMap;
use std::env::VarError;
use std::time::Duration;

use super::config;
use crate::duration;
use crate::error::Result;
use crate::locks::Builder;
use crate::locks::Durability;
use crate::locks::limits;
use crate::runtime::WaitBy;
use crate::store::Kind;

/// Every key, in the order of the documentation.
pub(super) const KEYS: [&str; 10] = [
    "url",
    "prefix",
    "watchdog",
    "fair_patience",
    "wait_by",
    "mutex_as",
    "acks",
    "lazy",
    "holder_info",
    "slow_hold",
];

/// Those whose value is a text and nothing else, with an example. `false` would be a valid text, too, and mean the contrary.
const TEXTS: [(&str, &str); 5] = [
    ("url", r#"url = "redis://127.0.0.1:6379""#),
    ("prefix", r#"prefix = "shop:""#),
    ("wait_by", r#"wait_by = "spin""#),
    ("mutex_as", r#"mutex_as = "fair""#),
    ("holder_info", r#"holder_info = "billing" (to have it off, no such line)"#),
];

/// What to write for a key whose value is a text and nothing else; `None` for others.
pub(super) fn example(key: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(text, _)| *text == key).map(|(_, example)| *example)
}

/// One profile. What is `None` has the builder's default.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) url: Option<String>,
    prefix: Option<String>,
    watchdog: Option<Duration>,
    fair_patience: Option<Duration>,
    wait_by: Option<WaitBy>,
    mutex_as: Option<Kind>,
    acks: Option<u32>,
    lazy: Option<bool>,
    holder_info: Option<String>,
    slow_hold: Option<Duration>,
}

impl Settings {
    /// Sets a key that is one of [`KEYS`]. The error does not repeat the value: it may be a URL with a password.
    pub(super) fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        match key {
            "url" => {
                limits::url(value).map_err(|why| why.to_string())?;
                self.url = Some(value.to_owned());
            }
            "prefix" => self.prefix = Some(value.to_owned()),
            "watchdog" => self.watchdog = Some(time(value, limits::watchdog)?),
            "fair_patience" => self.fair_patience = Some(time(value, limits::fair_patience)?),
            "wait_by" => {
                self.wait_by = Some(match value {
                    "notify" => WaitBy::Notify,
                    "spin" => WaitBy::Spin,
                    _ => return Err("must be \"notify\" or \"spin\"".to_owned()),
                });
            }
            "mutex_as" => {
                self.mutex_as = Some(match value {
                    "mutex" => Kind::Mutex,
                    "fair" => Kind::Fair,
                    "simple" => Kind::Simple,
                    _ => return Err("must be \"mutex\", \"fair\" or \"simple\"".to_owned()),
                });
            }
            "acks" => {
                let acks = value.parse().ok().filter(|acks| *acks > 0);
                self.acks = Some(acks.ok_or("must be how many replicas acknowledge, 1 or more")?);
            }
            "lazy" => {
                self.lazy = Some(match value {
                    "true" => true,
                    "false" => false,
                    _ => return Err("must be true or false".to_owned()),
                });
            }
            "holder_info" => self.holder_info = Some(value.to_owned()),
            "slow_hold" => self.slow_hold = Some(time(value, limits::slow_hold)?),
            _ => return Err(format!("no such key: the keys are {}", KEYS.join(", "))),
        }
        Ok(())
    }

    /// Sets what the environment sets of the profile `name`.
    pub(super) fn overridden(
        &mut self,
        name: &str,
        is_default: bool,
        source: &Source,
    ) -> Result<()> {
        for key in KEYS {
            let mut variables = vec![variable(name, key)];
            if is_default && key == "url" {
                // The one that names the profile is more specific, so it overrides.
                variables.insert(0, "DISTLOCK_URL".to_owned());
            }
            for variable in variables {
                if let Some(value) = source.get(&variable)? {
                    self.set(key, &value).map_err(|why| config(format!("{variable}: {why}")))?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn builder(&self, name: &str) -> Result<Builder> {
        let Some(url) = &self.url else {
            let variable = variable(name, "url");
            return Err(config(format!(
                "profile {name:?} has no url: write one into [profile.{name}], or set {variable}"
            )));
        };
        let mut builder = Builder::default().url(url);
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(watchdog) = self.watchdog {
            builder = builder.watchdog(watchdog);
        }
        if let Some(patience) = self.fair_patience {
            builder = builder.fair_patience(patience);
        }
        if let Some(wait_by) = self.wait_by {
            builder = builder.wait_by(wait_by);
        }
        if let Some(kind) = self.mutex_as {
            builder = builder.mutex_as(kind);
        }
        if let Some(acks) = self.acks {
            builder = builder.durability(Durability::Acks(acks));
        }
        if self.lazy == Some(true) {
            builder = builder.lazy();
        }
        if let Some(service) = &self.holder_info {
            builder = builder.holder_info(service);
        }
        if let Some(after) = self.slow_hold {
            builder = builder.slow_hold(after);
        }
        Ok(builder)
    }
}

fn time(
    value: &str,
    check: fn(Duration) -> std::result::Result<(), String>,
) -> std::result::Result<Duration, String> {
    let time = duration::parse(value).ok_or_else(|| duration::EXPECTED.to_owned())?;
    check(time).map(|()| time)
}

/// The variable for a key of a profile.
pub(super) fn variable(profile: &str, key: &str) -> String {
    let word: String = profile
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("DISTLOCK_{word}_{}", key.to_ascii_uppercase())
}

/// Where variables come from.
#[derive(Default)]
pub(super) enum Source {
    /// Nowhere.
    #[default]
    Nothing,
    Environment,
    /// For tests: the environment is of the whole process.
    #[allow(dead_code)]
    These(HashMap<String, String>),
}

impl Source {
    pub(super) fn environment() -> Source {
        Source::Environment
    }

    pub(super) fn get(&self, variable: &str) -> Result<Option<String>> {
        match self {
            Source::Nothing => Ok(None),
            Source::These(these) => Ok(these.get(variable).cloned()),
            Source::Environment => match std::env::var(variable) {
                Ok(value) if value.is_empty() => Ok(None),
                Ok(value) => Ok(Some(value)),
                Err(VarError::NotPresent) => Ok(None),
                Err(VarError::NotUnicode(_)) => Err(config(format!("{variable} is not UTF-8"))),
            },
        }
    }
}
