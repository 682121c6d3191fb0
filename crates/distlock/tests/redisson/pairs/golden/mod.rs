//! The data of both sides, compared: each step is done once by Redisson and once by this library, under two names, and must
//! leave the same keys with the same types, fields, values and times to live, and the same subscriptions.
//!
//! What may differ is said at the step, with its reason; a difference that is said and is not there is an error, too.

mod counts;
mod dump;
mod locks;

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Locks, Owner};
use distlock_testkit::peer::{Thread, Version};
use distlock_testkit::{Pair, Peer};

use crate::pairs::ms;
use dump::{Dump, Side};

/// Leases that are told apart by any clock: times within [`dump::SLACK`] of each other are the same.
const LEASE: Duration = Duration::from_secs(1000);
const LONGER: Duration = Duration::from_secs(2000);

/// How long what is on its way may take: Redisson removes its notes later, and both unsubscribe in the background.
const SETTLE: Duration = Duration::from_secs(20);

/// What may differ in a step.
#[derive(Clone, Copy)]
enum Known {
    /// The time to live of this key.
    Life(&'static str, #[expect(dead_code, reason = "for those who read it")] &'static str),
    /// The times in this key.
    Times(&'static str, #[expect(dead_code, reason = "for those who read it")] &'static str),
    /// A key that Redisson leaves and we do not.
    Left(&'static str, #[expect(dead_code, reason = "for those who read it")] &'static str),
}

/// Two names, and three owners for each: one side's and the other's.
struct Twins {
    kind: &'static str,
    pair: Pair,
    java: [Thread; 3],
    rust: [Locks; 3],
    owners: [Owner; 3],
    theirs: Side,
    ours: Side,
    wrong: Vec<String>,
}

/// Every kind, every step.
pub(super) async fn every_step_leaves_the_same(pair: Pair) {
    // With Redisson's defaults, which are ours: the watchdogs' timeouts are compared as well.
    let peer =
        Peer::start(pair.version(), pair.server()).await.expect("the other one was installed");
    let peer = Arc::new(peer);
    let mut wrong = Vec::new();
    macro_rules! compare {
        ($($steps:path: $kind:literal),* $(,)?) => {
            $({
                let mut twins = Twins::new(&pair, &peer, $kind).await;
                $steps(&mut twins).await;
                wrong.append(&mut twins.wrong);
                twins.clear().await;
            })*
        };
    }
    compare! {
        locks::mutex: "mutex",
        locks::spin: "spin",
        locks::fenced: "fenced",
        locks::fair: "fair",
        locks::line: "fair line",
        locks::rw: "rw",
        counts::semaphore: "semaphore",
        counts::leased_semaphore: "leased_semaphore",
        counts::latch: "latch",
    }
    assert!(wrong.is_empty(), "{} steps differ:\n{}", wrong.len(), wrong.join("\n"));
}

impl Twins {
    async fn new(pair: &Pair, peer: &Arc<Peer>, kind: &'static str) -> Twins {
        let word = kind.replace(' ', "-");
        let java = ["a", "b", "c"].map(|who| peer.thread(&pair.name(&format!("{word}-{who}"))));
        let mut theirs = Side::new(&pair.name(&format!("java-{word}")));
        let mut ours = Side::new(&pair.name(&format!("rust-{word}")));
        // Each is a process of its own: within one, a lock is passed on without the server.
        let mut rust = Vec::new();
        for _ in 0..3 {
            rust.push(pair.builder().connect().await.expect("the server answers"));
        }
        let rust: [Locks; 3] = rust.try_into().expect("three");
        let owners = [rust[0].owner(), rust[1].owner(), rust[2].owner()];
        for (n, letter) in ["A", "B", "C"].into_iter().enumerate() {
            theirs.call(&java[n].owner().await, letter);
            ours.call_all(&owners[n], letter);
        }
        Twins { kind, pair: pair.clone(), java, rust, owners, theirs, ours, wrong: Vec::new() }
    }

    /// The name under which Redisson acts.
    fn theirs(&self) -> String {
        self.theirs.name.clone()
    }

    /// The name under which we act.
    fn ours(&self) -> String {
        self.ours.name.clone()
    }

    fn version(&self) -> Version {
        self.pair.version()
    }

    /// Both names must have the same data now.
    async fn same(&mut self, step: &str) {
        self.same_but(step, &[]).await;
    }

    /// Both names must have the same data now, but for what is known to differ.
    async fn same_but(&mut self, step: &str, known: &[Known]) {
        let until = Instant::now() + SETTLE;
        loop {
            let theirs = Dump::of(self.pair.server(), &self.theirs).await;
            let ours = Dump::of(self.pair.server(), &self.ours).await;
            let differences = dump::compare(&theirs, &ours, known);
            if differences.is_empty() {
                self.theirs.remember(&theirs);
                self.ours.remember(&ours);
                return;
            }
            if Instant::now() >= until {
                let (kind, version) = (self.kind, self.version().number());
                let list = differences.join("\n    ");
                self.wrong.push(format!(
                    "{kind}, {step} (Redisson {version}):\n    {list}\n  Redisson: {theirs:?}\n  we: {ours:?}"
                ));
                return;
            }
            tokio::time::sleep(ms(20)).await;
        }
    }

    /// Waits until the number of waiters that are seen on that channel of both names is `n`.
    async fn listening(&self, channel: impl Fn(&str) -> String, n: u64) {
        self.pair.listening(&channel(&self.theirs.name), n).await;
        self.pair.listening(&channel(&self.ours.name), n).await;
    }

    /// Removes what is left of both names.
    async fn clear(&self) {
        for name in [&self.theirs.name, &self.ours.name] {
            for key in self.pair.server().keys(&format!("*{name}*")).await {
                self.pair.server().cli(&["DEL", &key]).await;
            }
        }
    }
}
