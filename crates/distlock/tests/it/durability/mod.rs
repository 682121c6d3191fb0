//! An acquisition that must be acknowledged by replicas counts only then; if too few do, it leaves nothing behind.
mod cancelled;
mod connecting;
mod failing_over;
mod frozen;
mod groups;
mod healthy;
mod kinds;
mod lost_replies;
mod passing_on;
mod several;

use std::sync::Arc;
use std::time::{Duration, Instant};

use distlock::{Durability, Error, ErrorKind, Locks, Result};
use distlock_testkit::suites::Recorder;
use distlock_testkit::{Replicas, Server};

/// Whoever is let in long before this was woken, and did not wait for a lease to end.
const LONG: Duration = Duration::from_secs(600);

/// Much more than a healthy machine needs.
const SOON: Duration = Duration::from_secs(30);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A process whose acquisitions so many replicas must acknowledge.
async fn with_acks(url: &str, acks: u32) -> Locks {
    let builder = Locks::builder().url(url).watchdog(LONG).durability(Durability::Acks(acks));
    builder.connect().await.expect("a server that knows WAIT")
}

/// Takes something where replicas follow. They have half a second to acknowledge it, and a machine that does other things may stand
/// still for longer: then it is asked for again.
async fn acknowledged<T>(mut take: impl AsyncFnMut() -> Result<T>) -> T {
    let until = Instant::now() + SOON;
    loop {
        match take().await {
            Err(e) if e.kind() == ErrorKind::NotDurable && Instant::now() < until => {}
            answer => return answer.unwrap(),
        }
    }
}

/// A process that needs none, and what it was told.
async fn without_acks(server: &Server) -> (Locks, Arc<Recorder>) {
    let seen = Recorder::new();
    let builder = Locks::builder().url(server.url()).watchdog(LONG).observer(seen.clone());
    (builder.connect().await.expect("a server"), seen)
}

/// It was not durable, and says how far it was from that.
fn assert_not_durable(error: &Error, acked: u32, wanted: u32) {
    assert_eq!(error.kind(), ErrorKind::NotDurable, "{error}");
    assert!(error.is_retryable(), "{error}");
    let counts = format!("{acked} of {wanted} replicas");
    assert!(error.to_string().contains(&counts), "{error}");
}

/// How many scripts the primary has run.
async fn scripts(set: &Replicas) -> u64 {
    let stats = set.primary.command_stats().await;
    // One that the server did not know has not run.
    stats.get("evalsha").map_or(0, |evalsha| evalsha.calls - evalsha.failed)
}

/// Each case on every server that is installed.
macro_rules! on_every_server {
    ($($file:ident::$case:ident)*) => {
        $(mod $case {
            use distlock_testkit::Flavor;

            async fn on(flavor: Flavor) {
                if flavor.program().is_some() {
                    super::$file::$case(flavor).await;
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis() {
                on(Flavor::Redis).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn valkey() {
                on(Flavor::Valkey).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn redis62() {
                on(Flavor::Redis62).await;
            }
        })*
    };
}

on_every_server! {
    healthy::every_kind_is_on_the_replica_when_the_call_returns
    healthy::only_acquisitions_wait_for_replicas
    frozen::every_kind_is_rolled_back_once
    frozen::a_re_entry_is_rolled_back_to_the_level_before
    frozen::a_waiter_elsewhere_gets_in
    groups::a_crowd_shares_its_waits
    groups::a_crowd_without_replicas_is_told_in_bounded_time
    lost_replies::what_is_sent_again_is_acknowledged_anew
    lost_replies::a_re_entry_that_is_sent_again_is_acknowledged_anew
    lost_replies::a_script_that_had_to_be_loaded_is_acknowledged
    connecting::a_user_that_may_not_wait_is_unsupported
    failing_over::without_acks_a_second_holder_gets_in_and_the_first_is_told
    failing_over::with_acks_there_is_never_a_second_holder
    failing_over::what_was_acknowledged_survives
}

on_every_server! {
    failing_over::what_all_replicas_have_survives_a_sentinel_failover
}
