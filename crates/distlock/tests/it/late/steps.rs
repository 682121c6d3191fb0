//! Each step of each kind arrives late, after whoever comes next.

use std::pin::Pin;
use std::time::Duration;

use distlock::{Owner, State};
use distlock_testkit::proxy::{Delivered, Request};
use distlock_testkit::suites::eventually;

use crate::late::kinds::{Ask, Hold, Kind};
use crate::late::poll_once;
use crate::late::stage::{BRIEF, IMPATIENT, LEASE, SOON, Stage, Store, User, each};

/// A step that arrives late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An acquisition whose caller was cancelled; it arrives when nobody holds the lock.
    AcquireCancelled,
    /// The same; it arrives when somebody holds the lock.
    AcquireCancelledThenHeld,
    /// An acquisition that was sent again and won.
    AcquireWon,
    /// The same; it arrives when nobody holds the lock any more.
    AcquireWonThenFree,
    ReEnter,
    PassOn,
    Release,
    Renew,
    Extend,
    Forget,
}

/// What is there when the step arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The hold that the step was about.
    TheSameHold,
    /// The next hold of the same owner.
    TheSameOwner,
    /// A hold of another owner of the same process.
    AFreshOwner,
    /// A hold of another process.
    AnotherProcess,
}

use After::{AFreshOwner, AnotherProcess, TheSameHold, TheSameOwner};

impl Step {
    fn afters(self) -> &'static [After] {
        match self {
            Step::AcquireWon | Step::ReEnter | Step::Renew | Step::Extend => {
                &[TheSameHold, TheSameOwner, AFreshOwner, AnotherProcess]
            }
            _ => &[TheSameOwner, AFreshOwner, AnotherProcess],
        }
    }

    /// A renewal must come, and be lost, while there is time for another.
    fn watchdog(self) -> Duration {
        if self == Step::Renew { Duration::from_secs(3) } else { IMPATIENT }
    }
}

/// Has `step` of `kind` arrive late after each that can come after it.
pub(crate) async fn arrives_late(kind: Kind, step: Step, user: User) {
    let store = Store::start(kind.servers()).await;
    each(step.afters().iter().copied(), |after| {
        let store = store.clone();
        async move {
            let name = format!("{after:?}").to_lowercase();
            let stage = Stage::set(&store, user, kind, &name, step.watchdog()).await;
            Scene { me: stage.here.owner(), stage, after }.play(step).await;
        }
    })
    .await;
}

struct Scene {
    stage: Stage,
    after: After,
    me: Owner,
}

impl Scene {
    async fn play(&self, step: Step) {
        match step {
            Step::AcquireCancelled => self.acquire_cancelled().await,
            Step::AcquireCancelledThenHeld => self.acquire_cancelled_then_held().await,
            Step::AcquireWon => self.acquire_won().await,
            Step::AcquireWonThenFree => self.acquire_won_then_free().await,
            Step::ReEnter => self.re_enter().await,
            Step::PassOn => self.pass_on().await,
            Step::Release => self.release().await,
            Step::Renew => self.renew().await,
            Step::Extend => self.extend().await,
            Step::Forget => self.forget().await,
        }
    }

    async fn acquire_cancelled(&self) {
        let stage = &self.stage;
        let mut late = stage.hold_back(|_| true);
        self.cancel(&late, self.may_stay()).await;
        let delivered = late.deliver().await;
        if stage.user == User::MayKill {
            let refused = delivered.iter().all(|one| *one == Delivered::Refused);
            assert!(refused, "it ran on a connection that was given up: {delivered:?}");
        }
        self.assert_soon_free().await;
    }

