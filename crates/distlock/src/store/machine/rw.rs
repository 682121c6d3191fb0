//! Many readers or one writer: what `scripts/rw_*.lua` do, in Rust.

use std::time::Duration;

use super::exclusive::TimedHold;
use super::{Machine, MachineContext, Transition};
use crate::env::Moment;
use crate::owner::Owner;
use crate::store::{Attempt, Claim, ClaimKind, Holder, Mode, Released, Renewed, Snapshot};

/// For how long new readers wait for a waiting writer after its last attempt. Long enough for a writer whose next attempt is a little
/// late, short enough for readers behind a writer that died.
pub const WRITER_PRIORITY: Duration = Duration::from_millis(2500);

/// The longest pause between two attempts of a waiting writer, and of a reader that waits for it.
pub const RECHECK: Duration = Duration::from_secs(1);

/// A read-write lock: its writer or its readers, and a waiting writer.
///
/// All holds of one reader last equally long, so a reader is one hold with a depth, for the longest lease that it was given. The writer may
/// read as well; then its write hold lasts at least as long as its read hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RwEntry {
    /// The writer.
    pub writer: Option<TimedHold>,
    /// The readers, each with a lease of its own. While there is a writer, no other owner is among them.
    pub readers: Vec<TimedHold>,
    /// The waiting writer that new readers wait for.
    pub waiting: Option<WaitingWriter>,
}

/// A writer that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingWriter {
    /// The writer.
    pub owner: Owner,
    /// When it is forgotten unless it tries again.
    pub until: Moment,
}

impl RwEntry {
    /// Returns the parts of the entry that have not expired at `now`.
    fn live(entry: Option<RwEntry>, now: Moment) -> RwEntry {
        let mut entry = entry.unwrap_or_default();
        entry.writer.take_if(|writer| writer.expires <= now);
        entry.readers.retain(|reader| reader.expires > now);
        entry.waiting.take_if(|waiting| waiting.until <= now);
        entry
    }

    /// Returns the entry, or `None` if it is empty.
    fn some(self) -> Option<RwEntry> {
        (self != RwEntry::default()).then_some(self)
    }

    fn reader(&mut self, owner: Owner) -> Option<&mut TimedHold> {
        self.readers.iter_mut().find(|reader| reader.owner == owner)
    }

    /// Makes the write hold last at least until `until`.
    fn cover(&mut self, until: Moment) {
        if let Some(writer) = &mut self.writer {
            writer.expires = writer.expires.max(until);
        }
    }

    /// Returns how long a new reader has to wait; `None` if it may read now.
    fn keeps_out(&self, owner: Owner, now: Moment) -> Option<Duration> {
        match (&self.writer, self.waiting) {
            (Some(writer), _) if writer.owner == owner => None,
            (Some(writer), _) => Some(writer.ttl(now)),
            (None, Some(waiting)) if waiting.owner != owner => {
                Some(waiting.until.since(now).min(RECHECK))
            }
            (None, _) => None,
        }
    }

    fn read(&mut self, claim: &Claim, now: Moment) -> Attempt {
        let Claim { owner, depth, lease, .. } = *claim;
        let mut expires = now.after(lease);
        match self.reader(owner) {
            Some(own) => {
                expires = own.expires.max(expires);
                *own = TimedHold { owner, depth, expires };
            }
            // The earlier hold is gone: it cannot be re-entered.
            None if depth != 1 => return Attempt::Busy { ttl: Duration::ZERO },
            None => match self.keeps_out(owner, now) {
                Some(ttl) => return Attempt::Busy { ttl },
                None => self.readers.push(TimedHold { owner, depth, expires }),
            },
        }
        self.cover(expires);
        Attempt::Acquired { token: None, lease: expires.since(now) }
    }

    fn write(&mut self, claim: &Claim, waits: bool, now: Moment) -> Attempt {
        let Claim { owner, depth, lease, .. } = *claim;
        let mut expires = now.after(lease);
        match &mut self.writer {
            Some(own) if own.owner == owner => {
                expires = own.expires.max(expires);
                *own = TimedHold { owner, depth, expires };
            }
            // No waiting writer is noted: new readers are kept out anyway, and may be next.
            Some(other) => return Attempt::Busy { ttl: other.ttl(now) },
            None if depth != 1 => return Attempt::Busy { ttl: Duration::ZERO },
            None => {
                if let Some(ttl) = self.readers.iter().map(|reader| reader.ttl(now)).max() {
                    return self.wait_for_readers(owner, ttl, waits, now);
                }
                self.writer = Some(TimedHold { owner, depth, expires });
                self.waiting.take_if(|waiting| waiting.owner == owner);
            }
        }
        Attempt::Acquired { token: None, lease: expires.since(now) }
    }

