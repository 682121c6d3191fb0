//! What was seen of one server.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use crate::doctor::{Finding, Level};
use crate::redis::connect::Endpoint;
use crate::redis::pubsub::Way;
use crate::redis::topology::{Part, Somebody};

/// An answer, or why there is none.
pub(super) type Told<T> = Result<T, Unknown>;

/// Why something could not be looked at.
#[derive(Clone, Debug)]
pub(super) struct Unknown(pub(super) String);

/// How a reason begins that is a missing permission.
pub(super) const LACKS: &str = "this user lacks ";

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(super) struct Chart {
    pub(super) somebody: Somebody,
    pub(super) cluster: bool,
    pub(super) way: Way,
    /// Whether the way was found out, and not said.
    pub(super) auto: bool,
    /// What `INFO` says.
    pub(super) info: Told<HashMap<String, String>>,
    /// What `CONFIG GET` says.
    pub(super) settings: HashMap<&'static str, Told<String>>,
    /// By how many milliseconds its clock is ahead of ours.
    pub(super) clock: Told<i64>,
    /// The shortest of some round trips.
    pub(super) trip: Duration,
    /// What this user may not do.
    pub(super) refused: Told<Refused>,
    /// Whether a message reached us, and by which command.
    pub(super) heard: Vec<(&'static str, Told<bool>)>,
    /// What `CLUSTER INFO` says.
    pub(super) slots: Option<Told<HashMap<String, String>>>,
    /// What a sentinel says of the primary.
    pub(super) watched: Option<Told<HashMap<String, String>>>,
}

/// What a user may not do.
#[derive(Clone, Debug, Default)]
pub(super) struct Refused {
    /// Commands, keys and channels.
    pub(super) names: BTreeSet<String>,
    /// Commands of scripts were not tried, because scripts are refused.
    pub(super) scripts: bool,
}

impl Chart {
    pub(super) fn place(&self) -> String {
        self.somebody.dial.target.to_string()
    }

    pub(super) fn finding(
        &self,
        level: Level,
        subject: &'static str,
        says: impl Into<String>,
    ) -> Finding {
        Finding::new(level, subject, self.place(), says)
    }

    pub(super) fn unknown(&self, subject: &'static str, why: &Unknown) -> Finding {
        self.finding(Level::Note, subject, format!("could not be checked: {why}"))
    }

    /// A field of `INFO`; one that is not there is an empty word.
    pub(super) fn field(&self, name: &str) -> Told<&str> {
        match &self.info {
            Ok(info) => Ok(info.get(name).map(String::as_str).unwrap_or_default()),
            Err(why) => Err(why.clone()),
        }
    }

    /// A number in `INFO`; one that is not there is 0.
    pub(super) fn number(&self, name: &str) -> Told<u64> {
        self.field(name).map(|value| value.parse().unwrap_or_default())
    }

    /// A setting.
    pub(super) fn setting(&self, name: &'static str) -> Told<&str> {
        match self.settings.get(name) {
            Some(Ok(value)) => Ok(value),
            Some(Err(why)) => Err(why.clone()),
            None => Err(Unknown(format!("this server does not know {name}"))),
        }
    }

    /// Whether it serves locks here, as far as is known.
    pub(super) fn serves(&self) -> bool {
        match self.somebody.part {
            Part::Single | Part::Primary => true,
            Part::Stranger => self.field("role").is_ok_and(|role| role == "master"),
            Part::Replica | Part::Sentinel(_) => false,
        }
    }

    pub(super) fn is_sentinel(&self) -> bool {
        matches!(self.somebody.part, Part::Sentinel(_))
    }

    /// Whether what is said stays on this machine.
    pub(super) fn is_local(&self) -> bool {
        match &self.somebody.dial.target.endpoint {
            Endpoint::Unix { .. } => true,
            Endpoint::Tcp { host, .. } | Endpoint::Tls { host, .. } => {
                let address = host.parse::<std::net::IpAddr>();
                host == "localhost" || address.is_ok_and(|address| address.is_loopback())
            }
        }
    }
}
