//! The least that a user needs is enough, and nothing of it can be left out.

use std::rc::Rc;
use std::time::{Duration, Instant};

use distlock::doctor::Acl;
use distlock::store::Kind;
use distlock::{ErrorKind, Locks};
use distlock_testkit::{Flavor, Server};
use tokio::task::{JoinSet, LocalSet};

use crate::doctor::cycles::Cycle;

const LONG: Duration = Duration::from_secs(30);

/// Redlock is a mutex on several servers.
const KINDS: [Kind; 10] = [
    Kind::Mutex,
    Kind::Fair,
    Kind::Rw,
    Kind::Fenced,
    Kind::Spin,
    Kind::Simple,
    Kind::Multi,
    Kind::Semaphore,
    Kind::LeasedSemaphore,
    Kind::Latch,
];

/// What nothing in a cycle fails without, of which kind (of all if none is said), and what it is for.
const QUIET: [(Option<Kind>, &str, &str); 12] = [
    (None, "+client|info", "a connection whose command got no reply cannot be ended at the server"),
    (None, "+client|kill", "the same"),
    (None, "+ping", "any answer is a sign of life; but each refusal is a line in the ACL LOG"),
    (
        None,
        "+unsubscribe",
        "nobody waits for it; but what is not wanted any more is heard for ever",
    ),
    (
        None,
        "+publish",
        "a lock is released all the same; but waiters see that when they look again",
    ),
    (Some(Kind::Fair), "+pubsub|numsub", "a waiter that died keeps its place for longer"),
    (Some(Kind::Fair), "+exists", "a release that is sent again calls the next in line"),
    (Some(Kind::Fair), "+lrem", "one who gives up leaves its place to time"),
    (
        Some(Kind::LeasedSemaphore),
        "+pexpire",
        "keeps the time to live that somebody gave the count",
    ),
    (Some(Kind::Semaphore), "+exists", "renewal: a holder whose permits somebody took is not told"),
    (Some(Kind::Semaphore), "+hexists", "the same"),
    (Some(Kind::Semaphore), "+hset", "puts back what was taken if what follows is refused"),
];

fn is_quiet(kind: Kind, rule: &str) -> bool {
    let of = |of: Option<Kind>| of.is_none() || of == Some(kind);
    // Those who poll do not listen, and calling out is quiet.
    (kind == Kind::Spin && rule.starts_with('&'))
        || QUIET.iter().any(|(kind, quiet, _)| of(*kind) && *quiet == rule)
}

/// How long a cycle may take before it hangs: longer than all limits in it together, which a server that does not answer may use up.
/// Those of `rw` add up most: 23 commands of 3 s each and two waits of at most 15 s are 99 s; those of `multi` are 69 s. A cycle was
/// measured to take less than 0.1 s, and less than 6 s beside a server that is stopped for up to 3 s at a time.
const HANGS: Duration = Duration::from_secs(120);

/// How often a cycle is run at most.
const ROUNDS: usize = 5;

/// Runs a cycle, under other names again if a server was too late for it: on a machine that stands still that says nothing of
/// permissions. What is refused is refused every time.
async fn run(url: &str, kind: Kind, wait: Duration, prefix: &str) -> Cycle {
    for round in 1..ROUNDS {
        let prefix = if round == 1 { prefix.to_owned() } else { format!("{prefix}{round}:") };
        let cycle = run_once(url, kind, wait, &prefix).await;
        let late = [ErrorKind::Unavailable, ErrorKind::Indeterminate];
        if !cycle.troubles.iter().any(|(_, error)| late.contains(&error.kind())) {
            return cycle;
        }
        eprintln!("{kind} again: {:?}", cycle.troubles);
    }
    run_once(url, kind, wait, &format!("{prefix}{ROUNDS}:")).await
}

