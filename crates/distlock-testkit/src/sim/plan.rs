//! One seed makes a whole plan: processes, locks, what the workers do, and every fault.

use std::fmt;
use std::ops::Range;

use distlock::store::Kind;

/// Virtual milliseconds since the run began, or a number of them.
pub(super) type Millis = u64;

/// The longest lease that a worker asks for.
pub(super) const LONGEST_LEASE: Millis = 4_000;

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
    /// Whether faults end.
    pub(super) fn is_liveness(&self) -> bool {
        self.mode == Mode::Liveness
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
