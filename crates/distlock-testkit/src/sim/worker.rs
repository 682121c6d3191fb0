//! What a program does with the locks: the steps of a plan, one after the other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use distlock::store::Kind;
use distlock::{
    ErrorKind, FencedGuard, Guard, Locks, Member, MultiGuard, MultiLock, Owner, Permits, ReadGuard,
    Result, WriteGuard,
};
use tokio::time::{sleep, timeout};

use super::check::{Asked, Begun, Ended, Ending, Share};
use super::network::{World, log};
use super::plan::{Action, Cancel, End, HoldPlan, Inside, LockPlan, Millis, StepPlan};
use super::process::Gate;

/// The library's command timeout: how long a call may take beyond the caller's wait.
const COMMAND_TIMEOUT: Millis = 3_000;

/// How long other calls may take: a moment for this process's own operations to settle, the command timeout, and the reply to
/// a command that was sent just before its end.
const CALL_TIMEOUT: Millis = COMMAND_TIMEOUT + 2_000;

/// A call that takes so much longer than it may does not end.
const FOR_EVER: Millis = 60_000;

/// How much later than promised a call may end: timers count whole milliseconds, and a reply may be on its way.
const SLACK: Millis = 100;

/// A guard of any kind.
pub(super) enum AnyGuard {
    Plain(Guard),
    Fenced(FencedGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Permits),
    Multi(MultiGuard),
}

impl AnyGuard {
    fn of(&self, member: usize) -> Option<&Guard> {
        match self {
            AnyGuard::Plain(guard) => Some(guard),
            AnyGuard::Fenced(guard) => Some(guard),
            AnyGuard::Read(guard) => Some(guard),
            AnyGuard::Write(guard) => Some(guard),
            AnyGuard::Permits(guard) => Some(guard),
            AnyGuard::Multi(guard) => guard.guards().get(member),
        }
    }

    pub(super) fn is_lost(&self, member: usize) -> Option<bool> {
        self.of(member).map(Guard::is_lost)
    }

    fn members(&self) -> usize {
        match self {
            AnyGuard::Multi(guard) => guard.guards().len(),
            _ => 1,
        }
    }

    fn token(&self) -> Option<u64> {
        match self {
            AnyGuard::Fenced(guard) => Some(guard.token()),
            _ => None,
        }
    }

    async fn extend(&self, lease: Duration) -> Result<()> {
        match self {
            AnyGuard::Multi(guard) => guard.extend(lease).await,
            other => match other.of(0) {
                Some(guard) => guard.extend(lease).await,
                None => Ok(()),
            },
        }
    }

    pub(super) async fn unlock(self) -> Result<()> {
        match self {
            AnyGuard::Plain(guard) => guard.unlock().await,
            AnyGuard::Fenced(guard) => guard.unlock().await,
            AnyGuard::Read(guard) => guard.unlock().await,
            AnyGuard::Write(guard) => guard.unlock().await,
            AnyGuard::Permits(guard) => guard.unlock().await,
            AnyGuard::Multi(guard) => guard.unlock().await,
        }
    }

    fn leak(self) {
        match self {
            AnyGuard::Plain(guard) => drop(guard.leak()),
            AnyGuard::Fenced(guard) => drop(guard.leak()),
            AnyGuard::Read(guard) => drop(guard.leak()),
            AnyGuard::Write(guard) => drop(guard.leak()),
            AnyGuard::Permits(guard) => drop(guard.leak()),
            AnyGuard::Multi(guard) => drop(guard.leak()),
        }
    }
}

/// A worker of a process.
pub(super) struct Worker {
    pub(super) world: Arc<World>,
    pub(super) number: usize,
    pub(super) process: usize,
    pub(super) locks: Locks,
    pub(super) gate: Arc<Gate>,
    pub(super) owner: Owner,
}