async fn run_once(url: &str, kind: Kind, wait: Duration, prefix: &str) -> Cycle {
    let (locks, other) = (connected(url).await, connected(url).await);
    let mut cycle = Cycle { locks, other, wait, prefix: prefix.to_owned(), troubles: Vec::new() };
    let done = tokio::time::timeout(HANGS, cycle.of(kind)).await;
    done.unwrap_or_else(|_| panic!("{kind} hangs under {prefix}: {:?}", cycle.troubles));
    cycle
}

async fn connected(url: &str) -> Locks {
    let since = Instant::now();
    loop {
        match Locks::builder().url(url).watchdog(LONG).connect().await {
            Ok(locks) => return locks,
            Err(error) => {
                let late = error.kind() == ErrorKind::Unavailable && since.elapsed() < LONG;
                assert!(late, "{error}");
            }
        }
    }
}

/// Names with braces of their own behind the prefix have keys of another form.
fn prefixes(prefix: &str) -> [String; 2] {
    [prefix.to_owned(), format!("{prefix}{{t}}")]
}

/// What holders say, and who waits, is looked for by everybody who is told that a lock is busy, and is no trouble if it may not be.
fn is_extra(entry: &str) -> bool {
    ["distlock_holders", "\"hmget\"", "\"pubsub|numsub\""].iter().any(|word| entry.contains(word))
}

async fn every_kind_works(flavor: Flavor) {
    let server = Server::builder(flavor).start().await;
    for kind in KINDS {
        let url = server.user_with("lk", &Acl::new("app:").kinds(&[kind]).rules());
        for prefix in prefixes("app:") {
            let cycle = run(&url, kind, Duration::from_millis(300), &prefix).await;
            assert!(cycle.troubles.is_empty(), "{kind} as {prefix}: {:?}", cycle.troubles);
        }
        if flavor != Flavor::Redis62 {
            // Nothing was refused in silence either; but a server that knows CLIENT SETINFO refuses it, once per connection.
            let mut log: Vec<Vec<redis::Value>> = server.ask(&["ACL", "LOG"]).await;
            log.retain(|entry| !is_extra(&format!("{entry:?}")));
            let said = format!("{log:?}").replace("client|setinfo", "");
            assert!(log.len() <= 1 && !said.contains("|"), "{kind}: {said}");
        }
        server.cli(&["ACL", "LOG", "RESET"]).await;
    }
}

#[tokio::test]
async fn every_kind_works_with_the_least_of_permissions_on_redis() {
    every_kind_works(Flavor::Redis).await;
}

#[tokio::test]
async fn every_kind_works_with_the_least_of_permissions_on_valkey() {
    every_kind_works(Flavor::Valkey).await;
}

#[tokio::test]
async fn every_kind_works_with_the_least_of_permissions_on_redis62() {
    every_kind_works(Flavor::Redis62).await;
}

#[cfg(all(feature = "cluster", feature = "sentinel"))]
mod several {
    use distlock_testkit::suites::eventually;
    use distlock_testkit::{Cluster, Replicas, SentinelSet};

    use super::*;

    /// All kinds beside each other, each under names of its own.
    async fn everything_works(url: &str) {
        let kinds = async {
            let mut all = JoinSet::new();
            for kind in KINDS {
                let url = url.to_owned();
                all.spawn_local(async move {
                    let mut prefixes = prefixes("app:").to_vec();
                    // Its channel's name follows another rule, so that it would be in another slot.
                    prefixes.truncate(if kind == Kind::Latch { 1 } else { 2 });
                    for prefix in prefixes {
                        let prefix = format!("{prefix}{kind}:");
                        let cycle = run(&url, kind, Duration::from_millis(300), &prefix).await;
                        assert!(cycle.troubles.is_empty(), "{kind}: {:?}", cycle.troubles);
                    }
                });
            }
            all.join_all().await;
        };
        LocalSet::new().run_until(kinds).await;
    }