    fn wait_for_readers(
        &mut self,
        owner: Owner,
        ttl: Duration,
        waits: bool,
        now: Moment,
    ) -> Attempt {
        if !waits {
            return Attempt::Busy { ttl };
        }
        // A writer that reads itself would wait for ever, and every new reader behind it.
        let reads = self.reader(owner).is_some();
        if !reads && self.waiting.is_none_or(|waiting| waiting.owner == owner) {
            self.waiting = Some(WaitingWriter { owner, until: now.after(WRITER_PRIORITY) });
        }
        Attempt::Busy { ttl: ttl.min(RECHECK) }
    }

    fn holders(&self, now: Moment) -> Vec<Holder> {
        let show =
            |hold: &TimedHold, mode| Holder::with_mode(hold.owner.to_string(), hold.depth, mode);
        let live = |hold: &&TimedHold| hold.expires > now;
        let writer = self.writer.iter().filter(live).map(|hold| show(hold, Mode::Write));
        let readers = self.readers.iter().filter(live).map(|hold| show(hold, Mode::Read));
        writer.chain(readers).collect()
    }
}

impl Machine for RwEntry {
    fn is_live(&self, now: Moment) -> bool {
        self.writer.iter().chain(&self.readers).any(|hold| hold.expires > now)
            || self.waiting.is_some_and(|waiting| waiting.until > now)
    }