/// A guard with the numbers of its holds.
pub(super) struct Holding {
    guard: Arc<AnyGuard>,
    numbers: Vec<u64>,
}

fn millis(n: Millis) -> Duration {
    Duration::from_millis(n)
}

macro_rules! request {
    ($request:expr, $plan:expr, $owner:expr) => {{
        let mut request = $request.wait(millis($plan.wait));
        if let Some(lease) = $plan.lease {
            request = request.lease(millis(lease));
        }
        if let Some(owner) = $owner {
            request = request.owner(owner);
        }
        request
    }};
}

macro_rules! either {
    ($handle:expr, $must:ident, $may:ident, ($($arg:expr)?), $plan:expr, $owner:expr, $guard:ident) => {
        if $plan.tries {
            request!($handle.$may($($arg)?), $plan, $owner).await.map(|got| got.map(AnyGuard::$guard))
        } else {
            request!($handle.$must($($arg)?), $plan, $owner).await.map(|got| Some(AnyGuard::$guard(got)))
        }
    };
}

/// Acquires as the plan says; `None` if it was busy.
pub(super) async fn acquire(
    locks: &Locks,
    lock: &LockPlan,
    plan: &HoldPlan,
    owner: Option<&Owner>,
) -> Result<Option<AnyGuard>> {
    let name = &lock.name;
    match lock.kind {
        Kind::Fenced => either!(locks.fenced(name), lock, try_lock, (), plan, owner, Fenced),
        Kind::Fair => either!(locks.fair(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Spin => either!(locks.spin(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Simple => either!(locks.simple(name), lock, try_lock, (), plan, owner, Plain),
        Kind::Rw if plan.write => either!(locks.rw(name), write, try_write, (), plan, owner, Write),
        Kind::Rw => either!(locks.rw(name), read, try_read, (), plan, owner, Read),
        Kind::Semaphore => {
            let semaphore = locks.semaphore(name).with_permits(lock.count);
            either!(semaphore, acquire, try_acquire, (plan.permits), plan, owner, Permits)
        }
        Kind::LeasedSemaphore => {
            let semaphore = locks.leased_semaphore(name).with_permits(lock.count);
            either!(semaphore, acquire, try_acquire, (plan.permits), plan, owner, Permits)
        }
        _ => either!(locks.mutex(name), lock, try_lock, (), plan, owner, Plain),
    }
}

fn member(locks: &Locks, lock: &LockPlan, write: bool) -> Member {
    match lock.kind {
        Kind::Fenced => locks.fenced(&lock.name).into(),
        Kind::Rw if write => locks.rw(&lock.name).writer(),
        Kind::Rw => locks.rw(&lock.name).reader(),
        Kind::Semaphore => locks.semaphore(&lock.name).with_permits(lock.count).permits(1),
        _ => locks.mutex(&lock.name).into(),
    }
}

/// How one of several locks excludes.
fn share(lock: &LockPlan, write: bool, permits: u32) -> Share {
    match lock.kind {
        Kind::Rw if !write => Share::WithReaders,
        Kind::Semaphore | Kind::LeasedSemaphore => Share::Permits(permits, lock.count),
        _ => Share::Alone,
    }
}

impl Worker {
    pub(super) async fn work(self, steps: Vec<StepPlan>) {
        for step in &steps {
            if step.pause > 0 {
                sleep(millis(step.pause)).await;
            }
            let lock = &self.world.plan.clone().locks[step.lock];
            match &step.action {
                Action::Hold(plan) => self.hold(&[lock], plan, step).await,
                Action::Together(others, plan) => {
                    let locks = &self.world.plan.clone().locks;
                    let together: Vec<&LockPlan> = others.iter().map(|&at| &locks[at]).collect();
                    self.hold(&together, plan, step).await;
                }
                Action::Force => self.force(lock).await,
                Action::CountDown => {
                    let latch = self.locks.latch(&lock.name);
                    self.world.state().checker.count_down(&lock.name);
                    let counted = self.bounded("count_down", CALL_TIMEOUT, latch.count_down());
                    let counted = counted.await;
                    self.say(format_args!("counts {} down: {counted:?}", lock.name));
                    if let Some(Ok(_)) = counted {
                        self.world.state().checker.counted_down(&lock.name);
                    }
                }
                Action::WaitOpen(wait) => {
                    let latch = self.locks.latch(&lock.name);
                    let limit = wait + COMMAND_TIMEOUT;
                    let open = self.bounded("wait_for", limit, latch.wait_for(millis(*wait)));
                    let open = open.await;
                    self.say(format_args!("waited for {}: {open:?}", lock.name));
                    if let Some(Ok(true)) = open {
                        let (now, state) = (self.world.now(), &mut *self.world.state());
                        state.checker.opened(&state.server, &lock.name, lock.count, now);
                    }
                }
            }
            if let Some(panic) = self.gate.take_panic() {
                self.violation(format_args!("a task panicked: {panic}"));
            }
        }
        self.say(format_args!("has done its work"));
    }

    pub(super) fn say(&self, what: std::fmt::Arguments<'_>) {
        let now = self.world.now();
        log!(self.world.state(), now, "w{} of p{} {what}", self.number, self.process);
    }

    fn violation(&self, text: std::fmt::Arguments<'_>) {
        let now = self.world.now();
        let mut state = self.world.state();
        log!(state, now, "VIOLATION: {text}");
        state.checker.violation(now, text);
    }

    /// Awaits a call that must end within `limit`, in which the process runs. `None` if it does not end at all.
    async fn bounded<T>(
        &self,
        what: &str,
        limit: Millis,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let (begun, stalled) = (self.world.now(), self.gate.stalled_for());
        let Ok(done) = timeout(millis(limit + FOR_EVER), work).await else {
            self.violation(format_args!(
                "{what} by w{} of p{} does not end",
                self.number, self.process
            ));
            return None;
        };
        let took = self.world.now() - begun;
        let allowed = limit + SLACK + self.gate.stalled_for() - stalled;
        if took > allowed {
            self.violation(format_args!(
                "{what} by w{} of p{} took {took} ms, more than {allowed} ms",
                self.number, self.process
            ));
        }
        Some(done)
    }

    async fn hold(&self, locks: &[&LockPlan], plan: &HoldPlan, step: &StepPlan) {
        let owner = plan.named.then_some(&self.owner);
        let Some(holding) = self.acquire(locks, plan, owner, plan.cancel).await else { return };
        let mut holding = holding;
        sleep(millis(plan.work / 2)).await;
        match plan.inside {
            Inside::Extend(lease) => {
                let extended = holding.guard.extend(millis(lease));
                let extended = self.bounded("extend", CALL_TIMEOUT, extended).await;
                self.say(format_args!("extends by {lease} ms: {:?}", brief(extended)));
            }
            Inside::Reenter if step.lock < usize::MAX => {
                let inner = HoldPlan { wait: 500, cancel: None, ..plan.clone() };
                if let Some(inner) = self.acquire(locks, &inner, owner, None).await {
                    sleep(millis(plan.work / 4)).await;
                    self.end(inner, End::Unlock).await;
                }
            }
            Inside::Downgrade => match self.downgrade(holding, locks[0]).await {
                Some(reading) => holding = reading,
                None => return,
            },
            _ => {}
        }
        sleep(millis(plan.work - plan.work / 2)).await;
        self.end(holding, plan.end).await;
    }

    async fn acquire(
        &self,
        locks: &[&LockPlan],
        plan: &HoldPlan,
        owner: Option<&Owner>,
        cancel: Option<Cancel>,
    ) -> Option<Holding> {
        let names = locks.iter().map(|lock| lock.name.as_str()).collect::<Vec<_>>().join("+");
        let asked = self.ask(format_args!("asks for {names}"));
        let work: Pin<Box<dyn Future<Output = Result<Option<AnyGuard>>> + Send + '_>> = match locks
        {
            [lock] => Box::pin(acquire(&self.locks, lock, plan, owner)),
            several => {
                let members: Vec<Member> =
                    several.iter().map(|lock| member(&self.locks, lock, plan.write)).collect();
                Box::pin(async move {
                    let multi = MultiLock::new(members);
                    // Permits have no leases.
                    let plan = HoldPlan { lease: None, ..plan.clone() };
                    either!(multi, lock, try_lock, (), plan, owner, Multi)
                })
            }
        };
        let limit = plan.wait + COMMAND_TIMEOUT + self.overrun();
        let got = match cancel {
            Some(Cancel::Polls(most)) => {
                let work = self.bounded("an acquire", limit, polled(work, most));
                work.await.flatten()
            }
            Some(Cancel::After(after)) => {
                let work = timeout(millis(after), self.bounded("an acquire", limit, work));
                work.await.ok().flatten()
            }
            None => self.bounded("an acquire", limit, work).await,
        };
        let Some(got) = got else {
            self.say(format_args!("drops its request for {names}"));
            return None;
        };
        match got {
            Ok(Some(guard)) => Some(self.begin(guard, locks, plan, asked)),
            Ok(None) => {
                self.say(format_args!("finds {names} busy"));
                None
            }
            Err(error) => {
                self.say(format_args!("gets no {names}: {:?}", error.kind()));
                let expected = [
                    ErrorKind::WaitTimeout,
                    ErrorKind::Unavailable,
                    ErrorKind::Indeterminate,
                    ErrorKind::Closed,
                ];
                if !expected.contains(&error.kind()) {
                    self.violation(format_args!("an acquire failed: {error}"));
                }
                None
            }
        }
    }

    /// Known, and to be mended in the engine: an acquire that may make only one attempt, and one of several locks, looks at the time before
    /// it sends its last command and not after, so it ends up to a reply timeout later than docs/guarantees.md promises (promise 9).
    /// `--strict` reports it.
    fn overrun(&self) -> Millis {
        if self.world.plan.strict {
            return 0;
        }
        u64::try_from(self.world.reply_timeout().as_millis()).unwrap_or(u64::MAX)
    }

    fn ask(&self, what: std::fmt::Arguments<'_>) -> Asked {
        self.say(what);
        let now = self.world.now();
        self.world.state().checker.ask(now)
    }

    /// Enters a guard's holds into the ledger.
    pub(super) fn begin(
        &self,
        guard: AnyGuard,
        locks: &[&LockPlan],
        plan: &HoldPlan,
        asked: Asked,
    ) -> Holding {
        let guard = Arc::new(guard);
        let (now, world) = (self.world.now(), &self.world);
        let mut numbers = Vec::new();
        for member in 0..guard.members() {
            let Some(of) = guard.of(member) else { continue };
            let Some(lock) = locks.iter().find(|lock| lock.name == of.name()) else { continue };
            let permits = if locks.len() > 1 { 1 } else { plan.permits };
            let write = !matches!(*guard, AnyGuard::Read(_)) && plan.write;
            let begun = Begun {
                process: self.process,
                name: of.name().into(),
                share: share(lock, write, permits),
                stay: *of.stay(),
                guard: Arc::downgrade(&guard),
                member,
                token: guard.token(),
                asked,
            };
            let state = &mut *world.state();
            let owner = state.trace.owner(self.process, begun.stay).to_owned();
            let (token, lost) = (begun.token, of.is_lost());
            log!(
                state,
                now,
                "w{} of p{} has {} as {owner}, token {token:?}, lost {lost}",
                self.number,
                self.process,
                begun.name
            );
            let before = state.checker.violations.len();
            let number = state.begin(begun, now);
            state.show_violations(before, now);
            numbers.push(number);
        }
        Holding { guard, numbers }
    }

    async fn downgrade(&self, holding: Holding, lock: &LockPlan) -> Option<Holding> {
        if !matches!(*holding.guard, AnyGuard::Write(_)) {
            return Some(holding);
        }
        let Holding { guard, numbers } = holding;
        let Some(AnyGuard::Write(writing)) = Arc::into_inner(guard) else { return None };
        self.over(&numbers);
        let asked = self.ask(format_args!("downgrades {}", lock.name));
        let read = self.bounded("downgrade", CALL_TIMEOUT, writing.downgrade()).await?;
        self.say(format_args!("downgraded {}: {:?}", lock.name, read.as_ref().err()));
        let plan = HoldPlan { write: false, ..HoldPlan::plain(0) };
        Some(self.begin(AnyGuard::Read(read.ok()?), &[lock], &plan, asked))
    }

    /// The holds are judged no more.
    fn over(&self, numbers: &[u64]) -> Vec<Ended> {
        let now = self.world.now();
        let lease = self.world.plan.longest_lease();
        let state = &mut *self.world.state();
        let before = state.checker.violations.len();
        let ended = numbers
            .iter()
            .filter_map(|&number| state.checker.end(&state.server, number, lease, now))
            .collect();
        state.show_violations(before, now);
        ended
    }

    pub(super) async fn end(&self, holding: Holding, end: End) -> Option<Result<()>> {
        let Holding { guard, numbers } = holding;
        self.say(format_args!("ends a hold: {end:?}"));
        let ended = self.over(&numbers);
        // The ledger has only weak references.
        let guard = Arc::try_unwrap(guard).ok()?;
        match end {
            End::Drop => drop(guard),
            End::Leak => guard.leak(),
            End::UnlockDropped => drop(polled(Box::pin(guard.unlock()), 1).await),
            End::Unlock => {
                let unlocked = self.bounded("unlock", CALL_TIMEOUT, guard.unlock()).await;
                self.say(format_args!("unlocked: {:?}", brief(unlocked.clone())));
                let ending = match &unlocked {
                    Some(Ok(())) => Ending::HeldUntilThen,
                    Some(Err(_)) => Ending::Failed,
                    None => Ending::Unknown,
                };
                let (now, mut state) = (self.world.now(), self.world.state());
                ended.iter().for_each(|ended| state.checker.ended(ended, ending, now));
                return unlocked;
            }
        }
        None
    }

    async fn force(&self, lock: &LockPlan) {
        let (name, locks) = (&lock.name, &self.locks);
        let force = async {
            match lock.kind {
                Kind::Fenced => locks.fenced(name).force_unlock().await,
                Kind::Fair => locks.fair(name).force_unlock().await,
                Kind::Spin => locks.spin(name).force_unlock().await,
                Kind::Simple => locks.simple(name).force_unlock().await,
                Kind::Rw => locks.rw(name).force_unlock_write().await,
                _ => locks.mutex(name).force_unlock().await,
            }
        };
        let forced = self.bounded("force_unlock", CALL_TIMEOUT, force).await;
        self.say(format_args!("forces {name}: {forced:?}"));
    }
}

impl HoldPlan {
    /// A single lock, taken once and unlocked.
    pub(super) fn plain(wait: Millis) -> HoldPlan {
        HoldPlan {
            tries: false,
            wait,
            lease: None,
            named: false,
            write: true,
            permits: 1,
            cancel: None,
            work: 0,
            inside: Inside::Nothing,
            end: End::Unlock,
        }
    }
}

fn brief(result: Option<Result<()>>) -> Option<Result<(), ErrorKind>> {
    result.map(|result| result.map_err(|error| error.kind()))
}

/// Polls at most so often, then drops it: `None`.
async fn polled<T>(mut work: Pin<Box<dyn Future<Output = T> + Send + '_>>, most: u32) -> Option<T> {
    let mut left = most;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
