//! Runs a seed.

use std::sync::Arc;
use std::time::Duration;

use distlock::Locks;
use distlock::env::Virtual;
use distlock::store::{Admin, Kind, LatchOp};
use tokio::runtime::Builder;
use tokio::time::{sleep, sleep_until};

use super::link::SimStore;
use super::message::Request;
use super::network::{World, log};
use super::plan::{Fault, FaultPlan, Millis, Plan};
use super::process::{Gate, SimEnv, Task};
use super::server::Published;
use super::worker::Worker;

/// How long the workers may take altogether, once the faults are over.
const PATIENCE: Millis = 300_000;

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
    let (lasted, world) = runtime.block_on(play(Arc::new(plan)));
    // Tasks of dead processes are dropped here.
    drop(runtime);
    finish(&world, lasted)
}

/// The parts of a simulation.
pub(super) struct Stage {
    pub(super) world: Arc<World>,
    pub(super) gates: Vec<Arc<Gate>>,
    pub(super) locks: Vec<Option<Locks>>,
}

async fn play(plan: Arc<Plan>) -> (Millis, Arc<World>) {
    let gates: Vec<Arc<Gate>> = (0..plan.processes).map(|_| Arc::default()).collect();
    let world = Arc::new(World::new(plan.clone(), &gates));
    let carrying = world.clone();
    let network = tokio::spawn(async move { carrying.run().await });
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

fn finish(world: &World, lasted: Millis) -> Run {
    let mut state = world.state();
    let violations = std::mem::take(&mut state.checker.violations);
    let trace = std::mem::take(&mut state.trace).into_text();
    let granted = state.checker.granted;
    Run { violations, trace, granted, lasted: Duration::from_millis(lasted) }
}

impl Stage {
    pub(super) fn worker(&self, number: usize, process: usize) -> Option<Worker> {
        let locks = self.locks[process].clone()?;
        let owner = locks.owner();
        let (world, gate) = (self.world.clone(), self.gates[process].clone());
        Some(Worker { world, number, process, locks, gate, owner })
    }

    pub(super) fn violation(&self, text: std::fmt::Arguments<'_>) {
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
}
