//! Bugs that tests plant, to see that the model finds them.

/// A bug in the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    /// After subscribing it rests: a release before that goes unheard.
    NoSecondTry,
    /// An attempt without an answer is repeated under a new id.
    NewStayInDoubt,
    /// A hold that was won for a waiter that has left is neither passed on nor released.
    KeepsUnclaimed,
    /// An answer does not end an outage.
    StaleOutage,
    /// Any accepted step is taken for what the store has now.
    UnguardedView,
    /// The caller of a release gets no answer.
    ForgetsReceipts,
    /// What the store may have under the id of a waiter that left is not taken back.
    NeverForgets,
}

#[cfg(test)]
thread_local! {
    pub(super) static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

#[cfg(not(test))]
pub(super) const fn is_planted(_: Bug) -> bool {
    false
}
