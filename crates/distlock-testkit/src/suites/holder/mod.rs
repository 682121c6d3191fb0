//! What holders say of themselves: promises of every kind that can be held.

pub mod gone;
pub mod says;
pub mod server;
pub mod slow;
pub mod told;

use std::time::Duration;

use distlock::store::Snapshot;
use distlock::{FencedGuard, Guard, HolderInfo, Locks, Permits, ReadGuard, WriteGuard};

use super::times::{HOUR, ms, secs};
use super::{Ground, Site};

use super::promise::{Promise, promises};

/// What it promises, and what each promise needs.
pub(super) const PROMISES: &[Promise] = promises! { holder;
    Store says:
        everybody_sees_who_holds_it
        who_says_nothing_leaves_nothing
        an_heir_speaks_for_itself
        what_is_said_lives_as_long_as_the_lock
        a_reentry_keeps_what_was_said
        many_holders_have_their_own_words
        all_of_several_say_it
        hostile_words_do_no_harm
        those_who_wait_are_counted;
    Store gone:
        what_was_said_goes_with_the_hold
        what_others_leave_is_shown_to_nobody
        whoever_does_not_get_it_says_nothing;
    Store told:
        a_wait_timeout_says_who_holds_it
        one_of_several_is_named;
    Store slow:
        a_hold_that_takes_long_is_warned_of_once
        what_was_released_in_time_is_not_warned_of
        a_warning_says_what_the_hold_is_for;
    Server server:
        who_says_nothing_pays_nothing
        strangers_say_nothing
        what_stands_in_its_place_costs_no_lock
        a_missing_permission_is_named;
};

/// Whether a user of this site who does not ask for it may read what others say.
fn may_read(ground: &Ground) -> bool {
    !matches!(ground.site(), Site::Acl(_) | Site::Polling(_) | Site::Cluster(..))
}

/// Every way to hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Mutex,
    Fair,
    Spin,
    Fenced,
    Simple,
    Read,
    Write,
    Semaphore,
    LeasedSemaphore,
}

const WAYS: [Way; 9] = [
    Way::Mutex,
    Way::Fair,
    Way::Spin,
    Way::Fenced,
    Way::Simple,
    Way::Read,
    Way::Write,
    Way::Semaphore,
    Way::LeasedSemaphore,
];

/// How many permits semaphores of these promises have.
const ALL: u32 = 5;

/// Something held.
enum Held {
    One(Guard),
    Fenced(FencedGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Permits),
}

impl Held {
    fn guard(&self) -> &Guard {
        match self {
            Held::One(guard) => guard,
            Held::Fenced(guard) => guard,
            Held::Read(guard) => guard,
            Held::Write(guard) => guard,
            Held::Permits(guard) => guard,
        }
    }

    async fn unlock(self) {
        let unlocked = match self {
            Held::One(guard) => guard.unlock().await,
            Held::Fenced(guard) => guard.unlock().await,
            Held::Read(guard) => guard.unlock().await,
            Held::Write(guard) => guard.unlock().await,
            Held::Permits(guard) => guard.unlock().await,
        };
        unlocked.expect("it was held");
    }
}

impl Way {
    /// Whether a lease can be asked for.
    fn has_lease(self) -> bool {
        self != Way::Semaphore
    }

    /// Whether the time to live is that of the key with the lock's name.
    fn has_ttl(self) -> bool {
        !matches!(self, Way::Semaphore | Way::LeasedSemaphore)
    }

