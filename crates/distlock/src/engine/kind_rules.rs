//! What the engine must know of a kind, in one table: who shares a lane with whom, and what an attempt leaves behind.

use std::time::Duration;

use super::acquiring::Wait;
use crate::owner::Owner;
use crate::store::ClaimKind;

/// The lanes of one name, by what they are for.
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
    /// The same for a caller that waits so long.
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

    /// What the engine must know of it. A kind that comes to this crate has a row here, or it does not compile.
    const fn rules(self) -> KindRules {
        use WaitsIn::{CommonLane, OwnLane, OwnLaneIfNamed};
        let exclusive = KindRules {
            class: Class::Hold,
            waits_in: CommonLane,
            is_shared: false,
            reenters: true,
            passes_on: false,
            leaves_traces: false,
            is_held: true,
            opens_for_all: false,
        };
        let shared = KindRules { is_shared: true, reenters: false, ..exclusive };
        match self {
            ClaimKind::Exclusive => KindRules { passes_on: true, ..exclusive },
            // Every entry must be numbered by the store, so none passes on.
            ClaimKind::Fenced => exclusive,
            ClaimKind::Simple => KindRules { class: Class::Simple, passes_on: true, ..exclusive },
            ClaimKind::Fair { patience } => KindRules {
                class: Class::Fair,
                waits_in: OwnLane,
                leaves_traces: patience.is_some(),
                ..exclusive
            },
            ClaimKind::Read => KindRules {
                class: Class::Read,
                waits_in: OwnLaneIfNamed,
                reenters: true,
                opens_for_all: true,
                ..shared
            },
            ClaimKind::Write { waits } => {
                KindRules { class: Class::Write, leaves_traces: waits, ..exclusive }
            }
            ClaimKind::Permits { .. } => KindRules { class: Class::Permits, ..shared },
            ClaimKind::LeasedPermits { .. } => KindRules { class: Class::Leased, ..shared },
            ClaimKind::LatchOpen => {
                KindRules { class: Class::Latch, is_held: false, opens_for_all: true, ..shared }
            }
        }
    }

    pub(super) fn class(self) -> Class {
        self.rules().class
    }

    /// Several of this process may be in at once, each under an owner of its own.
    pub(super) fn is_shared(self) -> bool {
        self.rules().is_shared
    }

    /// Where a caller waits.
    pub(super) fn waits_at(self, owner: Owner, explicit: bool) -> Spot {
        let alone = match self.rules().waits_in {
            WaitsIn::CommonLane => false,
            WaitsIn::OwnLane => true,
            WaitsIn::OwnLaneIfNamed => explicit,
        };
        Spot { class: self.class(), own: alone.then_some(owner) }
    }

    /// Where a hold is kept.
    pub(super) fn sits_at(self, owner: Owner) -> Spot {
        let alone = self.is_shared() || self.rules().waits_in == WaitsIn::OwnLane;
        Spot { class: self.class(), own: alone.then_some(owner) }
    }

    /// The lane, if another one, in which releases of this lane are counted: later single tries wait for them.
    pub(super) fn counted_at(self, spot: Spot) -> Option<Spot> {
        // The two halves of a read-write lock exclude each other.
        let class = if spot.class == Class::Write { Class::Read } else { spot.class };
        let common = Spot { class, own: None };
        (common != spot).then_some(common)
    }

    /// Whether a hold may pass to the next waiter of this process without a round trip.
    pub(super) fn passes_on(self) -> bool {
        self.rules().passes_on
    }

    /// Whether an owner that holds it may come in again.
    pub(crate) fn reenters(self) -> bool {
        self.rules().reenters
    }

    /// Whether a busy reply leaves something in the store: a place in a queue, a flag that keeps readers out.
    pub(super) fn leaves_traces(self) -> bool {
        self.rules().leaves_traces
    }

    /// Whether there is anything to hold.
    pub(super) fn is_held(self) -> bool {
        self.rules().is_held
    }

    /// Whether those who wait for the same can most likely come in together with the first.
    pub(super) fn opens_for_all(self) -> bool {
        self.rules().opens_for_all
    }
}

/// A row of the table.
#[derive(Clone, Copy)]
struct KindRules {
    class: Class,
    waits_in: WaitsIn,
    is_shared: bool,
    reenters: bool,
    passes_on: bool,
    leaves_traces: bool,
    is_held: bool,
    opens_for_all: bool,
}

/// The lane in which a caller waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaitsIn {
    CommonLane,
    /// The store keeps the place of each waiter in a queue, so each waits for itself.
    OwnLane,
    /// Acquisitions of an owner that is named must come one after the other.
    OwnLaneIfNamed,
}
