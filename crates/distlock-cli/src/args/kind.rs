//! `--kind`.

use clap::ValueEnum;

/// The kinds, as the command line calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One holder at a time
    Mutex,
    /// One holder at a time; waiters are served in the order of their requests
    Fair,
    /// Many readers or one writer: --read or --write
    Rw,
    /// One holder at a time, with a fencing token, higher than all before it, in DISTLOCK_TOKEN
    Fenced,
    /// A mutex for servers without pub/sub: waiters poll
    Spin,
    /// A value set with SET NX PX, as hand-made locks are
    Simple,
    /// Several mutexes, all or none: several names
    Multi,
    /// A mutex on a majority of independent servers: several --url
    Redlock,
    /// As many holders at a time as there are --permits. The permit of a killed run stays taken
    Semaphore,
    /// As many holders at a time as there are --permits. The permit of a killed run comes back
    #[value(alias = "leased-semaphore")]
    LeasedSemaphore,
    /// Not held: the command starts when the count is zero, see `distlock latch`
    Latch,
}

impl Kind {
    /// The same for the library.
    pub(crate) fn of_library(self) -> distlock::store::Kind {
        use distlock::store::Kind as K;
        match self {
            Kind::Mutex => K::Mutex,
            Kind::Fair => K::Fair,
            Kind::Rw => K::Rw,
            Kind::Fenced => K::Fenced,
            Kind::Spin => K::Spin,
            Kind::Simple => K::Simple,
            Kind::Multi => K::Multi,
            Kind::Redlock => K::Redlock,
            Kind::Semaphore => K::Semaphore,
            Kind::LeasedSemaphore => K::LeasedSemaphore,
            Kind::Latch => K::Latch,
        }
    }

    /// Whether it has permits.
    pub(crate) fn has_permits(self) -> bool {
        matches!(self, Kind::Semaphore | Kind::LeasedSemaphore)
    }

    /// The kinds that are stored the same way in every store are one family: data tells families apart, not always kinds.
    pub(crate) fn is_like(self, other: Kind) -> bool {
        self == other || self.is_hold() && other.is_hold()
    }

    /// Whether it is stored as one holder with a depth.
    fn is_hold(self) -> bool {
        matches!(
            self,
            Kind::Mutex | Kind::Fair | Kind::Fenced | Kind::Spin | Kind::Multi | Kind::Redlock
        )
    }

    /// The word itself.
    pub(crate) fn word(self) -> &'static str {
        self.of_library().as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_library() {
        let ours: Vec<String> = Kind::value_variants()
            .iter()
            .filter_map(|kind| Some(kind.to_possible_value()?.get_name().to_owned()))
            .collect();
        assert_eq!(ours, distlock::store::Kind::ALL.map(|kind| kind.as_str()));
        let words = Kind::value_variants().iter().map(|kind| kind.word());
        assert!(words.eq(ours.iter().map(String::as_str)), "each stands for its own");
    }
}