    /// What was refused without a word; but for what a library says of itself to servers that know the command, and for whether there
    /// are sharded channels, which is asked where they are not wanted, too.
    async fn refused(server: &Server) -> String {
        let log: Vec<redis::Value> = server.ask(&["ACL", "LOG"]).await;
        let log = log.into_iter().map(|entry| format!("{entry:?}"));
        let is_known = |entry: &String| entry.contains("setinfo") || entry.contains("shardnumsub");
        log.filter(|entry| !is_known(entry) && !is_extra(entry)).collect()
    }

    #[tokio::test]
    async fn every_kind_works_with_the_least_of_permissions_in_a_cluster() {
        for (flavor, ways) in [
            (Flavor::Redis, &["auto", "classic", "both"][..]),
            (Flavor::Valkey, &["auto"]),
            (Flavor::Redis62, &["auto"]),
        ] {
            let cluster = Cluster::builder(flavor).patient().start().await;
            for way in ways {
                everything_works(&cluster.least_privilege("app:", way)).await;
            }
            // Redis 6.2 does not say which subcommand it was.
            for node in cluster.nodes().iter().filter(|_| flavor != Flavor::Redis62) {
                assert_eq!(refused(node).await, "", "{flavor:?}");
            }
        }
    }

    #[tokio::test]
    async fn every_kind_works_with_the_least_of_permissions_behind_sentinels() {
        // A machine that does other things is no reason to fail over.
        let set = SentinelSet::builder(Flavor::Redis).down_after(2 * LONG).start().await;
        everything_works(&set.least_privilege("app:")).await;
        for server in set.servers().iter().chain(set.sentinels()) {
            assert_eq!(refused(server).await, "");
        }
    }

    /// With acknowledgements one more permission is needed, and missed at once.
    #[tokio::test]
    async fn acknowledgements_take_one_more() {
        use distlock::Durability;
        use distlock::doctor::Level;

        let set = Replicas::start(Flavor::Redis, 1).await;
        let builder =
            |url: &str| Locks::builder().url(url).prefix("app:").durability(Durability::Acks(1));
        let acl = Acl::new("app:").kinds(&[Kind::Mutex]);
        let url = set.primary.user_with("lk", &acl.clone().rules());
        let error = builder(&url).connect().await.unwrap_err();
        assert!(error.to_string().contains("+wait"), "{error}");
        let lacking = builder(&url).lazy().connect().await.unwrap().doctor().await;
        let acl_of = |report: &distlock::doctor::Report| {
            report.findings().iter().find(|f| f.subject == "acl").unwrap().clone()
        };
        assert_eq!(acl_of(&lacking).level, Level::Fault);
        assert!(acl_of(&lacking).says.contains("mutex, spin, multi, redlock lacks +wait;"));

        let url = set.primary.user_with("lk", &acl.acks().rules());
        let locks = builder(&url).connect().await.unwrap();
        // A replica has half a second to acknowledge it, and a machine that does other things may stand still for longer.
        let had = || async { locks.mutex("k").try_lock().await.is_ok_and(|got| got.is_some()) };
        eventually("it is acknowledged", had).await;
        // More acknowledgements than there are replicas.
        let url = set.primary.url();
        let builder = Locks::builder().url(&url).durability(Durability::Acks(2)).lazy();
        let report = builder.connect().await.unwrap().doctor().await;
        let replicas = report.findings().iter().find(|f| f.subject == "replicas").unwrap();
        assert_eq!(replicas.level, Level::Fault, "{report}");
    }
}

/// How many users are tried at a time.
const AT_ONCE: usize = 8;

