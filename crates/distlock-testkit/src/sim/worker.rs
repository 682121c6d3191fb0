//! What a program does with the locks: the steps of a plan, one after the other.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use distlock::store::Kind;
use distlock::{ErrorKind, Locks, Member, Owner, Result};
use tokio::time::{sleep, timeout};

use super::check::{Asked, Begun, Ended, Ending};
use super::guards::{AnyGuard, acquire, acquire_all, member, millis, share};
use super::network::{World, log};
use super::plan::{Action, Cancel, End, HoldPlan, Inside, LockPlan, Millis, StepPlan};
use super::process::Gate;

/// The library's command timeout: how long a call may take beyond the caller's wait.
const COMMAND_TIMEOUT: Millis = 3_000;

/// How long a call waits for this process's own operations on the lock.
const SETTLE_TIMEOUT: Millis = 1_000;

/// How long other calls may take: until this process's own operations have settled, the command timeout, and the reply to a command
/// that was sent just before its end.
const CALL_TIMEOUT: Millis = SETTLE_TIMEOUT + COMMAND_TIMEOUT + 1_000;

/// A call that takes so much longer than it may does not end.
const FOR_EVER: Millis = 60_000;

/// How much later than promised a call may end: timers count whole milliseconds, and a reply may be on its way.
const SLACK: Millis = 100;

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
                Box::pin(acquire_all(members, plan.clone(), owner))
            }
        };
        let limit = plan.wait + COMMAND_TIMEOUT + self.overrun(locks.len());
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

    /// Known, and to be mended in the engine: an acquire that makes a single attempt looks at the time before it sends its last command
    /// and not after, then waits for this process's own operations and asks who holds the lock; and one of several locks has the
    /// command timeout for each part. So they end later than docs/guarantees.md promises (promise 9). `--strict` reports it.
    fn overrun(&self, locks: usize) -> Millis {
        let reply = u64::try_from(self.world.reply_timeout().as_millis()).unwrap_or(u64::MAX);
        let single = SETTLE_TIMEOUT + 2 * reply;
        match (self.world.plan.strict, locks) {
            (true, _) => 0,
            (false, 1) => single,
            (false, _) => single + 2 * COMMAND_TIMEOUT,
        }
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
