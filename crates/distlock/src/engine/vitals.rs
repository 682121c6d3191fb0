//! How long a hold is believed in.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::env::{Env, Moment};
use crate::locks::config;

/// The state of a hold, as [`Guard::state`](crate::Guard::state) returns it.
///
/// ```
/// # distlock::block_on(async {
/// use distlock::{Locks, State};
///
/// let locks = Locks::memory();
/// let guard = locks.mutex("k").lock().await?;
/// assert_eq!(guard.state(), State::Held);
/// locks.mutex("k").force_unlock().await?;
/// assert_eq!(guard.state(), State::Lost);
/// # Ok::<(), distlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Held, as far as the last reply of the store tells. A lock that was taken away is still `Held` until the next renewal, or with a
    /// fixed lease until its deadline.
    Held,
    /// The last renewal got no reply. The state becomes `Held` again when a renewal succeeds, and `Lost` when one is refused or the
    /// deadline passes. Until then postpone what cannot be undone.
    Suspect,
    /// Not held any more: lost or released.
    Lost,
}

impl State {
    /// The worst of these; `Held` if there are none.
    pub(crate) fn worst(states: impl IntoIterator<Item = State>) -> State {
        let worse = |worst, state| match (worst, state) {
            (State::Lost, _) | (_, State::Lost) => State::Lost,
            (State::Suspect, _) | (_, State::Suspect) => State::Suspect,
            _ => State::Held,
        };
        states.into_iter().fold(State::Held, worse)
    }
}

/// The life of one hold, decided locally.
///
/// ```text
///            renewal unanswered            deadline passed, or
///   Held ────────────────────────► Suspect ─── answered "no" ───► Lost
///    ▲ ◄──────────────────────────    │
///    │        renewal accepted        ▼
///    └────────────────────────────► Released
/// ```
/// `Lost` and `Released` are final.
#[derive(Debug)]
pub(crate) struct Vitals {
    phase: AtomicU8,
    /// Send time of the last accepted step + lease: when the store drops it at the earliest.
    expires: AtomicU64,
    /// The same less the safety margin: until when it is believed in.
    deadline: AtomicU64,
    /// Called when it is lost or released.
    ended: Notify,
    /// What every token that is asked for descends from, once one is.
    #[cfg(feature = "tokio-util")]
    pub(crate) token: std::sync::OnceLock<tokio_util::sync::CancellationToken>,
}

/// How long a hold lasts if nothing is done about it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life {
    pub(super) expires: Moment,
    pub(super) deadline: Moment,
}

impl Life {
    /// Of a step sent at `sent` and accepted with this lease.
    pub(super) fn fresh(sent: Moment, lease: Duration) -> Life {
        let expires = sent.after(lease);
        Life { expires, deadline: expires.before(config::safety_margin(lease)) }
    }

    /// What an heir has until the store knows of it: no more than its predecessor had, nor than it asks for itself.
    pub(super) fn inherited(self, now: Moment, lease: Duration) -> Life {
        let own = Life::fresh(now, lease);
        Life { expires: self.expires.min(own.expires), deadline: self.deadline.min(own.deadline) }
    }
}

const HELD: u8 = 0;
const SUSPECT: u8 = 1;
const LOST: u8 = 2;
const RELEASED: u8 = 3;

impl Vitals {
    pub(super) fn new(life: Life) -> Vitals {
        Vitals {
            phase: AtomicU8::new(HELD),
            expires: AtomicU64::new(life.expires.as_nanos()),
            deadline: AtomicU64::new(life.deadline.as_nanos()),
            ended: Notify::new(),
            #[cfg(feature = "tokio-util")]
            token: Default::default(),
        }
    }

    pub(crate) fn state(&self, now: Moment) -> State {
        match self.phase.load(Ordering::Acquire) {
            LOST | RELEASED => State::Lost,
            _ if now >= self.deadline() => State::Lost,
            SUSPECT => State::Suspect,
            _ => State::Held,
        }
    }

    /// The time until the deadline if it is not renewed; zero once it is lost.
    pub(crate) fn remaining(&self, now: Moment) -> Duration {
        match self.state(now) {
            State::Lost => Duration::ZERO,
            _ => self.deadline().since(now),
        }
    }

    pub(crate) fn deadline(&self) -> Moment {
        Moment::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(super) fn expires(&self) -> Moment {
        Moment::from_nanos(self.expires.load(Ordering::Acquire))
    }

    /// A step sent at `sent` was accepted with this lease. Never shortens: the store does not, either.
    pub(super) fn accept(&self, sent: Moment, lease: Duration) {
        let life = Life::fresh(sent, lease);
        self.expires.fetch_max(life.expires.as_nanos(), Ordering::AcqRel);
        self.deadline.fetch_max(life.deadline.as_nanos(), Ordering::AcqRel);
        self.reassure();
    }

    /// A renewal got no reply; false if that is no news.
    pub(super) fn doubt(&self) -> bool {
        self.change(HELD, SUSPECT)
    }

    /// The store replies again.
    pub(super) fn reassure(&self) {
        self.change(SUSPECT, HELD);
    }

    /// It is lost; false if it had ended before.
    pub(super) fn lose(&self) -> bool {
        self.end(LOST)
    }

    /// It is released; false if it had ended before.
    pub(super) fn release(&self) -> bool {
        self.end(RELEASED)
    }

    /// Whether it is lost or released.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase.load(Ordering::Acquire), LOST | RELEASED)
    }

    pub(super) fn is_released(&self) -> bool {
        self.phase.load(Ordering::Acquire) == RELEASED
    }

    /// Wakes those who wait for its end.
    pub(super) fn wake_waiters(&self) {
        self.ended.notify_waiters();
    }

    fn change(&self, from: u8, to: u8) -> bool {
        self.phase.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Ends it for good; false if it had ended before. The caller wakes those who wait for it.
    fn end(&self, as_what: u8) -> bool {
        self.change(HELD, as_what) || self.change(SUSPECT, as_what)
    }

    /// Ends when the hold is lost; never if it is released.
    pub(crate) async fn lost(&self, env: &dyn Env) {
        if !self.over(env).await {
            std::future::pending().await
        }
    }

    /// Ends when the hold does: true if it is lost, false if it is released.
    pub(crate) async fn over(&self, env: &dyn Env) -> bool {
        loop {
            let ended = self.ended.notified();
            match self.phase.load(Ordering::Acquire) {
                LOST => return true,
                RELEASED => return false,
                // The watchdog calls out the end; its clock and this one are the same.
                _ if env.now() >= self.deadline() => return true,
                _ => ended.await,
            }
        }
    }
}
