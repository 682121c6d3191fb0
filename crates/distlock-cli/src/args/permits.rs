//! The arguments of `permits`.

use clap::{Args as Group, ValueEnum};

use super::{Kind, Store};

#[derive(Debug, Group)]
pub(crate) struct Permits {
    #[command(flatten)]
    pub(crate) store: Store,
    /// Set the kind [default: read from what is stored; of a new one leased_semaphore]
    #[arg(long, value_enum)]
    pub(crate) kind: Option<PermitsKind>,
    /// Set how many permits there are in all
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(crate) set: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The name of the semaphore
    pub(crate) name: String,
}

/// The kinds that have permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum PermitsKind {
    /// Permits without a lease
    Semaphore,
    /// Permits with a lease
    #[value(alias = "leased-semaphore")]
    LeasedSemaphore,
}

impl From<PermitsKind> for Kind {
    fn from(kind: PermitsKind) -> Kind {
        match kind {
            PermitsKind::Semaphore => Kind::Semaphore,
            PermitsKind::LeasedSemaphore => Kind::LeasedSemaphore,
        }
    }
}
