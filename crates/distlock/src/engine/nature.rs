//! What the engine must know of a kind: who shares a lane with whom, and what an attempt leaves behind.

use std::time::Duration;

use super::wait::Wait;
use crate::owner::Owner;
use crate::store::ClaimKind;

/// Lanes of one name, by what stands under the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// `mutex`, `spin` and `fenced` share a lane: an owner of one re-enters the other.
    Hold,
    Fair,
    Simple,
    Read,
    Write,
    Permits,
    Leased,
    Latch,
}

impl Class {
    /// What a hold in a lane of this class is, as far as letting go of it needs to know.
    pub(super) fn what(self, permits: u32) -> ClaimKind {
        match self {
            Class::Hold => ClaimKind::Exclusive,
            Class::Fair => ClaimKind::Fair { patience: None },
            Class::Simple => ClaimKind::Simple,
            Class::Read => ClaimKind::Read,
            Class::Write => ClaimKind::Write { waits: false },
            Class::Permits => ClaimKind::Permits { count: permits, initial: None },
            Class::Leased => ClaimKind::LeasedPermits { count: permits, initial: None },
            Class::Latch => ClaimKind::LatchOpen,
        }
    }
}

/// Which lane of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) class: Class,
    /// Set for a lane that serves one owner.
    pub(super) own: Option<Owner>,
}

impl ClaimKind {
    /// The same for one who waits so long.
    pub(crate) fn waiting(self, wait: Wait, fair_patience: Duration) -> ClaimKind {
        let once = matches!(wait, Wait::Once);
        match self {
            ClaimKind::Fair { .. } if once => ClaimKind::Fair { patience: None },
            ClaimKind::Fair { .. } => {
                let patience = match wait {
                    Wait::For(wait) => wait.min(fair_patience),
                    _ => fair_patience,
                };
                ClaimKind::Fair { patience: Some(patience) }
            }
            ClaimKind::Write { .. } => ClaimKind::Write { waits: !once },
            what => what,
        }
    }

    pub(super) fn class(self) -> Class {
        match self {
            ClaimKind::Exclusive | ClaimKind::Fenced => Class::Hold,
            ClaimKind::Fair { .. } => Class::Fair,
            ClaimKind::Simple => Class::Simple,
            ClaimKind::Read => Class::Read,
            ClaimKind::Write { .. } => Class::Write,
            ClaimKind::Permits { .. } => Class::Permits,
            ClaimKind::LeasedPermits { .. } => Class::Leased,
            ClaimKind::LatchOpen => Class::Latch,
        }
    }

    /// Several of this process may be in at once, each under an owner of its own.
    pub(super) fn is_shared(self) -> bool {
        match self {
            ClaimKind::Read
            | ClaimKind::Permits { .. }
            | ClaimKind::LeasedPermits { .. }
            | ClaimKind::LatchOpen => true,
            ClaimKind::Exclusive
            | ClaimKind::Fenced
            | ClaimKind::Fair { .. }
            | ClaimKind::Simple
            | ClaimKind::Write { .. } => false,
        }
    }

    /// Where somebody waits. Those who wait in a fair queue do so each for itself; so do readers that name their owner,
    /// whose acquisitions must come one after the other.
    pub(super) fn waits_at(self, owner: Owner, explicit: bool) -> Spot {
        let alone = match self {
            ClaimKind::Fair { .. } => true,
            ClaimKind::Read => explicit,
            _ => false,
        };
        Spot { class: self.class(), own: alone.then_some(owner) }
    }

    /// Where a hold is kept.
    pub(super) fn sits_at(self, owner: Owner) -> Spot {
        let alone = self.is_shared() || matches!(self, ClaimKind::Fair { .. });
        Spot { class: self.class(), own: alone.then_some(owner) }
    }

    /// The lane, if another one, in which releases of this lane are counted: later single tries await them.
    pub(super) fn counted_at(self, spot: Spot) -> Option<Spot> {
        let common = match self {
            // The two halves of a read-write lock stand in each other's way.
            ClaimKind::Read | ClaimKind::Write { .. } => Spot { class: Class::Read, own: None },
            _ => Spot { class: spot.class, own: None },
        };
        (common != spot).then_some(common)
    }

    /// Whether a hold may pass to the next in this process without a round trip.
    pub(super) fn passes_on(self) -> bool {
        matches!(self, ClaimKind::Exclusive | ClaimKind::Simple)
    }

    /// Whether an owner that holds it may come in again.
    pub(crate) fn reenters(self) -> bool {
        !matches!(
            self,
            ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. } | ClaimKind::LatchOpen
        )
    }

    /// Whether being busy leaves something in the store: a place in a queue, a flag that keeps readers out.
    pub(super) fn leaves_traces(self) -> bool {
        matches!(self, ClaimKind::Fair { patience: Some(_) } | ClaimKind::Write { waits: true })
    }

    /// Whether there is anything to hold.
    pub(super) fn is_held(self) -> bool {
        !matches!(self, ClaimKind::LatchOpen)
    }

    /// Whether those who wait for the same can most likely come in together with the first.
    pub(super) fn opens_for_all(self) -> bool {
        matches!(self, ClaimKind::Read | ClaimKind::LatchOpen)
    }
}
