//! The host of shared servers, as a test process sees it.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::VARIABLE;
use super::wanted::{Wanted, WantedPeer};
use crate::peer::{Site, Version, skipped};
use crate::{Cluster, Flavor, Peer, SentinelSet, Server};

/// How long the host may take: as long as it takes to start a cluster and then a JVM on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(180);

/// Asks a host for what it shares.
#[derive(Clone, Debug)]
pub struct Lender {
    socket: PathBuf,
}

/// A JVM of the host's, and the servers that it uses.
#[derive(Debug)]
pub struct LentPeer {
    /// The JVM.
    pub peer: Peer,
    /// The server; beside a cluster, one for histories.
    pub server: Arc<Server>,
    /// The cluster, if the JVM uses one.
    pub cluster: Option<Cluster>,
}

impl Lender {
    /// The host that `DISTLOCK_SERVERS` names, if it names one.
    pub fn from_env() -> Option<Lender> {
        env::var_os(VARIABLE).map(Lender::at)
    }

    /// The host that listens on this socket.
    pub fn at(socket: impl Into<PathBuf>) -> Lender {
        Lender { socket: socket.into() }
    }

    /// The server of that flavour; `None`, and a line on the test's output, if the host has no program for it.
    ///
    /// # Panics
    /// When the host cannot be reached, or cannot start or no longer has what is asked for. This goes for all of these
    /// methods.
    pub fn server(&self, flavor: Flavor) -> Option<Server> {
        self.borrow(Wanted::Server(flavor), Server::lent)
    }

    /// The Redis with TLS and certificates on both sides.
    pub fn tls_server(&self) -> Option<Server> {
        self.borrow(Wanted::Tls, Server::lent)
    }

    /// The primary, replica and sentinels of that flavour.
    pub fn sentinels(&self, flavor: Flavor) -> Option<SentinelSet> {
        self.borrow(Wanted::Sentinels(flavor), SentinelSet::lent)
    }

    /// The cluster with replicas of that flavour.
    pub fn cluster(&self, flavor: Flavor) -> Option<Cluster> {
        self.borrow(Wanted::Cluster(flavor), Cluster::lent)
    }

    /// The JVM with that Redisson at `site`, with this watchdog's timeout; `copy` tells several like it apart. `None`, and a
    /// line on the test's output, if Redisson is not installed.
    ///
    /// # Panics
    /// Also when it is not installed although the environment says that it must be.
    pub fn peer(
        &self,
        version: Version,
        site: Site,
        watchdog: Duration,
        copy: u64,
    ) -> Option<LentPeer> {
        let wanted = Wanted::Peer(WantedPeer { version, site, watchdog, copy });
        let (described, stream) = self.ask(wanted).map_err(|why| skipped(&why)).ok()?;
        let lent = || {
            let server = Arc::new(Server::lent(&described["server"])?);
            let cluster = match &described["cluster"] {
                Value::Null => None,
                described => Some(Cluster::lent(described)?),
            };
            let uuid = described["uuid"].as_str()?;
            stream.get_ref().set_read_timeout(None).ok()?;
            let peer = Peer::lent(version, uuid, stream).ok()?;
            Some(LentPeer { peer, server, cluster })
        };
        Some(lent().unwrap_or_else(|| panic!("the host describes {wanted} as {described}")))
    }

    fn borrow<T>(&self, wanted: Wanted, lent: fn(&Value) -> Option<T>) -> Option<T> {
        match self.ask(wanted) {
            Ok((described, _)) => Some(
                lent(&described)
                    .unwrap_or_else(|| panic!("the host describes {wanted} as {described}")),
            ),
            Err(why) => {
                eprintln!("SKIPPED: {why}");
                None
            }
        }
    }

    /// The host's description, and the connection it came over; `Err` says what is not installed.
    fn ask(&self, wanted: Wanted) -> Result<(Value, BufReader<UnixStream>), String> {
        let lost = |error: std::io::Error| -> ! {
            panic!(
                "no answer from the host of shared servers at {} ({VARIABLE}) for {wanted}: {error}; start one with \
                 `testkit-servers SOCKET`, or unset {VARIABLE} to have each test process start its own servers",
                self.socket.display()
            )
        };
        let mut line = String::new();
        let mut conversation = || {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut question = wanted.to_json();
            question["by"] = asker().into();
            stream.write_all(format!("{question}\n").as_bytes())?;
            let mut stream = BufReader::new(stream);
            stream.read_line(&mut line)?;
            Ok(stream)
        };
        let stream = conversation().unwrap_or_else(|error| lost(error));
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| lost(error.into()));
        if let Some(why) = answer["error"].as_str() {
            panic!("the host of shared servers says: {why}");
        }
        match answer["skipped"].as_str() {
            Some(why) => Err(why.to_owned()),
            None => Ok((answer, stream)),
        }
    }
}

/// Who asks: the name of the test where the process runs a single one, and the process id.
fn asker() -> String {
    let test = env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let process = format!("process {}", std::process::id());
    test.map_or(process.clone(), |test| format!("{test} ({process})"))
}