    /// Takes it, for all permits if it is a semaphore.
    async fn take(
        self,
        locks: &Locks,
        name: &str,
        lease: Option<Duration>,
        label: Option<&str>,
    ) -> Held {
        macro_rules! asked {
            ($request:expr) => {{
                let mut request = $request;
                if let Some(label) = label {
                    request = request.label(label);
                }
                if let Some(lease) = lease.filter(|_| self.has_lease()) {
                    request = request.lease(lease);
                }
                request.await.expect("it is free")
            }};
        }
        match self {
            Way::Mutex => Held::One(asked!(locks.mutex(name).lock())),
            Way::Fair => Held::One(asked!(locks.fair(name).lock())),
            Way::Spin => Held::One(asked!(locks.spin(name).lock())),
            Way::Simple => Held::One(asked!(locks.simple(name).lock())),
            Way::Fenced => Held::Fenced(asked!(locks.fenced(name).lock())),
            Way::Read => Held::Read(asked!(locks.rw(name).read())),
            Way::Write => Held::Write(asked!(locks.rw(name).write())),
            Way::Semaphore => {
                Held::Permits(asked!(locks.semaphore(name).with_permits(ALL).acquire(ALL)))
            }
            Way::LeasedSemaphore => {
                Held::Permits(asked!(locks.leased_semaphore(name).with_permits(ALL).acquire(ALL)))
            }
        }
    }

    async fn seen(self, locks: &Locks, name: &str) -> Snapshot {
        let seen = match self {
            Way::Mutex => locks.mutex(name).inspect().await,
            Way::Fair => locks.fair(name).inspect().await,
            Way::Spin => locks.spin(name).inspect().await,
            Way::Simple => locks.simple(name).inspect().await,
            Way::Fenced => locks.fenced(name).inspect().await,
            Way::Read | Way::Write => locks.rw(name).inspect().await,
            Way::Semaphore => locks.semaphore(name).inspect().await,
            Way::LeasedSemaphore => locks.leased_semaphore(name).inspect().await,
        };
        seen.expect("the store answers")
    }

    /// What its one holder says; each of its permits, if they have ids, says the same.
    async fn says(self, locks: &Locks, name: &str) -> Option<HolderInfo> {
        let seen = self.seen(locks, name).await;
        let first = seen.holders.first().and_then(|holder| holder.info.clone());
        assert!(seen.holders.iter().all(|holder| holder.info == first), "{self:?}: {seen:?}");
        first
    }

    async fn force(self, locks: &Locks, name: &str) -> bool {
        let forced = match self {
            Way::Mutex => locks.mutex(name).force_unlock().await,
            Way::Fair => locks.fair(name).force_unlock().await,
            Way::Spin => locks.spin(name).force_unlock().await,
            Way::Simple => locks.simple(name).force_unlock().await,
            Way::Fenced => locks.fenced(name).force_unlock().await,
            Way::Read => locks.rw(name).force_unlock_read().await,
            Way::Write => locks.rw(name).force_unlock_write().await,
            Way::Semaphore => locks.semaphore(name).force_unlock().await,
            Way::LeasedSemaphore => locks.leased_semaphore(name).force_unlock().await,
        };
        forced.expect("the store answers")
    }

    /// Removes what is meant to stay: a semaphore's number.
    async fn sweep(self, locks: &Locks, name: &str) {
        match self {
            Way::Semaphore => drop(locks.semaphore(name).delete().await),
            Way::LeasedSemaphore => drop(locks.leased_semaphore(name).delete().await),
            _ => {}
        }
    }
}

/// A `Locks` whose holders say who they are.
async fn open(ground: &Ground, service: &str) -> Locks {
    ground.saying(service).connect().await.expect("the store can be opened")
}

/// Where a server keeps what the holders of `name` say.
fn key(name: &str) -> String {
    format!("{{{name}}}:distlock_holders")
}

/// The fields of that; `None` where there is no server to ask.
async fn fields(ground: &Ground, name: &str) -> Option<usize> {
    Some(ground.server()?.hgetall(&key(name)).await.len())
}

/// The times to live of the lock and of what its holders say, at one moment.
async fn ttls(ground: &Ground, name: &str) -> Option<(i64, i64)> {
    const BOTH: &str = "return { redis.call('pttl', KEYS[1]), redis.call('pttl', KEYS[2]) }";
    Some(ground.server()?.ask(&["EVAL", BOTH, "2", name, &key(name)]).await)
}
