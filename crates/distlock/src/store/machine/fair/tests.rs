//! The queue under virtual time.

mod world;

use std::collections::HashSet;

use uuid::Uuid;

use super::*;

const PATIENCE: Duration = Duration::from_secs(300);
const LEASE: Duration = Duration::from_secs(30);

fn claim(owner: Owner) -> Claim {
    let what = ClaimKind::Fair { patience: Some(PATIENCE) };
    Claim { name: "k".into(), owner, lease: LEASE, depth: 1, heir_of: None, kind: what, info: None }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(n: u64) -> Moment {
    // Not from the origin itself, which is a nanosecond late.
    Moment::from_origin(millis(1000 + n))
}

/// Who listens.
#[derive(Default)]
struct Ears(HashSet<Owner>);

impl MachineContext for Ears {
    fn listens(&self, owner: Owner) -> bool {
        self.0.contains(&owner)
    }

    fn token(&self) -> u64 {
        unreachable!("no fair lock has tokens")
    }
}

/// A lock, step by step.
#[derive(Default)]
struct Bench {
    entry: Option<FairEntry>,
    ears: Ears,
}

impl Bench {
    fn ask(&mut self, owner: Owner, now: Moment) -> (Attempt, Wake) {
        let step = FairEntry::acquire(self.entry.take(), &claim(owner), now, &self.ears);
        self.entry = step.entry;
        (step.answer, step.wake)
    }

    fn try_once(&mut self, owner: Owner, now: Moment) -> Attempt {
        let once = Claim { kind: ClaimKind::Fair { patience: None }, ..claim(owner) };
        let step = FairEntry::acquire(self.entry.take(), &once, now, &self.ears);
        self.entry = step.entry;
        step.answer
    }

    fn release(&mut self, owner: Owner, now: Moment) -> (Released, Wake) {
        let claim = Claim { depth: 0, ..claim(owner) };
        let step = FairEntry::release(self.entry.take(), &claim, now, &self.ears);
        self.entry = step.entry;
        (step.answer, step.wake)
    }

    fn leave(&mut self, owner: Owner, now: Moment) -> Wake {
        let step = FairEntry::give_up(self.entry.take(), &claim(owner), now, &self.ears);
        self.entry = step.entry;
        step.wake
    }

    /// What is left of each one's time, in milliseconds.
    fn times(&self, now: Moment) -> Vec<u128> {
        let queue = self.entry.iter().flat_map(|entry| &entry.queue);
        queue.map(|place| place.until.since(now).as_millis()).collect()
    }
}

fn owners<const N: usize>() -> [Owner; N] {
    let client = Uuid::new_v4();
    std::array::from_fn(|_| Owner::mint(client))
}

fn busy(ms: u64) -> Attempt {
    Attempt::Busy { ttl: millis(ms) }
}

const ACQUIRED: Attempt = Attempt::Acquired { token: None, lease: LEASE };

#[test]
fn times_add_up_as_redissons_do_and_come_down_as_the_queue_moves() {
    let [holder, a, b, c] = owners();
    let mut lock = Bench::default();
    assert_eq!(lock.ask(holder, at(0)).0, ACQUIRED);
    for waiter in [a, b, c] {
        lock.ask(waiter, at(0));
    }
    assert_eq!(lock.times(at(0)), [330_000, 630_000, 930_000]);
    lock.leave(b, at(1000));
    assert_eq!(lock.times(at(1000)), [329_000, 629_000]);
    lock.ears.0.extend([a, c]);
    lock.release(holder, at(2000));
    assert_eq!(lock.ask(a, at(2000)).0, ACQUIRED);
    assert_eq!(lock.times(at(2000)), [330_000]);
}

#[test]
fn only_the_first_in_line_comes_when_a_lease_ends_and_the_first_few_ask_more_often() {
    let owners = owners::<12>();
    let mut lock = Bench::default();
    for one in &owners {
        lock.ask(*one, at(0));
    }
    let mut rests = |now| -> Vec<Attempt> {
        owners[1..].iter().map(|waiter| lock.ask(*waiter, now).0).collect()
    };
    let early = rests(at(10_000));
    assert_eq!(early[..8], [busy(1500); 8]);
    assert_eq!(early[8..], [busy(5000); 3]);
    let late = rests(at(29_300));
    assert_eq!(late[0], busy(700));
    assert_eq!(late[1..8], [busy(1500); 7]);
    assert_eq!(late[8..], [busy(2700); 3]);
}

#[test]
fn who_becomes_first_in_line_behind_a_short_lease_is_told() {
    let [holder, a, b, c] = owners();
    let mut lock = Bench::default();
    for one in [holder, a, b, c] {
        lock.ask(one, at(0));
    }
    assert_eq!(lock.leave(a, at(10_000)), Wake::None);
    assert_eq!(lock.leave(b, at(26_000)), Wake::Waiter(c));
    lock.ask(a, at(26_000));
    lock.ears.0.extend([a, c]);
    lock.release(holder, at(26_000));
    let short = Claim { lease: millis(700), ..claim(c) };
    let step = FairEntry::acquire(lock.entry.take(), &short, at(26_000), &lock.ears);
    let acquired = Attempt::Acquired { token: None, lease: millis(700) };
    assert_eq!((step.answer, step.wake), (acquired, Wake::Waiter(a)));
    lock.entry = step.entry;
    assert_eq!(lock.ask(a, at(26_000)).0, busy(700));
}

#[test]
fn a_single_try_takes_no_place_and_overtakes_nobody() {
    let [holder, a, b] = owners();
    let mut lock = Bench::default();
    lock.ask(holder, at(0));
    assert_eq!(lock.try_once(b, at(0)), busy(30_000));
    lock.ask(a, at(0));
    lock.ears.0.insert(a);
    lock.release(holder, at(10));
    assert_eq!(lock.try_once(b, at(10)), busy(5000));
    assert_eq!(lock.ask(a, at(20)).0, ACQUIRED);
    lock.release(a, at(30));
    assert_eq!(lock.entry, None);
}

#[test]
fn a_release_calls_the_first_who_listens_and_the_dead_before_it_share_one_grace() {
    let [holder, a, b, c, d] = owners();
    let mut lock = Bench::default();
    for one in [holder, a, b, c, d] {
        lock.ask(one, at(0));
    }
    lock.ears.0.extend([c, d]);
    assert_eq!(lock.release(holder, at(0)).1, Wake::Waiter(c));
    assert_eq!(lock.times(at(0)), [1000, 630_000, 930_000, 1_230_000]);
    assert_eq!(lock.ask(c, at(0)).0, busy(1000));
    assert_eq!(lock.ask(d, at(0)).0, busy(1000));
    assert_eq!(lock.ask(c, at(1000)).0, ACQUIRED);
    assert_eq!(lock.times(at(1000)), [330_000]);
}

#[test]
fn one_who_listens_and_does_not_come_is_called_once_more_and_waited_for_for_seconds() {
    let [holder, a, b, c] = owners();
    let mut lock = Bench::default();
    for one in [holder, a, b, c] {
        lock.ask(one, at(0));
    }
    lock.ears.0.extend([a, b, c]);
    assert_eq!(lock.release(holder, at(0)).1, Wake::Waiter(a));
    assert_eq!(lock.ask(c, at(100)), (busy(1500), Wake::Waiter(a)));
    assert_eq!(lock.ask(c, at(4000)), (busy(1100), Wake::None));
    assert_eq!(lock.ask(c, at(5100)), (busy(1500), Wake::Waiter(b)));
    assert_eq!(lock.ask(b, at(5100)).0, ACQUIRED);
}

#[test]
fn whoever_leaves_passes_the_call_on() {
    let [holder, a, b] = owners();
    let mut lock = Bench::default();
    for one in [holder, a, b] {
        lock.ask(one, at(0));
    }
    lock.ears.0.extend([a, b]);
    assert_eq!(lock.leave(a, at(0)), Wake::None);
    lock.ask(a, at(0));
    assert_eq!(lock.release(holder, at(0)).1, Wake::Waiter(b));
    assert_eq!(lock.leave(b, at(0)), Wake::Waiter(a));
    assert_eq!(lock.leave(b, at(0)), Wake::None);
    assert_eq!(lock.leave(a, at(0)), Wake::None);
    assert_eq!(lock.entry, None);
}

#[test]
fn leaving_moves_nobodys_time_into_the_past() {
    let [holder, a, b] = owners();
    let mut lock = Bench::default();
    for one in [holder, a, b] {
        lock.ask(one, at(0));
    }
    let a_minute_and_more = at(620_000);
    // The holder was renewed all the time, and neither asked again: one more asks, and the first of them is gone.
    let renewal = FairEntry::renew(lock.entry.take(), &claim(holder), at(29_000));
    lock.entry = renewal.entry.map(|entry| {
        let held = entry.held.map(|held| exclusive::TimedHold { expires: Moment::NEVER, ..held });
        FairEntry { held, ..entry }
    });
    assert_eq!(lock.times(a_minute_and_more), [0, 10_000]);
    lock.ask(a, a_minute_and_more);
    lock.leave(a, a_minute_and_more);
    assert_eq!(lock.times(a_minute_and_more), [10_000]);
}

#[test]
fn a_queue_whose_waiters_all_died_is_gone_with_their_time() {
    let [holder, a] = owners();
    let mut lock = Bench::default();
    lock.ask(holder, at(0));
    lock.ask(a, at(0));
    let entry = lock.entry.clone().unwrap();
    assert!(entry.is_live(at(329_999)));
    assert!(!entry.is_live(at(330_000)));
    assert_eq!(entry.view("k", at(329_999)).queue, [a.to_string()]);
    assert!(entry.view("k", at(330_000)).queue.is_empty());
}