/// Takes permissions away one at a time. Each must be missed, by name, and nothing may stay that should not.
async fn each_permission_is_missed(flavor: Flavor, kinds: &[Kind]) {
    let server = Rc::new(Server::builder(flavor).start().await);
    let since = Instant::now();
    let (mut tried, mut wrong) = (0, Vec::new());
    for kind in kinds {
        // Loading is tried by the first alone: the others find the scripts.
        let mut rules = Acl::new("app:").kinds(&[*kind]).rules();
        rules.sort_by_key(|rule| rule != "+script|load");
        let mut at_once = 1;
        let mut rest = 0..rules.len();
        while !rest.is_empty() {
            let mut trials = JoinSet::new();
            for missing in rest.by_ref().take(at_once) {
                trials.spawn_local(without(server.clone(), *kind, missing));
                tried += 1;
            }
            while let Some(found) = trials.join_next().await {
                wrong.extend(found.unwrap_or_else(|panic| panic!("{kind}: {panic}")));
            }
            at_once = AT_ONCE;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{flavor:?}: {tried} permissions in {:?}", since.elapsed());
}

/// Runs a cycle without one permission, under a name of its own; says what was not as it should be.
async fn without(server: Rc<Server>, kind: Kind, missing: usize) -> Vec<String> {
    let (user, prefix) = (format!("lk{kind}{missing}"), format!("app{missing}:"));
    let mut rules = Acl::new(&prefix).kinds(&[kind]).rules();
    rules.sort_by_key(|rule| rule != "+script|load");
    let rule = rules.remove(missing);
    if rule == "+script|load" {
        server.cli(&["SCRIPT", "FLUSH"]).await;
    }
    let url = server.user_with(&user, &rules);
    let (mut troubles, mut wrong) = (Vec::new(), Vec::new());
    for prefix in prefixes(&prefix) {
        // Long enough to fail where it must, short where it will run to its end.
        let form = kind == Kind::Latch || rule.contains(":{") != prefix.contains('{');
        let listens = rule == "+subscribe" || (rule.starts_with('&') && form);
        let must_fail = listens && !is_quiet(kind, &rule);
        let wait = Duration::from_millis(if must_fail { 15_000 } else { 20 });
        troubles.extend(run(&url, kind, wait, &prefix).await.troubles);
    }
    if troubles.is_empty() != is_quiet(kind, &rule) {
        wrong.push(format!("{kind} without {rule}: {troubles:?}"));
    }
    let named = match rule.chars().next() {
        Some('~') => "a ~key",
        Some('&') => "an &channel",
        // Redis 6.2 names the command without its subcommand.
        _ => rule.split('|').next().unwrap_or_default(),
    };
    for (part, error) in &troubles {
        let text = error.to_string();
        let lacks = text.split_once("; locks of all kinds").unwrap_or_default().0;
        // Redis 7.0 names nothing in the errors that a script passes on, and some scripts pass on one for each of many locks.
        let is_named = lacks.contains(named) || lacks.ends_with("lacks a permission");
        if error.kind() != ErrorKind::Config || !is_named {
            wrong.push(format!("{kind} without {rule}, {part}: {error:?}"));
        }
    }
    for key in server.keys(&format!("*{prefix}*")).await {
        if server.pttl(&key).await == -1 && !stays(kind, &key) {
            wrong.push(format!("{kind} without {rule}: {key} for ever"));
        }
        server.cli(&["DEL", &key]).await;
    }
    wrong
}

/// Counts have no time to live, nor has the register of those who took from them, or the last token.
fn stays(kind: Kind, key: &str) -> bool {
    match kind {
        Kind::Semaphore | Kind::LeasedSemaphore | Kind::Latch => !key.contains("distlock_counted"),
        // As Redisson has it: places end by their scores.
        Kind::Fair => key.starts_with("redisson_lock_"),
        Kind::Fenced => {
            key.starts_with("redisson_lock_token:") || key.starts_with("distlock_fence:")
        }
        _ => false,
    }
}

#[tokio::test]
async fn no_permission_can_be_left_out_on_redis() {
    LocalSet::new().run_until(each_permission_is_missed(Flavor::Redis, &KINDS)).await;
}

#[tokio::test]
async fn no_permission_can_be_left_out_on_valkey() {
    LocalSet::new().run_until(each_permission_is_missed(Flavor::Valkey, &KINDS)).await;
}

#[tokio::test]
async fn no_permission_can_be_left_out_on_redis62() {
    LocalSet::new().run_until(each_permission_is_missed(Flavor::Redis62, &KINDS)).await;
}
