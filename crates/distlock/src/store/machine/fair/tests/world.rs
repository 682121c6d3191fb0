//! Many waiters that behave as the engine does, and some that die.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use fastrand::Rng;

use super::*;

/// What happens to a waiter next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask,
    Listen,
    Die,
    Leave,
    Release,
}

/// Many waiters, each of which asks, listens, asks again, and rests until it is called or told to; some die, with or
/// without the server noticing, or leave, or die as holders.
struct World {
    rng: Rng,
    lock: Bench,
    events: BinaryHeap<Reverse<(u64, u64, usize, Event)>>,
    owners: Vec<Owner>,
    gone: Vec<bool>,
    /// The latest turn to come that was planned for each: an earlier plan is void.
    planned: HashMap<usize, u64>,
    /// Who came in and when.
    entered: Vec<(usize, u64)>,
    /// In the order of coming.
    arrived: Vec<usize>,
    asked: u64,
    next: u64,
}

impl World {
    fn plan(&mut self, when: u64, who: usize, event: Event) {
        self.next += 1;
        if event == Event::Ask {
            self.planned.insert(who, self.next);
        }
        self.events.push(Reverse((when, self.next, who, event)));
    }

    fn call(&mut self, now: u64, wake: Wake) {
        if let Wake::Waiter(owner) = wake {
            let who = self.owners.iter().position(|one| *one == owner).unwrap();
            if !self.lock.ears.0.contains(&owner) {
                return;
            }
            let soon = now + self.rng.u64(0..20);
            self.plan(soon, who, Event::Ask);
        }
    }

    fn happen(&mut self, now: u64, id: u64, who: usize, event: Event) {
        let (owner, moment) = (self.owners[who], at(now));
        if self.gone[who] || event == Event::Ask && self.planned.get(&who) != Some(&id) {
            return;
        }
        match event {
            Event::Ask => {
                self.asked += 1;
                if !self.arrived.contains(&who) {
                    self.arrived.push(who);
                    let soon = now + self.rng.u64(1..100);
                    self.plan(soon, who, Event::Listen);
                }
                let (answer, wake) = self.lock.ask(owner, moment);
                self.call(now, wake);
                match answer {
                    Attempt::Busy { ttl } => {
                        let rest = (ttl.as_millis() as u64).max(1) + self.rng.u64(0..3);
                        self.plan(now + rest, who, Event::Ask);
                    }
                    Attempt::Acquired { .. } => {
                        self.planned.remove(&who);
                        self.lock.ears.0.remove(&owner);
                        self.entered.push((who, now));
                        let done = now + self.rng.u64(0..400);
                        // One in ten dies inside.
                        let event =
                            if self.rng.u8(0..10) == 0 { Event::Die } else { Event::Release };
                        self.plan(done, who, event);
                    }
                }
            }
            Event::Listen if self.planned.contains_key(&who) => {
                self.lock.ears.0.insert(owner);
                self.plan(now, who, Event::Ask);
            }
            Event::Listen => {}
            Event::Die => {
                self.gone[who] = true;
                // The server may not have noticed.
                if self.rng.bool() {
                    self.lock.ears.0.remove(&owner);
                }
            }
            Event::Leave if self.planned.remove(&who).is_some() => {
                self.gone[who] = true;
                let wake = self.lock.leave(owner, moment);
                self.lock.ears.0.remove(&owner);
                self.call(now, wake);
            }
            Event::Leave => {}
            Event::Release => {
                self.gone[who] = true;
                let (answer, wake) = self.lock.release(owner, moment);
                assert_eq!(answer, Released::Freed { heard_by: 0 });
                self.call(now, wake);
            }
        }
    }

    fn check(&self) {
        let Some(entry) = &self.lock.entry else { return };
        let waiting: HashSet<Owner> = entry.queue.iter().map(|place| place.owner).collect();
        assert_eq!(waiting.len(), entry.queue.len(), "somebody waits twice");
        let holder = entry.held.as_ref().map(|held| held.owner);
        assert!(holder.is_none_or(|holder| !waiting.contains(&holder)), "the holder waits");
    }
}

#[test]
fn whoever_lives_gets_in_in_turn_and_nobody_polls() {
    for seed in 0..400 {
        let mut rng = Rng::with_seed(seed);
        let count = rng.usize(2..40);
        let client = Uuid::new_v4();
        let mut world = World {
            lock: Bench::default(),
            events: BinaryHeap::new(),
            owners: (0..count).map(|_| Owner::mint(client)).collect(),
            gone: vec![false; count],
            planned: HashMap::new(),
            entered: Vec::new(),
            arrived: Vec::new(),
            asked: 0,
            next: 0,
            rng,
        };
        let mut mortal = HashSet::new();
        for who in 0..count {
            let born = world.rng.u64(0..5000);
            world.plan(born, who, Event::Ask);
            let later = born + world.rng.u64(1..20_000);
            match world.rng.u8(0..10) {
                0..3 => world.plan(later, who, Event::Die),
                3 => world.plan(later, who, Event::Leave),
                _ => continue,
            }
            mortal.insert(who);
        }
        let mut end = 0;
        while let Some(Reverse((now, id, who, event))) = world.events.pop() {
            world.happen(now, id, who, event);
            world.check();
            end = now;
            assert!(world.asked < 200_000, "seed {seed}: they poll");
        }
        let entered: Vec<usize> = world.entered.iter().map(|(who, _)| *who).collect();
        let order = |list: &[usize]| -> Vec<usize> {
            list.iter().copied().filter(|who| entered.contains(who)).collect()
        };
        assert_eq!(order(&world.arrived), entered, "seed {seed}: out of turn");
        for who in 0..count {
            assert!(entered.contains(&who) || mortal.contains(&who), "seed {seed}: {who} is left");
        }
        // Each asks twice to begin with and once when called; while one is waited for, every few seconds.
        let most = count as u64 * (6 + end / 1000);
        assert!(world.asked <= most, "seed {seed}: {} times in {end} ms", world.asked);
        // A dead holder costs its lease, a dead waiter seconds; who is not left behind the last is not left at all.
        let dead = world.gone.iter().filter(|gone| **gone).count() as u64;
        assert!(end <= 30_000 + dead * 42_000, "seed {seed}: took {end} ms");
    }
}
