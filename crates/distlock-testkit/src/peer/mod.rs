//! Java's Redisson in processes of its own: what every shared kind must get along with.
//!
//! * [`Peer`]: a JVM with one Redisson client, driven over standard input and output.
//! * [`Thread`]: a Java thread in it, which owns what it locks; [`Counts`](Thread::semaphore) for the kinds that count.
//! * [`Pending`]: a command under way. It was sent when it was made; `.await` gives its answer.
//! * [`Pair`]: Redisson and distlock on one server, for one test.

mod counts;
mod link;
mod pair;
mod pending;
mod thread;

use std::env;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;

use crate::Server;
use crate::process::foreign;

pub use counts::{Latch, LeasedPermits, Semaphore};
pub use pair::{Pair, Site, pair};
pub use pending::{Pending, Thrown};
pub use thread::{Entry, Kind, Spell, Thread};

use link::{Link, UnderWay, deliver, locked};
use pending::Answer;

/// Names the directory with a `redisson-VERSION` for each version; `cargo xtask setup` fills it.
const VARIABLE: &str = "DISTLOCK_REDISSON";
/// Set where the peer must be there, and a test that cannot have it fails.
const REQUIRED: &str = "DISTLOCK_REQUIRE_REDISSON";
/// How long a JVM may take to start.
const START: Duration = Duration::from_secs(60);

/// The versions of Redisson that are tested against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// The newest.
    Newest,
    /// The last 3.x.
    Last3,
    /// An older 3.x, from before shared watchdogs and with scripts that were changed since.
    Older3,
}

impl Version {
    /// Its number.
    pub fn number(self) -> &'static str {
        match self {
            Version::Newest => "4.7.0",
            Version::Last3 => "3.52.0",
            Version::Older3 => "3.27.2",
        }
    }

    /// The version of that [number](Version::number).
    pub(crate) fn of_number(number: &str) -> Option<Version> {
        let all = [Version::Newest, Version::Last3, Version::Older3];
        all.into_iter().find(|version| version.number() == number)
    }

    /// Where it is installed; `Err` says that it is not.
    pub(crate) fn find(self) -> Result<PathBuf, String> {
        let dir = env::var_os(VARIABLE).map(PathBuf::from);
        let dir = dir.map(|dir| dir.join(format!("redisson-{}", self.number())));
        let found = dir.filter(|dir| dir.join("classes").is_dir() && has_java());
        let number = self.number();
        found.ok_or_else(|| {
            format!("no Redisson {number} with a Java to run it; see `cargo xtask setup`")
        })
    }

    /// Where it is installed; `None`, and a line on the test's output, where it is not.
    ///
    /// # Panics
    /// When it is not, and the environment says that it must be.
    fn dir(self) -> Option<PathBuf> {
        self.find().map_err(|why| skipped(&why)).ok()
    }
}

/// The class path of the newest Redisson, for a compiler; `None`, and a line on the test's output, where it is not installed.
///
/// # Panics
/// When it is not, and the environment says that it must be.
pub fn class_path() -> Option<PathBuf> {
    Version::Newest.dir().map(|dir| dir.join("lib").join("*"))
}

/// Says on the test's output that it cannot have a peer.
///
/// # Panics
/// When the environment says that there must be one.
pub(crate) fn skipped(why: &str) {
    assert!(env::var_os(REQUIRED).is_none(), "{why}");
    eprintln!("SKIPPED: {why}");
}

fn has_java() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut java = Command::new("java");
        java.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        java.status().is_ok_and(|status| status.success())
    })
}

/// Says how to run a peer. See [`Peer::builder`].
#[derive(Debug)]
pub struct Builder {
    version: Version,
    addresses: Vec<SocketAddr>,
    cluster: bool,
    watchdog: Duration,
    place: Option<SocketAddr>,
}

/// A JVM with one Redisson client. It dies with this value, and also with the test process; one that the
/// [host of shared servers](crate::shared) lends goes on, and cannot be killed or stopped.
#[derive(Debug)]
pub struct Peer {
    version: Version,
    uuid: String,
    next: AtomicU64,
    link: Link,
    under_way: UnderWay,
}

