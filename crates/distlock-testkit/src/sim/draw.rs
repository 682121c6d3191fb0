//! Draws a plan from a seed.

use distlock::store::Kind;
use fastrand::Rng;

use super::plan::{
    Action, Cancel, Delays, End, Fault, FaultPlan, HoldPlan, Inside, LONGEST_LEASE, LockPlan,
    Millis, Mode, Plan, StepPlan, WorkerPlan,
};

impl Plan {
    /// Makes the plan of a seed.
    pub fn new(seed: u64, mode: Mode) -> Plan {
        let mut rng = Rng::with_seed(seed ^ 0x5eed_0000_0000_0000);
        let rng = &mut rng;
        let processes = rng.usize(2..=5);
        let watchdog = pick(rng, &[600, 1_500, 3_000, 9_000]);
        let length = rng.u64(8_000..25_000);
        // `close` goes through the lanes in the order of a hash map whose seed is not ours: with one name that is one order.
        let closes = chance(rng, 12);
        let names = if closes { 1 } else { rng.usize(1..=3) };
        let mut locks: Vec<LockPlan> = (0..names).map(|n| lock(rng, n)).collect();
        if chance(rng, 20) {
            // Kinds that exclude each other under one name.
            let one = |kind| matches!(kind, Kind::Mutex | Kind::Fenced | Kind::Fair | Kind::Spin);
            let same = locks.iter_mut().filter(|lock| one(lock.kind));
            same.for_each(|lock| lock.name = "shared".into());
        }
        let workers = (0..processes)
            .flat_map(|process| std::iter::repeat_n(process, rng.clone().usize(1..=3)))
            .collect::<Vec<_>>()
            .into_iter()
            .map(|process| worker(rng, process, &locks, watchdog))
            .collect();
        // Without it a late acquire may take permits that have no lease (docs/guarantees.md, promise 7), or a place in the queue of a
        // fair lock (ARCHITECTURE.md, "Steps that arrive late").
        let stays = |kind| match kind {
            Kind::Semaphore => true,
            Kind::Fair => mode == Mode::Liveness,
            _ => false,
        };
        let needs_ending = locks.iter().any(|lock| stays(lock.kind));
        let mut faults = faults(rng, processes, length, closes, mode, &locks);
        faults.sort_by_key(|fault| fault.at);
        Plan {
            seed,
            mode,
            bug: None,
            strict: false,
            processes,
            watchdog,
            ends_connections: rng.bool() || needs_ending,
            takes_together: rng.bool(),
            clock_rate: rng.i64(-5_000..=5_000),
            delays: delays(rng),
            locks,
            workers,
            faults,
            calm_at: length,
        }
    }
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.usize(..of.len())]
}

fn chance(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(..100) < percent
}

fn delays(rng: &mut Rng) -> Delays {
    let usual = rng.u64(1..4);
    let calm = chance(rng, 25);
    let mut of = |most: u64| if calm || chance(rng, 50) { 0 } else { rng.u64(..most) };
    Delays {
        long_chance: of(150),
        lost: of(25),
        late: of(40),
        reply_lost: of(25),
        duplicate: of(60),
        cut: of(10),
        usual: usual..usual + rng.u64(1..6),
        long: 10..rng.u64(20..600),
    }
}

fn lock(rng: &mut Rng, number: usize) -> LockPlan {
    let kind = pick(
        rng,
        &[
            Kind::Mutex,
            Kind::Mutex,
            Kind::Mutex,
            Kind::Fenced,
            Kind::Fair,
            Kind::Fair,
            Kind::Rw,
            Kind::Rw,
            Kind::Spin,
            Kind::Simple,
            Kind::Semaphore,
            Kind::LeasedSemaphore,
            Kind::Latch,
        ],
    );
    LockPlan { name: format!("{kind}{number}"), kind, count: rng.u32(1..=3) }
}

fn worker(rng: &mut Rng, process: usize, locks: &[LockPlan], watchdog: Millis) -> WorkerPlan {
    let steps = (0..rng.usize(2..=6))
        .map(|_| {
            let lock = rng.usize(..locks.len());
            let pause = if chance(rng, 40) { 0 } else { rng.u64(..1_500) };
            StepPlan { pause, lock, action: action(rng, lock, locks, watchdog) }
        })
        .collect();
    WorkerPlan { process, steps }
}

