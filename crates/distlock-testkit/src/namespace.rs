//! Two network namespaces with a cable between them, so that packets are lost and sent again by the kernel itself.
//!
//! It takes root, `ip`, `ss` and `iptables`. All addresses are of the namespaces that it makes (10.77.x.x); the machine's own
//! network is not touched.

use std::fmt;
use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use distlock::env::BoxFuture;
use distlock::net::{Connector, Endpoint, Stream};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::net::TcpSocket;

use crate::server::{Flavor, Server};

/// A server in one namespace, and a way to it from another. Both namespaces go with this value.
#[derive(Debug)]
pub struct Cable {
    server: Option<Server>,
    client_end: Namespace,
    server_end: Namespace,
}

impl Cable {
    /// Makes both namespaces and starts a Redis in one of them. `Err` says why that cannot be done here.
    ///
    /// # Panics
    /// When the server does not come up.
    pub async fn lay() -> Result<Cable, String> {
        static NEXT: AtomicU8 = AtomicU8::new(0);
        if !rustix::process::geteuid().is_root() {
            return Err("network namespaces take root".to_owned());
        }
        for program in ["ip", "ss", "iptables"] {
            run(program, &["-V"])?;
        }
        // Processes that run beside each other have namespaces of other names; the addresses may be the same.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let end = |letter: char, last: u8| Namespace {
            name: format!("distlock-{}-{number}-{letter}", std::process::id()),
            addr: Ipv4Addr::new(10, 77, number, last),
        };
        let mut cable = Cable { server: None, client_end: end('c', 1), server_end: end('s', 2) };
        let (client, server) = (&cable.client_end, &cable.server_end);
        for end in [client, server] {
            run("ip", &["netns", "add", &end.name])?;
        }
        let (from, to) = (&client.name, &server.name);
        let link = ["link", "add", "wire", "netns", from, "type", "veth", "peer", "name", "wire"];
        run("ip", &[&link[..], &["netns", to]].concat())?;
        for end in [client, server] {
            end.run("ip", &["addr", "add", &format!("{}/24", end.addr), "dev", "wire"])?;
            end.run("ip", &["link", "set", "wire", "up"])?;
        }
        // Whether the kernel can filter at all.
        server.run("iptables", &["-S"])?;
        let builder = Server::builder(Flavor::Redis).in_namespace(&server.name);
        let builder = builder.args(["--bind", &server.addr.to_string(), "--protected-mode", "no"]);
        cable.server = Some(builder.start().await);
        Ok(cable)
    }

    /// The server. Its own questions go over its Unix socket, which no namespace hides.
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("there is a server once the cable is laid")
    }

    /// The server's URL for clients that connect by way of [`connector`](Cable::connector).
    pub fn url(&self) -> String {
        let addr = SocketAddr::new(IpAddr::V4(self.server_end.addr), self.server().port());
        self.server().url_at(addr)
    }

    /// Opens connections from within the client's namespace.
    pub fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(Within(self.client_end.clone()))
    }

    /// Loses every packet from the client to the server from now on, or no more.
    ///
    /// # Panics
    /// When the kernel refuses that.
    pub fn lose_requests(&self, on: bool) {
        let port = self.server().port().to_string();
        let rule = ["INPUT", "-p", "tcp", "--dport", &port, "-j", "DROP"];
        let done =
            self.server_end.run("iptables", &[&[if on { "-I" } else { "-D" }], &rule[..]].concat());
        done.unwrap_or_else(|error| panic!("{error}"));
    }

    /// How many connections the client has given up while the kernel still sends what was written to them.
    ///
    /// # Panics
    /// When the kernel does not say.
    pub fn given_up(&self) -> usize {
        let sockets = self.client_end.run("ss", &["-Htan"]);
        let sockets = sockets.unwrap_or_else(|error| panic!("{error}"));
        // The last two: the server has closed its side as well.
        let unsent = ["FIN-WAIT-1", "CLOSING", "LAST-ACK"];
        sockets.lines().filter(|line| unsent.iter().any(|state| line.starts_with(state))).count()
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        drop(self.server.take());
        for end in [&self.client_end, &self.server_end] {
            // It may never have been made. The cable goes with its ends.
            let _ = run("ip", &["netns", "delete", &end.name]);
        }
    }
}

/// One end of the cable.
#[derive(Clone, PartialEq, Eq)]
struct Namespace {
    name: String,
    addr: Ipv4Addr,
}

impl Namespace {
    /// Runs a program inside.
    fn run(&self, program: &str, args: &[&str]) -> Result<String, String> {
        run("ip", &[&["netns", "exec", &self.name, program], args].concat())
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.addr)
    }
}

/// Connects from within a namespace, wherever the caller is.
#[derive(Debug)]
struct Within(Namespace);

impl Within {
    /// A socket belongs to the namespace of the thread that makes it, wherever it is used.
    fn socket(&self) -> io::Result<TcpSocket> {
        let namespace = File::open(Path::new("/run/netns").join(&self.0.name))?;
        let made = std::thread::scope(|scope| {
            let inside = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                TcpSocket::new_v4()
            });
            inside.join()
        });
        made.unwrap_or_else(|_| Err(io::Error::other("the thread inside the namespace panicked")))
    }
}

impl Connector for Within {
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            let Endpoint::Tcp { host, port } = endpoint else {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            };
            let host: IpAddr = host.parse().map_err(io::Error::other)?;
            let stream = self.socket()?.connect(SocketAddr::new(host, *port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}

/// Runs a program to its end; what it says, or what went wrong.
fn run(program: &str, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!("{program} {}: {}", args.join(" "), text(&output.stderr))),
    }
}
