//! Metrics, through the facade of the `metrics` crate.

use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram};
use metrics::{gauge, histogram};

use crate::observe::{Event, Observer, Subject};
use crate::store::Kind;

const ACQUIRE: &str = "distlock_acquire_total";
const WAIT: &str = "distlock_wait_seconds";
const HOLD: &str = "distlock_hold_seconds";
const LOST: &str = "distlock_lost_total";
const RENEW: &str = "distlock_renew_total";
const SUSPECT: &str = "distlock_suspect_total";
const SLOW: &str = "distlock_slow_hold_total";
const NOT_DURABLE: &str = "distlock_not_durable_total";
const RECONNECT: &str = "distlock_reconnect_total";
const HELD: &str = "distlock_held";
const WAITING: &str = "distlock_waiting";

/// An observer that records metrics. With the feature `metrics`, every [`Locks`](crate::Locks) uses it together with
/// [`Tracing`](crate::Tracing) unless another observer is set. A recorder of the `metrics` crate, such as
/// `metrics-exporter-prometheus`, receives:
///
/// | name | type, unit | labels | |
/// |---|---|---|---|
/// | `distlock_acquire_total` | counter | `kind`, `outcome` | requests by how they [ended](crate::Outcome): `acquired`, `busy`, `timeout`, `cancelled`, `failed` |
/// | `distlock_wait_seconds` | histogram, seconds | `kind`, `outcome` | from the call to its end |
/// | `distlock_hold_seconds` | histogram, seconds | `kind` | from the acquisition to the release, of holds that were released |
/// | `distlock_lost_total` | counter | `kind` | holds that were lost |
/// | `distlock_renew_total` | counter | `kind` | renewals by the watchdog |
/// | `distlock_suspect_total` | counter | `kind` | holds that became suspect: a renewal got no reply |
/// | `distlock_slow_hold_total` | counter | `kind` | holds that took longer than [`Builder::slow_hold`](crate::Builder::slow_hold) |
/// | `distlock_not_durable_total` | counter | `kind` | acquisitions rolled back because too few replicas acknowledged |
/// | `distlock_reconnect_total` | counter | | connections made again |
/// | `distlock_held` | gauge | `kind` | holds of this process now; each member of several locks counts with its own kind |
/// | `distlock_waiting` | gauge | `kind` | requests that have not ended yet |
///
/// A lock's name is never a label: there may be millions of them.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use std::sync::Arc;
/// use distlock::{Locks, Metrics};
///
/// // As PrometheusBuilder::new().install() would, before connecting.
/// let locks = Locks::builder().url("memory:").observer(Arc::new(Metrics)).connect().await?; // without log lines
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Metrics;

impl Metrics {
    /// Bounds of buckets, in seconds, that fit waits and holds: from one round trip to the watchdog's timeout.
    pub const BUCKETS: [f64; 15] = [
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5,
        10.0, 30.0,
    ];

    /// Passes the description and the unit of every metric to the recorder, and sets those that alarms use
    /// (`distlock_lost_total`, `distlock_suspect_total`) to zero for each kind. Connecting calls it; call it if the recorder
    /// is installed after that, or if you set this observer yourself.
    pub fn describe() {
        describe_counter!(ACQUIRE, Unit::Count, "Requests for locks by how they ended");
        describe_histogram!(WAIT, Unit::Seconds, "From the call to its end");
        describe_histogram!(HOLD, Unit::Seconds, "From the acquisition to the release");
        describe_counter!(LOST, Unit::Count, "Locks lost while held");
        describe_counter!(RENEW, Unit::Count, "Renewals by the watchdog");
        describe_counter!(SUSPECT, Unit::Count, "Locks of which a renewal got no reply");
        describe_counter!(SLOW, Unit::Count, "Locks held longer than Builder::slow_hold");
        describe_counter!(
            NOT_DURABLE,
            Unit::Count,
            "Acquisitions rolled back because too few replicas acknowledged"
        );
        describe_counter!(RECONNECT, Unit::Count, "Connections made again");
        describe_gauge!(HELD, Unit::Count, "Locks that this process holds now");
        describe_gauge!(WAITING, Unit::Count, "Requests for locks that have not ended yet");
        for kind in Kind::ALL {
            // An alarm sees how much a metric rose; it does not see a metric that begins at 1.
            counter!(LOST, "kind" => kind.as_str()).increment(0);
            counter!(SUSPECT, "kind" => kind.as_str()).increment(0);
        }
    }
}

impl Observer for Metrics {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        let kind = lock.kind.as_str();
        let seconds = |time: Duration| time.as_secs_f64();
        match event {
            Event::Asked => gauge!(WAITING, "kind" => kind).increment(1.0),
            Event::Answered { outcome, waited } => {
                let outcome = outcome.as_str();
                gauge!(WAITING, "kind" => kind).decrement(1.0);
                counter!(ACQUIRE, "kind" => kind, "outcome" => outcome).increment(1);
                histogram!(WAIT, "kind" => kind, "outcome" => outcome).record(seconds(waited));
            }
            Event::Entered => gauge!(HELD, "kind" => kind).increment(1.0),
            Event::Released { held } => {
                gauge!(HELD, "kind" => kind).decrement(1.0);
                histogram!(HOLD, "kind" => kind).record(seconds(held));
            }
            Event::Lost => {
                gauge!(HELD, "kind" => kind).decrement(1.0);
                counter!(LOST, "kind" => kind).increment(1);
            }
            Event::Leaked | Event::Revoked => gauge!(HELD, "kind" => kind).decrement(1.0),
            Event::Renewed => counter!(RENEW, "kind" => kind).increment(1),
            Event::Suspect => counter!(SUSPECT, "kind" => kind).increment(1),
            Event::SlowHold { .. } => counter!(SLOW, "kind" => kind).increment(1),
            Event::NotDurable => counter!(NOT_DURABLE, "kind" => kind).increment(1),
            Event::Reconnected => counter!(RECONNECT).increment(1),
            // A request is counted when it ends.
            Event::Attempted | Event::Acquired { .. } | Event::GaveUp { .. } => {}
        }
    }
}