    async fn acquire_cancelled_then_held(&self) {
        let stage = &self.stage;
        let mut late = stage.hold_back(|_| true);
        self.cancel(&late, Some(BRIEF)).await;
        let next = self.next().await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    async fn acquire_won(&self) {
        let stage = &self.stage;
        let mut late = stage.hold_back(|_| true);
        let won = stage.lock(&stage.here, self.mine(Some(2 * BRIEF))).await;
        late.fired().await;
        let next = self.instead_of(won).await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    async fn acquire_won_then_free(&self) {
        let stage = &self.stage;
        let mut late = stage.hold_back(|_| true);
        let won = stage.lock(&stage.here, self.mine(self.may_stay())).await;
        late.fired().await;
        won.unlock().await.expect("a release");
        late.deliver().await;
        self.assert_soon_free().await;
    }

    async fn re_enter(&self) {
        let stage = &self.stage;
        let outer = stage.lock(&stage.here, self.mine(Some(LEASE / 2))).await;
        let mut late = stage.hold_back(|_| true);
        let inner = stage.lock(&stage.here, self.mine(Some(BRIEF))).await;
        late.fired().await;
        inner.unlock().await.expect("a release");
        let next = self.instead_of(outer).await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    /// The hold passes from one waiter of the process to the next, which the store is told in the background.
    async fn pass_on(&self) {
        let stage = &self.stage;
        // It passes only soon after the acquisition; on a busy machine it may take some tries.
        for _ in 0..200 {
            let first = stage.lock(&stage.here, self.mine(None)).await;
            let before = stage.store.servers()[0].cli(&["DUMP", &stage.name]).await;
            let mut late = stage.hold_back(names_two_owners);
            let ask = Ask { owner: None, lease: None, wait: Some(SOON) };
            let mut waiting = stage.here.ask(stage.kind, &stage.name, ask);
            assert!(poll_once(Pin::new(&mut waiting)).await.is_none(), "the lock is held");
            first.unlock().await.expect("a release");
            let second = waiting.await.expect("an answer").expect("the lock");
            eventually("the store knows the heir", || async {
                stage.store.servers()[0].cli(&["DUMP", &stage.name]).await != before
            })
            .await;
            second.unlock().await.expect("a release");
            if late.hits() == 1 {
                let next = self.next().await;
                let before = stage.left().await;
                late.deliver().await;
                stage.assert_unharmed(&*next, before).await;
                return self.end(next).await;
            }
            for proxy in &stage.proxies {
                proxy.heal().await;
            }
        }
        panic!("the lock was never passed on");
    }

    async fn release(&self) {
        let stage = &self.stage;
        let first = stage.lock(&stage.here, self.mine(Some(LEASE))).await;
        let mut late = stage.hold_back(|_| true);
        first.unlock().await.expect("it is sent again");
        late.fired().await;
        let next = self.next().await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    async fn renew(&self) {
        let stage = &self.stage;
        let first = stage.lock(&stage.here, self.mine(None)).await;
        let mut late = stage.hold_back(|_| true);
        late.fired().await;
        let again = stage.proxies[0].watch(stage.steps());
        again.fired(1).await;
        eventually("it is renewed", || async { first.state() == State::Held }).await;
        let next = self.instead_of(first).await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    async fn extend(&self) {
        let stage = &self.stage;
        let first = stage.lock(&stage.here, self.mine(Some(5 * BRIEF))).await;
        let mut late = stage.hold_back(|_| true);
        first.extend(10 * BRIEF).await.expect("it is sent again");
        late.fired().await;
        let next = self.instead_of(first).await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    /// What makes the store forget an acquisition that happened although its caller has gone.
    async fn forget(&self) {
        let stage = &self.stage;
        let steps = stage.steps();
        let lost: Vec<_> =
            stage.proxies.iter().map(|proxy| proxy.swallow_replies_to(steps.clone(), 1)).collect();
        let ask = self.mine(Some(LEASE));
        let caller = tokio::spawn(stage.here.ask(stage.kind, &stage.name, ask));
        for rule in lost {
            rule.fired(1).await;
        }
        caller.abort();
        drop(caller.await);
        let mut late = stage.hold_back(|step| !names_the_lease(step));
        late.fired().await;
        eventually("it is sent again", || stage.is_free()).await;
        let next = self.next().await;
        let before = stage.left().await;
        late.deliver().await;
        stage.assert_unharmed(&*next, before).await;
        self.end(next).await;
    }

    /// Acquires, and leaves when that is held back. Returns when the store was told to forget it.
    async fn cancel(&self, late: &crate::late::stage::Lates, lease: Option<Duration>) {
        let stage = &self.stage;
        let steps = stage.steps();
        let seen: Vec<_> = stage.proxies.iter().map(|proxy| proxy.watch(steps.clone())).collect();
        let ask = Ask { wait: Some(BRIEF), ..self.mine(lease) };
        let caller = tokio::spawn(stage.here.ask(stage.kind, &stage.name, ask));
        late.fired().await;
        caller.abort();
        drop(caller.await);
        for watch in seen {
            watch.fired(2).await;
        }
        eventually("it is forgotten", || stage.is_free()).await;
    }

    /// How long an acquisition may stay that arrives when the lock is free.
    fn may_stay(&self) -> Option<Duration> {
        Some(if self.stage.user == User::MayNotKill { BRIEF } else { LEASE })
    }

    fn mine(&self, lease: Option<Duration>) -> Ask {
        Ask { owner: Some(self.me), lease, wait: Some(SOON) }
    }

    /// Whoever comes next has the lock, and gets it no later than documented.
    async fn assert_soon_free(&self) {
        let stage = &self.stage;
        let bounded = stage.user == User::MayNotKill && stage.kind.has_lease();
        if !bounded {
            // Soon: the attempt of a caller that left is repeated once its connection broke, and may win for a moment until
            // the library releases it. What ran late would stay for a whole lease.
            eventually("it is free: no process holds it", || stage.is_free()).await;
        }
        let next = self.next().await;
        self.end(next).await;
    }

    /// The next hold.
    async fn next(&self) -> Box<dyn Hold> {
        let stage = &self.stage;
        let process = if self.after == AnotherProcess { &stage.other } else { &stage.here };
        let owner = (self.after == TheSameOwner).then_some(self.me);
        stage.lock(process, Ask { owner, lease: Some(LEASE), wait: Some(SOON) }).await
    }

    /// The hold that is there when a step about `first` arrives.
    async fn instead_of(&self, first: Box<dyn Hold>) -> Box<dyn Hold> {
        if self.after == TheSameHold {
            if self.stage.kind.has_lease() {
                first.extend(LEASE).await.expect("an extension");
            }
            return first;
        }
        first.unlock().await.expect("a release");
        self.next().await
    }

    /// The hold ends as holds do, and leaves nothing behind.
    async fn end(&self, hold: Box<dyn Hold>) {
        hold.unlock().await.expect("a release");
        self.stage.assert_clean().await;
    }
}

/// Whether a step is about two owners, which only passing on is.
fn names_two_owners(step: &Request) -> bool {
    let is_owner =
        |arg: &&Vec<u8>| std::str::from_utf8(arg).is_ok_and(|text| text.parse::<Owner>().is_ok());
    step.args().iter().filter(is_owner).count() >= 2
}

/// Whether a step says how long a hold lasts: an acquisition that is tried once more does, forgetting it does not.
fn names_the_lease(step: &Request) -> bool {
    let lease = LEASE.as_millis().to_string();
    step.args().iter().any(|arg| arg == lease.as_bytes())
}
