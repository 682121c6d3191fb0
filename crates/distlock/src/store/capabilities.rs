//! [`Capabilities`]: what a store can do.

use super::claim::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;

/// What a store can do: the result of [`Store::capabilities`](super::Store::capabilities).
///
/// ```
/// use distlock::store::{Capabilities, Kind};
///
/// const OFFERED: Capabilities = Capabilities::new()
///     .with_kinds(&[Kind::Mutex, Kind::Spin, Kind::Fenced])
///     .with_passes_on(false);
/// assert!(OFFERED.offers(Kind::Fenced) && !OFFERED.offers(Kind::Semaphore));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Whether every operation completes when it is first polled, without a runtime. `false` unless set.
    pub answers_at_once: bool,
    /// Whether an operation may block its thread, as on a disk that hangs: renewals then run on another thread than the watchdog, which
    /// must be able to report that a hold is lost. `false` unless set.
    pub may_block: bool,
    /// Whether an acquire waits for replicas. A store with [`Durability::Acks`] returns `Acquired` only when so many replicas have
    /// acknowledged, and [`NotDurable`](crate::ErrorKind::NotDurable) if it acquired and too few have; the engine then releases. A
    /// hand-over (`claim.heir_of`) needs no acknowledgement. [`Durability::Primary`] unless set.
    pub durability: Durability,
    /// Whether a hold may pass from one owner to another (`claim.heir_of`). If not, the engine does not request it, and every owner
    /// acquires for itself. `true` unless set.
    pub passes_on: bool,
    /// One bit for each kind.
    kinds: u16,
}

impl Capabilities {
    /// Returns the capabilities of a store of every kind on a server without replicas: every field as it is unless set.
    pub const fn new() -> Capabilities {
        let (answers_at_once, may_block, passes_on) = (false, false, true);
        let durability = Durability::Primary;
        Capabilities { answers_at_once, may_block, durability, passes_on, kinds: set(&Kind::ALL) }
    }

    /// Sets whether every operation completes when it is first polled.
    #[must_use]
    pub const fn with_answers_at_once(self, answers_at_once: bool) -> Capabilities {
        Capabilities { answers_at_once, ..self }
    }

    /// Sets whether an operation may block its thread.
    #[must_use]
    pub const fn with_may_block(self, may_block: bool) -> Capabilities {
        Capabilities { may_block, ..self }
    }

    /// Sets whether an acquire waits for replicas.
    #[must_use]
    pub const fn with_durability(self, durability: Durability) -> Capabilities {
        Capabilities { durability, ..self }
    }

    /// Sets whether a hold may pass from one owner to another.
    #[must_use]
    pub const fn with_passes_on(self, passes_on: bool) -> Capabilities {
        Capabilities { passes_on, ..self }
    }

    /// Sets the kinds that the store offers; all unless set. A request for another kind is refused with
    /// [`Unsupported`](crate::ErrorKind::Unsupported) before the store gets it.
    ///
    /// [`Kind::Fenced`] includes the gates that check fencing tokens. A `multi` needs the kinds of its members and nothing else, and a
    /// `redlock` needs a [`Kind::Mutex`] on each of its stores: the store itself is asked for neither [`Kind::Multi`] nor [`Kind::Redlock`].
    #[must_use]
    pub const fn with_kinds(self, kinds: &[Kind]) -> Capabilities {
        Capabilities { kinds: set(kinds), ..self }
    }

    /// Returns whether the store offers this kind.
    pub const fn offers(&self, kind: Kind) -> bool {
        self.kinds & bit(kind) != 0
    }

    /// Refuses a kind that the store does not offer. `place` is the address of the store.
    pub(crate) fn check(&self, kind: Kind, place: impl FnOnce() -> String) -> Result<()> {
        match self.offers(kind) {
            true => Ok(()),
            false => Err(self.refused(kind, &place())),
        }
    }

    #[cold]
    fn refused(&self, kind: Kind, place: &str) -> Error {
        let offered: Vec<&str> =
            Kind::ALL.into_iter().filter(|kind| self.offers(*kind)).map(Kind::as_str).collect();
        let instead = match &offered[..] {
            [] => "it offers no kind of lock".to_owned(),
            offered => format!("it offers {}", offered.join(", ")),
        };
        let text = format!("{place} does not offer the kind {kind}: {instead}");
        Error::new(ErrorKind::Unsupported, text)
    }
}

/// As [`Capabilities::new`].
impl Default for Capabilities {
    fn default() -> Capabilities {
        Capabilities::new()
    }
}

const fn bit(kind: Kind) -> u16 {
    1 << kind as u16
}

const fn set(kinds: &[Kind]) -> u16 {
    let (mut set, mut at) = (0, 0);
    while at < kinds.len() {
        set |= bit(kinds[at]);
        at += 1;
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_offered_unless_some_are_named() {
        let (all, none) = (Capabilities::new(), Capabilities::new().with_kinds(&[]));
        for kind in Kind::ALL {
            assert!(all.offers(kind) && !none.offers(kind), "{kind}");
            let one = Capabilities::new().with_kinds(&[kind]);
            let offered: Vec<Kind> = Kind::ALL.into_iter().filter(|k| one.offers(*k)).collect();
            assert_eq!(offered, [kind]);
        }
    }

    #[test]
    fn a_refusal_names_the_store_and_what_it_offers() {
        let some = Capabilities::new().with_kinds(&[Kind::Mutex, Kind::Fenced]);
        let refused = |of: Capabilities| of.check(Kind::Latch, || "etcd://h".to_owned());
        let error = refused(some).expect_err("it is not offered");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = error.to_string();
        let expected = "etcd://h does not offer the kind latch: it offers mutex, fenced";
        assert!(text.contains(expected), "{text}");
        assert!(refused(Capabilities::new()).is_ok());
        let text = refused(some.with_kinds(&[])).expect_err("it offers nothing").to_string();
        assert!(text.contains("it offers no kind of lock"), "{text}");
    }
}