    fn acquire(
        entry: Option<RwEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<RwEntry, Attempt> {
        let mut entry = RwEntry::live(entry, now);
        let answer = match claim.kind {
            ClaimKind::Write { waits } => entry.write(claim, waits, now),
            _ => entry.read(claim, now),
        };
        Transition::silent(entry.some(), answer)
    }

    fn release(
        entry: Option<RwEntry>,
        claim: &Claim,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<RwEntry, Released> {
        let mut entry = RwEntry::live(entry, now);
        let Claim { owner, depth, .. } = *claim;
        let writes = matches!(claim.kind, ClaimKind::Write { .. });
        if depth > 0 {
            let own = match writes {
                true => entry.writer.as_mut().filter(|writer| writer.owner == owner),
                false => entry.reader(owner),
            };
            let answer = match own {
                Some(own) => {
                    own.depth = depth;
                    Released::StillHeld
                }
                None => Released::NotHeld,
            };
            return Transition::silent(entry.some(), answer);
        }
        let (held, tell) = if writes {
            // Readers that wait for it may enter, and so may other readers if it keeps its read hold.
            let waited = entry.waiting.take_if(|waiting| waiting.owner == owner).is_some();
            let held = entry.writer.take_if(|writer| writer.owner == owner).is_some();
            (held, held || waited)
        } else {
            let before = entry.readers.len();
            entry.readers.retain(|reader| reader.owner != owner);
            let held = entry.readers.len() < before;
            (held, held && entry.writer.is_none() && entry.readers.is_empty())
        };
        let answer = if held { Released::Freed { heard_by: 0 } } else { Released::NotHeld };
        match tell {
            true => Transition::waking_all(entry.some(), answer),
            false => Transition::silent(entry.some(), answer),
        }
    }

    fn renew(entry: Option<RwEntry>, claim: &Claim, now: Moment) -> Transition<RwEntry, Renewed> {
        let mut entry = RwEntry::live(entry, now);
        let until = now.after(claim.lease);
        let reads_until = entry.reader(claim.owner).map(|own| own.expires);
        let expires = if matches!(claim.kind, ClaimKind::Write { .. }) {
            let own = entry.writer.as_mut().filter(|writer| writer.owner == claim.owner);
            own.map(|own| {
                own.expires = own.expires.max(until).max(reads_until.unwrap_or(until));
                own.expires
            })
        } else {
            let expires = reads_until.map(|before| before.max(until));
            if let (Some(own), Some(expires)) = (entry.reader(claim.owner), expires) {
                own.expires = expires;
                entry.cover(until);
            }
            expires
        };
        let renewed =
            expires.map_or(Renewed::Gone, |expires| Renewed::Held { for_: expires.since(now) });
        Transition::silent(entry.some(), renewed)
    }

    fn give_up(
        entry: Option<RwEntry>,
        claim: &Claim,
        now: Moment,
        context: &dyn MachineContext,
    ) -> Transition<RwEntry, ()> {
        let claim = Claim { depth: 0, ..claim.clone() };
        let Transition { entry, wake, .. } = RwEntry::release(entry, &claim, now, context);
        Transition { entry, answer: (), wake }
    }

    fn force(
        entry: Option<RwEntry>,
        kind: ClaimKind,
        now: Moment,
        _: &dyn MachineContext,
    ) -> Transition<RwEntry, ()> {
        let entry = RwEntry::live(entry, now);
        let matches = match kind {
            ClaimKind::Write { .. } => entry.writer.is_some(),
            _ => entry.writer.is_none() && !entry.readers.is_empty(),
        };
        match matches {
            true => Transition::waking_all(None, ()),
            false => Transition::silent(entry.some(), ()),
        }
    }

    fn view(&self, name: &str, now: Moment) -> Snapshot {
        let holders = self.holders(now);
        // The write hold lasts at least as long as the read hold of its owner.
        let ttl = self.writer.iter().chain(&self.readers).map(|hold| hold.ttl(now)).max();
        match ttl {
            Some(ttl) if !holders.is_empty() => Snapshot::held(name, holders, ttl),
            _ => Snapshot::free(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Alone;

    impl MachineContext for Alone {
        fn listens(&self, _: Owner) -> bool {
            false
        }

        fn token(&self) -> u64 {
            0
        }
    }

    /// A lock and a clock.
    #[derive(Default)]
    struct Lock {
        entry: Option<RwEntry>,
        millis: u64,
    }

    impl Lock {
        fn now(&self) -> Moment {
            Moment::from_nanos((1 + self.millis) * 1_000_000)
        }

        fn acquire(&mut self, kind: ClaimKind, owner: Owner, lease: u64) -> Attempt {
            let claim = claim(kind, owner, lease);
            let step = RwEntry::acquire(self.entry.take(), &claim, self.now(), &Alone);
            self.entry = step.entry;
            step.answer
        }

        fn renew(&mut self, kind: ClaimKind, owner: Owner, lease: u64) -> Renewed {
            let step = RwEntry::renew(self.entry.take(), &claim(kind, owner, lease), self.now());
            self.entry = step.entry;
            step.answer
        }
    }

    fn claim(kind: ClaimKind, owner: Owner, lease: u64) -> Claim {
        let (name, lease) = ("k".into(), Duration::from_millis(lease));
        Claim { name, owner, lease, depth: 1, heir_of: None, kind, info: None }
    }

    fn owners<const N: usize>() -> [Owner; N] {
        std::array::from_fn(|_| Owner::mint(uuid::Uuid::nil()))
    }

    fn acquired(millis: u64) -> Attempt {
        Attempt::Acquired { token: None, lease: Duration::from_millis(millis) }
    }

    fn busy(millis: u64) -> Attempt {
        Attempt::Busy { ttl: Duration::from_millis(millis) }
    }

    /// Redisson: testReadLockExpiration, testReadLockLeaseTimeoutDiffThreadsRRW.
    #[test]
    fn a_writer_enters_when_the_last_lease_ends() {
        let (mut lock, [long, short, writer]) = (Lock::default(), owners());
        lock.acquire(ClaimKind::Read, long, 10_000);
        lock.acquire(ClaimKind::Read, short, 3_000);
        let single = ClaimKind::Write { waits: false };
        assert_eq!(lock.acquire(single, writer, 1), busy(10_000));
        lock.millis = 9_999;
        assert_eq!(lock.acquire(single, writer, 1), busy(1));
        lock.millis = 10_000;
        assert_eq!(lock.acquire(single, writer, 1), acquired(1));
    }

    #[test]
    fn a_writer_that_does_not_come_again_is_forgotten() {
        let (mut lock, [reader, writer, late]) = (Lock::default(), owners());
        lock.acquire(ClaimKind::Read, reader, 60_000);
        assert_eq!(lock.acquire(ClaimKind::Write { waits: true }, writer, 1), busy(1_000));
        assert_eq!(lock.acquire(ClaimKind::Read, late, 1), busy(1_000));
        lock.millis = 2_499;
        assert_eq!(lock.acquire(ClaimKind::Read, late, 1), busy(1));
        lock.millis = 2_500;
        assert_eq!(lock.acquire(ClaimKind::Read, late, 1), acquired(1));
    }

    #[test]
    fn a_writer_outlasts_what_it_reads() {
        let (mut lock, [writer, reader]) = (Lock::default(), owners());
        lock.acquire(ClaimKind::Write { waits: false }, writer, 1_000);
        assert_eq!(lock.acquire(ClaimKind::Read, writer, 5_000), acquired(5_000));
        lock.millis = 1_000;
        assert_eq!(lock.acquire(ClaimKind::Read, reader, 1), busy(4_000));
    }

    #[test]
    fn what_is_granted_is_what_is_kept() {
        const WRITE: ClaimKind = ClaimKind::Write { waits: false };
        let held = |millis| Renewed::Held { for_: Duration::from_millis(millis) };
        let (mut lock, [writer, other]) = (Lock::default(), owners());
        assert_eq!(lock.acquire(WRITE, writer, 1_000), acquired(1_000));
        assert_eq!(lock.acquire(ClaimKind::Read, writer, 5_000), acquired(5_000));
        // The write hold lasts as long as the read hold, and no renewal shortens either.
        assert_eq!(lock.acquire(WRITE, writer, 1), acquired(5_000));
        assert_eq!(lock.renew(WRITE, writer, 1), held(5_000));
        lock.millis = 4_000;
        assert_eq!(lock.renew(ClaimKind::Read, writer, 1), held(1_000));
        assert_eq!(lock.renew(WRITE, writer, 3_000), held(3_000));
        assert_eq!(lock.renew(WRITE, other, 3_000), Renewed::Gone);
        assert_eq!(lock.renew(ClaimKind::Read, other, 3_000), Renewed::Gone);
        lock.millis = 7_000;
        assert_eq!(lock.renew(WRITE, writer, 3_000), Renewed::Gone);
    }
}