fn action(rng: &mut Rng, lock: usize, locks: &[LockPlan], watchdog: Millis) -> Action {
    let joins = |kind| matches!(kind, Kind::Mutex | Kind::Fenced | Kind::Rw | Kind::Semaphore);
    match locks[lock].kind {
        Kind::Latch if chance(rng, 60) => Action::CountDown,
        Kind::Latch => Action::WaitOpen(rng.u64(1..6_000)),
        kind if chance(rng, 3) && kind != Kind::Semaphore && kind != Kind::LeasedSemaphore => {
            Action::Force
        }
        kind => {
            let mut plan = hold(rng, &locks[lock], watchdog);
            let mut others: Vec<usize> =
                (0..locks.len()).filter(|&other| joins(locks[other].kind)).collect();
            others.dedup_by_key(|&mut other| &locks[other].name);
            let forever = others.iter().any(|&other| locks[other].kind == Kind::Semaphore);
            if forever && matches!(plan.end, End::Leak) {
                plan.end = End::Drop; // permits without a lease would be gone for good
            }
            match joins(kind) && others.len() > 1 && chance(rng, 25) {
                true => Action::Together(others, plan),
                false => Action::Hold(plan),
            }
        }
    }
}

fn hold(rng: &mut Rng, lock: &LockPlan, watchdog: Millis) -> HoldPlan {
    let leased = lock.kind != Kind::Semaphore && chance(rng, 35);
    let lease = leased.then(|| rng.u64(50..3_000));
    let named = chance(rng, 25) && !matches!(lock.kind, Kind::Semaphore | Kind::LeasedSemaphore);
    let most = if chance(rng, 20) { watchdog * 2 } else { 300 };
    HoldPlan {
        tries: chance(rng, 30),
        wait: if chance(rng, 15) { 0 } else { rng.u64(1..8_000) },
        lease,
        named,
        write: chance(rng, 45),
        permits: rng.u32(1..=lock.count),
        cancel: match rng.u32(..100) {
            0..10 => Some(Cancel::After(rng.u64(..30))),
            10..17 => Some(Cancel::After(rng.u64(..3_000))),
            17..25 => Some(Cancel::Polls(rng.u32(1..6))),
            _ => None,
        },
        work: if chance(rng, 25) { rng.u64(..5) } else { rng.u64(..most) },
        inside: match rng.u32(..100) {
            0..10 => Inside::Extend(rng.u64(50..LONGEST_LEASE)),
            10..25 if named => Inside::Reenter,
            25..45 => Inside::Downgrade,
            _ => Inside::Nothing,
        },
        end: match rng.u32(..100) {
            0..55 => End::Unlock,
            55..63 => End::UnlockDropped,
            63..97 => End::Drop,
            _ if lock.kind == Kind::Semaphore => End::Drop,
            _ => End::Leak,
        },
    }
}

fn faults(
    rng: &mut Rng,
    processes: usize,
    length: Millis,
    closes: bool,
    mode: Mode,
    locks: &[LockPlan],
) -> Vec<FaultPlan> {
    // Permits of a plain semaphore and the count of a latch have no lease: what is lost or crashes there stays, as documented.
    let keeps = mode == Mode::Liveness
        && locks.iter().any(|lock| matches!(lock.kind, Kind::Semaphore | Kind::Latch));
    let number = if chance(rng, 20) { 0 } else { rng.usize(..6) };
    (0..number)
        .map(|_| {
            let process = rng.usize(..processes);
            let lasts = if chance(rng, 60) { rng.u64(10..1_500) } else { rng.u64(500..6_000) };
            let fault = match rng.u32(..100) {
                0..18 => Fault::Cut { process },
                18..40 => Fault::Partition { process, lasts },
                40..55 => Fault::Stall { process, lasts },
                55..65 if closes => Fault::Close { process },
                55..62 if !keeps => Fault::Crash { process },
                55..65 => Fault::Cut { process },
                65..75 => Fault::Pause { lasts },
                75..85 => Fault::Down { lasts },
                85..96 if !keeps => Fault::Failover { lost: rng.usize(..8), lasts },
                _ if !keeps => Fault::Empty { lasts },
                _ => Fault::Cut { process },
            };
            FaultPlan { at: rng.u64(..length.saturating_sub(7_000).max(2_000)), fault }
        })
        .collect()
}