impl Peer {
    /// A peer with Redisson's defaults on one server; `None`, and a line on the test's output, where that Redisson is not
    /// installed.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn start(version: Version, server: &Server) -> Option<Peer> {
        Peer::builder(version).address(server.addr()).start().await
    }

    /// A peer with options.
    pub fn builder(version: Version) -> Builder {
        let watchdog = Duration::from_secs(30);
        Builder { version, addresses: Vec::new(), cluster: false, watchdog, place: None }
    }

    /// Which Redisson it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The client's id: the first half of its owners' names.
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// The Java thread of that name, which is made when it gets its first command.
    pub fn thread(self: &Arc<Self>, name: &str) -> Thread {
        Thread::new(self.clone(), name)
    }

    /// `kill -9`. Returns when the process is gone.
    ///
    /// # Panics
    /// When the JVM is lent.
    pub fn kill(&self) {
        self.link.breakable("kill").kill();
    }

    /// `SIGSTOP`.
    ///
    /// # Panics
    /// When the JVM is lent.
    pub fn stop(&self) {
        self.link.breakable("stop").stop();
    }

    /// `SIGCONT`.
    ///
    /// # Panics
    /// When the JVM is lent.
    pub fn cont(&self) {
        self.link.breakable("continue").cont();
    }

    fn send<T>(&self, thread: &str, command: &str, read: fn(Answer) -> T) -> Pending<T> {
        Pending::new(format!("{thread}: {command}"), self.submit(thread, command), read)
    }

    /// Sends a command. Its answer comes over the channel.
    fn submit(&self, thread: &str, command: &str) -> oneshot::Receiver<Answer> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, inbox) = oneshot::channel();
        locked(&self.under_way).insert(id, sender);
        self.link.send(&format!("{id} {thread} {command}"));
        inbox
    }
}

impl Builder {
    /// The server, or one of a cluster's.
    #[must_use]
    pub fn address(mut self, address: SocketAddr) -> Self {
        self.addresses.push(address);
        self
    }

    /// The addresses are those of a cluster.
    #[must_use]
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self
    }

    /// Redisson's `lockWatchdogTimeout`, 30 s unless it is said.
    #[must_use]
    pub fn watchdog(mut self, timeout: Duration) -> Self {
        self.watchdog = timeout;
        self
    }

    /// The plain server where the histories of [`Thread::stress`] are kept: the first address unless it is said.
    #[must_use]
    pub fn place(mut self, place: SocketAddr) -> Self {
        self.place = Some(place);
        self
    }

    /// Starts it and waits until it is connected.
    ///
    /// # Panics
    /// When it does not come up.
    pub async fn start(self) -> Option<Peer> {
        let dir = self.version.dir()?;
        let mut path = dir.join("classes").into_os_string();
        path.push(":");
        path.push(dir.join("lib").join("*"));
        // It should start quickly and leave the machine to others.
        let mut java = foreign(format!("Redisson {}", self.version.number()), "java")
            .arg("-Xmx128m")
            .arg("-XX:+UseSerialGC")
            .arg("-XX:TieredStopAtLevel=1")
            .arg("-cp")
            .arg(path)
            .arg("distlock.peer.Peer")
            .arg("--watchdog")
            .arg(self.watchdog.as_millis().to_string());
        if let Some(place) = self.place {
            java = java.arg("--place").arg(place.to_string());
        }
        if self.cluster {
            java = java.arg("--cluster");
        }
        for address in &self.addresses {
            java = java.arg(OsString::from(address.to_string()));
        }
        let mut worker = java.start().await;
        let ready = worker.wait_for_within("{\"ready\":true", START).await;
        let ready: Value = serde_json::from_str(&ready).expect("its first line is JSON");
        assert_eq!(ready["version"], self.version.number(), "the wrong Redisson is installed");
        let uuid = ready["uuid"].as_str().expect("a client has an id").to_owned();
        let under_way = UnderWay::default();
        let mut lines = worker.take_lines();
        deliver(std::iter::from_fn(move || lines.blocking_recv()), under_way.clone());
        let (next, link) = (AtomicU64::new(1), Link::Own(Mutex::new(worker)));
        Some(Peer { version: self.version, uuid, next, link, under_way })
    }
}
