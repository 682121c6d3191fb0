//! Real servers, one or more for each test.

mod access;
mod cluster;
mod flavor;
mod inspect;
mod launch;
mod lend;
mod process;
mod replicas;
mod sentinel;
mod tls;
mod user;
mod wait;

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::Signal;

use crate::scratch::Scratch;
use crate::spawn;

use access::Access;
pub use cluster::{Cluster, ClusterBuilder};
pub use flavor::Flavor;
pub use inspect::CommandStats;
use launch::Plan;
use process::Process;
pub use replicas::Replicas;
pub use sentinel::{SentinelBuilder, SentinelSet};
pub use tls::{Certificates, Tls};
use wait::{nothing_left, text, until, wait};

/// A server process with a port, a Unix socket and a directory of its own.
///
/// It dies with this value, and also with the test process; one that the [host of shared servers](crate::shared) lends goes
/// on, and cannot be killed or stopped. Its own questions ([`cli`](Server::cli) and what builds on it) go over the Unix
/// socket: a fault on the network or a client certificate that is asked for does not stand in their way.
#[derive(Debug)]
pub struct Server {
    access: Arc<Access>,
    port: u16,
    process: Process,
}

/// Says what a server should be like. See [`Server::builder`].
#[derive(Debug)]
pub struct Builder {
    flavor: Flavor,
    /// The network namespace that it runs in.
    namespace: Option<String>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    password: Option<String>,
    tls: Option<Tls>,
    /// Not of its own, but of the set that it belongs to.
    certificates: Option<Certificates>,
    keep_data: bool,
    /// The settings of a sentinel.
    sentinel: Option<String>,
}

impl Server {
    /// A Redis with nothing in it.
    pub async fn redis() -> Server {
        Self::builder(Flavor::Redis).start().await
    }

    /// A Valkey with nothing in it.
    pub async fn valkey() -> Server {
        Self::builder(Flavor::Valkey).start().await
    }

    /// A Redis 6.2 with nothing in it.
    pub async fn redis62() -> Server {
        Self::builder(Flavor::Redis62).start().await
    }

    /// A server with options.
    pub fn builder(flavor: Flavor) -> Builder {
        let (args, env, password) = (Vec::new(), Vec::new(), None);
        let (namespace, tls, certificates, sentinel) = (None, None, None, None);
        let keep_data = false;
        Builder { flavor, namespace, args, env, password, tls, certificates, keep_data, sentinel }
    }

    /// Which program it is.
    pub fn flavor(&self) -> Flavor {
        self.access.flavor
    }

    /// The port, the same after a [`restart`](Server::restart).
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The loopback address it listens on.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The URL for the library: `redis://…`, or `rediss://…` with `ca`, `cert` and `key`.
    pub fn url(&self) -> String {
        self.url_at(self.addr())
    }

    /// The same URL with another address: that of a [`Proxy`](crate::Proxy) before this server.
    pub fn url_at(&self, addr: SocketAddr) -> String {
        let user = match &self.access.password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        match &self.access.tls {
            None => format!("redis://{user}{addr}"),
            Some((tls, files)) => format!("rediss://{user}{addr}{}", files.query(*tls)),
        }
    }

    /// The URL of the Unix socket: `redis+unix:///…`.
    pub fn unix_url(&self) -> String {
        let path = self.access.socket();
        match &self.access.password {
            Some(password) => format!("redis+unix://{}?pass={password}", path.display()),
            None => format!("redis+unix://{}", path.display()),
        }
    }

    /// The path of the Unix socket.
    pub fn socket(&self) -> PathBuf {
        self.access.socket()
    }

    /// The certificates of a server with TLS.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.access.tls.as_ref().map(|(_, files)| files)
    }

    /// The directory of its own, removed by the process that started it.
    pub fn dir(&self) -> &Path {
        self.access.dir.path()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        self.access.log()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether its process is there, even if it is stopped.
    pub fn runs(&self) -> bool {
        self.process.runs()
    }

    /// `kill -9`. Returns when the process is gone.
    ///
    /// # Panics
    /// When the server is lent.
    pub fn kill(&self) {
        process::kill(&mut self.process.breakable("kill").1);
    }

    /// `SIGSTOP`: connections stay open, nothing is answered.
    ///
    /// # Panics
    /// When the server is lent.
    pub fn stop(&self) {
        spawn::stop(self.process.breakable("stop").1.id());
    }

    /// Whether it does not answer because it was [stopped](Server::stop).
    pub fn is_stopped(&self) -> bool {
        spawn::is_stopped(self.pid())
    }

    /// `SIGCONT`: it answers again.
    ///
    /// # Panics
    /// When the server is lent.
    pub fn cont(&self) {
        spawn::signal(self.process.breakable("continue").1.id(), Signal::CONT);
    }

    /// `kill -9` where it still runs, then a start on the same port with the same options.
    ///
    /// Its data are gone, unless it was built with [`keep_data`](Builder::keep_data).
    ///
    /// # Panics
    /// When the server is lent, or does not come up.
    pub async fn restart(&self) {
        let plan = {
            let (plan, mut child) = self.process.breakable("restart");
            process::kill(&mut child);
            plan
        };
        let child = launch::again(plan, self.port).await;
        *self.process.breakable("restart").1 = child;
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for user in self.process.take_users() {
            // A server that no longer answers has no use for the users either.
            let _ = self.try_cli_blocking(&["ACL", "DELUSER", &user]);
        }
    }
}

impl Builder {
    /// One more argument for the program.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// More arguments for the program.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Runs it in this network namespace, where [`addr`](Server::addr) is not its address.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub(crate) fn in_namespace(mut self, name: &str) -> Self {
        self.namespace = Some(name.to_owned());
        self
    }

    /// A variable of the program's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Asks clients for this password. Letters and digits only: it goes into URLs as it is.
    #[must_use]
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Speaks TLS on its port, with certificates made for it alone.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Writes every change to disk before it answers, so that data survive a `kill -9`.
    #[must_use]
    pub fn keep_data(mut self) -> Self {
        self.keep_data = true;
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    /// When the program is missing or does not come up; the message says what to do, or what the
    /// server logged.
    pub async fn start(self) -> Server {
        launch::apart(move || self.start_blocking()).await
    }

    /// [`start`](Builder::start) for a test without a runtime.
    ///
    /// # Panics
    /// Like [`start`](Builder::start).
    pub fn start_blocking(self) -> Server {
        launch::first(self.plan())
    }

    /// Starts it on this port; `None` if somebody has it already.
    fn start_at(self, port: u16) -> Option<Server> {
        launch::at(self.plan(), port)
    }

    fn plan(self) -> Plan {
        let dir = Scratch::new();
        if let Some(settings) = &self.sentinel {
            std::fs::write(dir.join("conf"), settings).expect("the directory can be written to");
        }
        let tls = self.tls.map(|tls| {
            (tls, self.certificates.unwrap_or_else(|| Certificates::generate(dir.path(), tls)))
        });
        let access = Access { flavor: self.flavor, password: self.password, tls, dir };
        Plan {
            access: Arc::new(access),
            program: self.flavor.require(),
            namespace: self.namespace,
            args: self.args,
            env: self.env,
            keep_data: self.keep_data,
            sentinel: self.sentinel.is_some(),
        }
    }
}
