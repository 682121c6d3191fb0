//! The end of a liveness run, without faults: everything is free, waiters are served in time and in turn, nothing is left.

use std::time::Duration;

use distlock::store::Kind;
use tokio::time::sleep;

use super::entry::SimEntry;
use super::guards::acquire;
use super::plan::{Fault, FaultPlan, HoldPlan, LockPlan, Millis, Plan};
use super::process::Task;
use super::world::Stage;

/// In a calm network a waiter has the lock this long after it was released. Less than the re-check that backs up a lost notification.
const HAND_OVER: Millis = 500;

impl Stage {
    /// Without faults: everything is free, waiters are served in time and in turn, and nothing is left.
    pub(super) async fn finale(&mut self, plan: &Plan) {
        sleep(Duration::from_millis(self.longest(plan))).await;
        self.left_behind(plan);
        let alive: Vec<usize> =
            (0..plan.processes).filter(|&process| self.is_open(plan, process)).collect();
        for lock in plan.locks.iter().filter(|lock| lock.kind != Kind::Latch) {
            self.relay(lock, &alive).await;
        }
        for process in 0..plan.processes {
            let locks = self.locks[process].take();
            if let Some(locks) = locks.filter(|_| !self.gates[process].is_dead()) {
                let close = Box::pin(async move { locks.close().await });
                tokio::spawn(Task::new(close, &self.gates[process]));
            }
        }
        sleep(Duration::from_millis(self.longest(plan))).await;
        self.left_behind(plan);
        for (process, gate) in self.gates.iter().enumerate() {
            if !gate.is_dead() && gate.alive() > 0 {
                self.violation(format_args!(
                    "{} tasks of p{process} are alive after its end",
                    gate.alive()
                ));
            }
        }
        let left = self.world.state().subscribed();
        if left > 0 {
            self.violation(format_args!("{left} subscriptions are left"));
        }
    }

    fn is_open(&self, plan: &Plan, process: usize) -> bool {
        let closes = |planned: &FaultPlan| matches!(planned.fault, Fault::Close { process: closed } if closed == process);
        !self.gates[process].is_dead() && !plan.faults.iter().any(closes)
    }

    /// After so long nothing that was left behind is there any more: the longest lease, and a dead waiter's place in a queue.
    fn longest(&self, plan: &Plan) -> Millis {
        plan.watchdog.max(4_000) + 12_000
    }

    /// Looks at what the server has.
    fn left_behind(&self, plan: &Plan) {
        let now = self.world.now();
        let mut found = Vec::new();
        {
            let state = &mut *self.world.state();
            let mut latches = Vec::new();
            for (name, entry) in state.server.left(now) {
                let Some(lock) = plan.locks.iter().find(|lock| *lock.name == *name) else {
                    continue;
                };
                match entry {
                    SimEntry::Latch(latch) => latches.push((lock, latch.count.unwrap_or(0))),
                    SimEntry::Permits(permits) => {
                        if permits.left != i64::from(lock.count) || !permits.out.is_empty() {
                            found.push(format!(
                                "{name} has {} of {} permits",
                                permits.left, lock.count
                            ));
                        }
                    }
                    SimEntry::Leased(leased) => {
                        // What has expired is counted when the next operation comes.
                        let clock = state.server.clock(now);
                        let live = leased.out.values().filter(|until| **until > clock).count();
                        let all = leased.left + i64::try_from(leased.out.len()).unwrap_or(i64::MAX);
                        if live > 0 || all != i64::from(lock.count) {
                            let count = lock.count;
                            found.push(format!("{name}: {live} held, {all} of {count} permits"));
                        }
                    }
                    SimEntry::Hold(hold) => {
                        let (held, queue) = (hold.held.is_some(), hold.queue.len());
                        found.push(format!("{name} is left: held {held}, {queue} in the queue"));
                    }
                    SimEntry::Rw(rw) => found.push(format!(
                        "{name} is left: written {}, {} readers, awaited {}",
                        rw.writer.is_some(),
                        rw.readers.len(),
                        rw.waiting.is_some()
                    )),
                    SimEntry::Simple(_) => found.push(format!("{name} is left held")),
                }
            }
            for (lock, left) in latches {
                state.checker.latch_left(&state.server, &lock.name, lock.count, left, now);
            }
        }
        for text in found {
            self.violation(format_args!("left behind: {text}"));
        }
    }

    /// One process holds the lock, the others wait for it one after the other: each has it soon after the one before has let go.
    async fn relay(&self, lock: &LockPlan, alive: &[usize]) {
        let Some((&first, others)) = alive.split_first() else { return };
        let Some(holder) = self.worker(1_000 + first, first) else { return };
        let plan = HoldPlan { permits: lock.count, ..HoldPlan::plain(0) };
        let plan = HoldPlan { tries: true, ..plan };
        let begun = self.world.now();
        let held = match acquire(&holder.locks, lock, &plan, None).await {
            Ok(Some(guard)) => guard,
            other => {
                let why = other.err().map(|error| error.kind());
                return self
                    .violation(format_args!("{} is not free in the end: {why:?}", lock.name));
            }
        };
        holder.say(format_args!("begins a relay of {}", lock.name));
        let took = self.world.now() - begun;
        if took > HAND_OVER {
            self.violation(format_args!("acquiring the free {} took {took} ms", lock.name));
        }
        let mut waiters = Vec::new();
        for &process in others {
            let Some(waiter) = self.worker(1_000 + process, process) else { continue };
            let (lock, world) = (lock.clone(), self.world.clone());
            let wait = async move {
                let plan = HoldPlan { permits: lock.count, ..HoldPlan::plain(HAND_OVER * 40) };
                let got = acquire(&waiter.locks, &lock, &plan, None).await;
                let at = world.now();
                waiter.say(format_args!("is reached by the relay: {}", got.is_ok()));
                sleep(Duration::from_millis(10)).await;
                let over = match got {
                    Ok(Some(guard)) => guard.unlock().await.is_ok(),
                    _ => false,
                };
                (process, at, world.now(), over)
            };
            waiters.push(tokio::spawn(wait));
            sleep(Duration::from_millis(50)).await;
        }
        // Until now they may have seen only the holder's own time to live.
        sleep(Duration::from_millis(200)).await;
        let mut before = self.world.now();
        if held.unlock().await.is_err() {
            self.violation(format_args!("the relay's holder of {} could not unlock", lock.name));
        }
        let mut served = Vec::new();
        for waiter in waiters {
            if let Ok(times) = waiter.await {
                served.push(times);
            }
        }
        let order: Vec<usize> = served.iter().map(|(process, ..)| *process).collect();
        served.sort_by_key(|(_, at, ..)| *at);
        let polls = matches!(lock.kind, Kind::Spin | Kind::Simple);
        for (process, at, end, over) in &served {
            if !over {
                self.violation(format_args!("p{process} waited for {} in vain", lock.name));
            }
            let took = at.saturating_sub(before);
            if took > HAND_OVER && !polls {
                self.violation(format_args!(
                    "p{process} had {} only {took} ms after it was free",
                    lock.name
                ));
            }
            before = *end;
        }
        let turns: Vec<usize> = served.iter().map(|(process, ..)| *process).collect();
        if lock.kind == Kind::Fair && turns != order {
            self.violation(format_args!("{} was granted to {turns:?}, not {order:?}", lock.name));
        }
    }
}
