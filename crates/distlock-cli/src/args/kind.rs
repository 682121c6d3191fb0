//! `--kind`.

use clap::ValueEnum;

/// The kinds, as the command line calls them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// One holder at a time
    Mutex,
    /// One holder at a time, in the order of asking
    Fair,
    /// Many readers or one writer: --read, or --write
    Rw,
    /// One holder at a time, with a number higher than all before in DISTLOCK_TOKEN
    Fenced,
    /// A mutex for servers without pub/sub: whoever waits asks again and again
    Spin,
    /// A value set with SET NX PX, as programs do by hand
    Simple,
    /// All of several mutexes or none: several names
    Multi,
    /// A mutex on a majority of independent servers: several --url
    Redlock,
    /// So many holders at a time: --permits. A run that is killed never gives its permit back
    Semaphore,
    /// So many holders at a time: --permits. The permit of a run that is killed comes back
    #[value(alias = "leased-semaphore")]
    LeasedSemaphore,
    /// Held by nobody: the command runs when a count has come down to zero, see `distlock latch`
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

    /// Whether it lets in as many as there are permits.
    pub(crate) fn has_permits(self) -> bool {
        matches!(self, Kind::Semaphore | Kind::LeasedSemaphore)
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
