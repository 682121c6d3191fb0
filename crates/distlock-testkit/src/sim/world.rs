//! Runs a seed.

use std::sync::Arc;
use std::time::Duration;

use distlock::Locks;
use distlock::env::Virtual;
use distlock::store::{Admin, Kind, LatchOp};
use tokio::runtime::Builder;
use tokio::time::{sleep, sleep_until};

use super::entry::SimEntry;
use super::link::SimStore;
use super::network::{World, log};
use super::plan::{Fault, FaultPlan, HoldPlan, LockPlan, Millis, Plan};
use super::process::{Gate, SimEnv, Task};
use super::server::{Published, Request};
use super::worker::{Worker, acquire};

/// How long the workers may take altogether, once the faults are over.
const PATIENCE: Millis = 300_000;

/// In a calm network a waiter has the lock this long after it was released. Less than the re-check that backs up a lost notification.
const HAND_OVER: Millis = 500;

/// What came of a run.
#[derive(Debug)]
pub struct Run {
    /// What was seen that must never be seen.
    pub violations: Vec<String>,
    /// One line per event.
    pub trace: String,
    /// How many holds there were.
    pub granted: u64,
    /// How long it took in the simulation.
    pub lasted: Duration,
}

/// Runs a plan, on this thread.
///
/// # Panics
/// When the system gives no runtime.
pub fn run(plan: Plan) -> Run {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.expect("a runtime without threads and without I/O");
    let plan = Arc::new(plan);
    let world = runtime.block_on(play(plan));
    // Tasks of dead processes are dropped here.
    drop(runtime);
    let (lasted, state) = world;
    state.finish(lasted)
}

/// The parts of a simulation.
struct Stage {
    world: Arc<World>,
    gates: Vec<Arc<Gate>>,
    locks: Vec<Option<Locks>>,
}

async fn play(plan: Arc<Plan>) -> (Millis, Arc<World>) {
    let gates: Vec<Arc<Gate>> = (0..plan.processes).map(|_| Arc::default()).collect();
    let world = Arc::new(World::new(plan.clone(), &gates));
    let (network, at_network) = (world.clone(), tokio::spawn);
    let network = at_network(async move { network.run().await });
    set_latches(&world);
    let mut locks = Vec::new();
    for (process, gate) in gates.iter().enumerate() {
        let chance = plan.seed.wrapping_mul(31).wrapping_add(process as u64);
        let env = SimEnv::new(Virtual::seeded(chance), gate.clone());
        let store = Arc::new(SimStore::new(world.clone(), process));
        let builder = Locks::builder().store(store).env(env);
        let builder = builder.watchdog(Duration::from_millis(plan.watchdog));
        match builder.connect().await {
            Ok(connected) => locks.push(Some(connected)),
            Err(error) => {
                world.state().checker.violation(0, format_args!("connect failed: {error}"));
                return (0, world);
            }
        }
    }
    let mut stage = Stage { world: world.clone(), gates, locks };
    let mut workers = Vec::new();
    for (number, worker) in plan.workers.iter().enumerate() {
        if let Some(hand) = stage.worker(number, worker.process) {
            let work = Box::pin(hand.work(worker.steps.clone()));
            let task = Task::new(work, &stage.gates[worker.process]);
            workers.push((number, worker.process, tokio::spawn(task)));
        }
    }
    for planned in &plan.faults {
        sleep_until(world.instant(planned.at)).await;
        stage.strike(planned);
    }
    sleep_until(world.instant(plan.calm_at)).await;
    if plan.is_liveness() {
        world.calm();
    }
    for (number, process, work) in workers {
        let end = world.instant(world.now().max(plan.calm_at) + PATIENCE);
        let gate = stage.gates[process].clone();
        let over = async {
            while !gate.is_dead() && !work.is_finished() {
                sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout_at(end, over).await.is_err() {
            stage.violation(format_args!("w{number} of p{process} does not end"));
        }
    }
    if plan.is_liveness() {
        stage.finale(&plan).await;
    }
    network.abort();
    (world.now(), world)
}

/// The latches are there from the beginning.
fn set_latches(world: &World) {
    let mut state = world.state();
    for lock in world.plan.locks.iter().filter(|lock| lock.kind == Kind::Latch) {
        let init = Admin::Latch(LatchOp::Init(lock.count));
        let init = Request::Admin(lock.name.clone(), init);
        state.server.apply(usize::MAX, &init, false, 0, &mut Published::default());
    }
}

trait Finish {
    fn finish(self, lasted: Millis) -> Run;
}

impl Finish for Arc<World> {
    fn finish(self, lasted: Millis) -> Run {
        let mut state = self.state();
        let violations = std::mem::take(&mut state.checker.violations);
        let granted = state.checker.granted;
        let trace = std::mem::take(&mut state.trace);
        let lasted = Duration::from_millis(lasted);
        Run { violations, trace: trace.into_text(), granted, lasted }
    }
}

impl Stage {
    fn worker(&self, number: usize, process: usize) -> Option<Worker> {
        let locks = self.locks[process].clone()?;
        let owner = locks.owner();
        let (world, gate) = (self.world.clone(), self.gates[process].clone());
        Some(Worker { world, number, process, locks, gate, owner })
    }

    fn violation(&self, text: std::fmt::Arguments<'_>) {
        let now = self.world.now();
        let mut state = self.world.state();
        log!(state, now, "VIOLATION: {text}");
        state.checker.violation(now, text);
    }

    fn strike(&mut self, planned: &FaultPlan) {
        let (world, now) = (&self.world, self.world.now());
        log!(world.state(), now, "fault: {:?}", planned.fault);
        match planned.fault {
            Fault::Cut { process } => world.cut(process),
            Fault::Partition { process, lasts } => world.partition(process, now + lasts),
            Fault::Stall { process, lasts } => {
                let (gate, world) = (self.gates[process].clone(), world.clone());
                gate.stall(now + lasts, lasts);
                tokio::spawn(async move {
                    sleep_until(world.instant(now + lasts)).await;
                    if gate.stalled_until() <= world.now() {
                        gate.resume();
                    }
                });
            }
            Fault::Crash { process } => {
                self.gates[process].kill();
                world.vanish(process);
            }
            Fault::Close { process } => {
                if let Some(locks) = self.locks[process].clone() {
                    let close = Box::pin(async move { locks.close().await });
                    tokio::spawn(Task::new(close, &self.gates[process]));
                }
            }
            Fault::Pause { lasts } => world.pause(now + lasts),
            Fault::Down { lasts } => world.down(now + lasts, |_, _| {}),
            Fault::Failover { lost, lasts } => {
                world.down(now + lasts, |state, now| {
                    let names = state.server.lose_tail(lost, now);
                    log!(state, now, "writes were lost of {names:?}");
                });
                world.new_term();
            }
            Fault::Empty { lasts } => {
                world.down(now + lasts, |state, now| state.server.lose_all(now));
            }
        }
    }

    /// Without faults: everything is free, waiters are served in time and in turn, and nothing is left.
    async fn finale(&mut self, plan: &Plan) {
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
