//! One seed makes a whole plan: processes, locks, what the workers do, and every fault.

use std::fmt;
use std::ops::Range;

use distlock::store::Kind;
use fastrand::Rng;

/// Virtual milliseconds since the run began, or a number of them.
pub(super) type Millis = u64;

/// The longest lease that a worker asks for.
const LONGEST_LEASE: Millis = 4_000;

/// What a run judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Faults until the end; judges what must never happen.
    Safety,
    /// Faults end at one moment; judges what must happen after it.
    Liveness,
}

impl Mode {
    /// The word for it on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Safety => "safety",
            Mode::Liveness => "liveness",
        }
    }
}

/// A mistake in the simulated server, which the checks must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A release frees the lock whatever its owner.
    ReleaseWithoutOwner,
    /// A renewal sets a quarter of the lease, also where that is less than what is left.
    RenewShortens,
    /// A renewal is confirmed although the hold is gone.
    RenewWithoutOwner,
    /// A lock is free to other owners for the last third of its lease.
    GrantEarly,
    /// A busy lock is now and then granted all the same.
    GrantWhileBusy,
    /// A writer does not see readers.
    WriterIgnoresReaders,
    /// A request that arrives twice counts twice.
    CountDuplicates,
    /// A fencing token is now and then lower than the last one.
    TokenFalls,
    /// No release is published.
    NoWakeUps,
    /// An owner that gives up keeps what it has.
    GiveUpKeeps,
    /// A fair lock ignores its queue.
    FairIgnoresQueue,
}

impl Bug {
    /// Every bug.
    pub const ALL: [Bug; 11] = [
        Bug::ReleaseWithoutOwner,
        Bug::RenewShortens,
        Bug::RenewWithoutOwner,
        Bug::GrantEarly,
        Bug::GrantWhileBusy,
        Bug::WriterIgnoresReaders,
        Bug::CountDuplicates,
        Bug::TokenFalls,
        Bug::NoWakeUps,
        Bug::GiveUpKeeps,
        Bug::FairIgnoresQueue,
    ];
}

/// Everything that a run does, made from its seed.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) seed: u64,
    pub(super) mode: Mode,
    pub(super) bug: Option<Bug>,
    /// Whether what is known to be wrong is reported as well.
    pub(super) strict: bool,
    pub(super) processes: usize,
    pub(super) watchdog: Millis,
    /// Whether a connection that was given up is ended at the server before another request goes there (`CLIENT KILL`).
    pub(super) ends_connections: bool,
    /// Whether the server takes several locks in one operation.
    pub(super) takes_together: bool,
    /// How much faster the server's clock runs, in millionths.
    pub(super) clock_rate: i64,
    pub(super) delays: Delays,
    pub(super) locks: Vec<LockPlan>,
    pub(super) workers: Vec<WorkerPlan>,
    pub(super) faults: Vec<FaultPlan>,
    /// When the faults of a liveness run end.
    pub(super) calm_at: Millis,
}

/// What happens to single messages.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    pub(super) usual: Range<Millis>,
    pub(super) long: Range<Millis>,
    /// The chances of each, in thousandths of the messages.
    pub(super) long_chance: u64,
    pub(super) lost: u64,
    pub(super) late: u64,
    pub(super) reply_lost: u64,
    pub(super) duplicate: u64,
    pub(super) cut: u64,
}

#[derive(Clone, Debug)]
pub(super) struct LockPlan {
    pub(super) name: String,
    pub(super) kind: Kind,
    /// Permits, or the count of a latch.
    pub(super) count: u32,
}

#[derive(Clone, Debug)]
pub(super) struct WorkerPlan {
    pub(super) process: usize,
    pub(super) steps: Vec<StepPlan>,
}

#[derive(Clone, Debug)]
pub(super) struct StepPlan {
    pub(super) pause: Millis,
    pub(super) lock: usize,
    pub(super) action: Action,
}

#[derive(Clone, Debug)]
pub(super) enum Action {
    Hold(HoldPlan),
    /// Several locks, all or none.
    Together(Vec<usize>, HoldPlan),
    Force,
    CountDown,
    WaitOpen(Millis),
}

