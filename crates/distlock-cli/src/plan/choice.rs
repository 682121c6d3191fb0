//! Which lock.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use crate::args::Kind;
use crate::exit::Failure;

/// Which lock.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) kind: Kind,
    /// At least one; more only for a kind that takes several.
    pub(crate) names: Vec<String>,
    /// The reading half of a read-write lock.
    pub(crate) read: bool,
    /// How many permits there are in all, if that is not set.
    pub(crate) permits: Option<u32>,
}

impl Choice {
    /// One lock to look at.
    pub(super) fn single(kind: Kind, name: String) -> Result<Choice, Failure> {
        if kind == Kind::Multi {
            let text = "a multi lock is stored as one mutex per name: name one of them, without --kind multi";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(Choice { kind, names: vec![name], read: false, permits: None })
    }

    /// One lock with a name of its own and one permit, for `what`.
    pub(super) fn trial(kind: Kind, what: &str) -> Result<Choice, Failure> {
        let name = match kind {
            Kind::Latch => {
                let text = format!("--kind latch: a latch is not held, so `{what}` cannot use it");
                return Err(Failure::Usage(text));
            }
            // Its counter stays, so there should not be one for each trial.
            Kind::Fenced => format!("distlock-{what}:fenced"),
            // Hashers start from chance. Two machines may share process ids.
            _ => {
                format!("distlock-{what}:{:016x}", RandomState::new().hash_one(std::process::id()))
            }
        };
        let names = match kind {
            Kind::Multi => vec![format!("{name}:1"), format!("{name}:2")],
            _ => vec![name],
        };
        Ok(Choice { kind, names, read: false, permits: Some(1) })
    }
}