/// One acquisition and what is done with it.
#[derive(Clone, Debug)]
pub(super) struct HoldPlan {
    /// `try_lock` instead of `lock`.
    pub(super) tries: bool,
    pub(super) wait: Millis,
    pub(super) lease: Option<Millis>,
    /// As an owner that this worker uses for all its acquisitions.
    pub(super) named: bool,
    pub(super) write: bool,
    pub(super) permits: u32,
    pub(super) cancel: Option<Cancel>,
    pub(super) work: Millis,
    pub(super) inside: Inside,
    pub(super) end: End,
}

/// When the future of an acquire is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cancel {
    After(Millis),
    Polls(u32),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Inside {
    Nothing,
    Extend(Millis),
    Reenter,
    Downgrade,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Unlock,
    /// The future of the unlock is dropped after its first poll.
    UnlockDropped,
    Drop,
    Leak,
}

#[derive(Clone, Debug)]
pub(super) struct FaultPlan {
    pub(super) at: Millis,
    pub(super) fault: Fault,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Every connection of the process breaks.
    Cut {
        process: usize,
    },
    /// Nothing passes between the process and the server for so long; what was sent is delivered late.
    Partition {
        process: usize,
        lasts: Millis,
    },
    /// The tasks of the process do not run.
    Stall {
        process: usize,
        lasts: Millis,
    },
    Crash {
        process: usize,
    },
    Close {
        process: usize,
    },
    /// The server reads nothing.
    Pause {
        lasts: Millis,
    },
    /// The server is away and comes back with its data.
    Down {
        lasts: Millis,
    },
    /// Another server takes over, without the last writes.
    Failover {
        lost: usize,
        lasts: Millis,
    },
    /// The server is away and comes back without data.
    Empty {
        lasts: Millis,
    },
}

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
        // Without it a late acquire may take permits that have no lease: docs/guarantees.md, promise 7.
        let forever = locks.iter().any(|lock| lock.kind == Kind::Semaphore);
        let mut faults = faults(rng, processes, length, closes, mode, &locks);
        faults.sort_by_key(|fault| fault.at);
        Plan {
            seed,
            mode,
            bug: None,
            strict: false,
            processes,
            watchdog,
            ends_connections: rng.bool() || forever,
            takes_together: rng.bool(),
            clock_rate: rng.i64(-5_000..=5_000),
            delays: delays(rng),
            locks,
            workers,
            faults,
            calm_at: length,
        }
    }

    /// The longest that a hold lasts without being renewed.
    pub(super) fn longest_lease(&self) -> Millis {
        self.watchdog.max(LONGEST_LEASE)
    }

    /// The same, reporting what is known to be wrong as well.
    #[must_use]
    pub fn strict(mut self) -> Plan {
        self.strict = true;
        self
    }

    /// The same with a mistake in the server.
    #[must_use]
    pub fn with_bug(mut self, bug: Bug) -> Plan {
        self.bug = Some(bug);
        self
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

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, mode) = (self.seed, self.mode.as_str());
        writeln!(f, "seed {seed}, {mode}: {} processes", self.processes)?;
        if let Some(bug) = self.bug {
            writeln!(f, "  planted bug: {bug:?}")?;
        }
        let Plan { watchdog, ends_connections, takes_together, clock_rate, .. } = self;
        writeln!(
            f,
            "  watchdog {watchdog} ms, server clock {clock_rate:+} ppm, ends connections: \
             {ends_connections}, takes together: {takes_together}, calm at {} ms",
            self.calm_at
        )?;
        writeln!(f, "  {:?}", self.delays)?;
        for lock in &self.locks {
            writeln!(f, "  lock {:?}: {}, {}", lock.name, lock.kind, lock.count)?;
        }
        for (number, worker) in self.workers.iter().enumerate() {
            writeln!(f, "  worker w{number} in p{}", worker.process)?;
            for step in &worker.steps {
                let name = &self.locks[step.lock].name;
                writeln!(f, "    after {} ms: {name} {:?}", step.pause, step.action)?;
            }
        }
        for FaultPlan { at, fault } in &self.faults {
            writeln!(f, "  at {at} ms: {fault:?}")?;
        }
        Ok(())
    }
}
