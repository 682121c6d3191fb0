//! The limits: this library's scripts, sent with nothing around them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use crate::client::{Outcome, words};

pub(crate) const ACQUIRE: &str = include_str!("../../src/redis/scripts/exclusive_acquire.lua");
pub(crate) const RELEASE: &str = include_str!("../../src/redis/scripts/exclusive_release.lua");
/// In milliseconds, as the library's own default.
pub(crate) const LEASE: u32 = 30_000;

/// An owner of the same length as the library's.
pub(crate) fn owner() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{:08x}-0000-4000-8000-000000000000:{number}", std::process::id())
}

pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

pub(crate) fn acquire_args<'a>(command: &'a mut Cmd, name: &str, owner: &str) -> &'a mut Cmd {
    command.arg(1).arg(name).arg(owner).arg(LEASE).arg(1)
}

pub(crate) fn release_args<'a>(command: &'a mut Cmd, name: &str, owner: &str) -> &'a mut Cmd {
    command.arg(1).arg(name).arg(owner).arg(0).arg(channel(name))
}

/// Loads a script and gives its digest.
pub(crate) async fn load(connection: &mut MultiplexedConnection, script: &str) -> String {
    let load = redis::cmd("SCRIPT").arg("LOAD").arg(script).query_async(connection).await;
    load.expect("a script of ours can be loaded")
}

pub(crate) async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).expect("a URL of the kit's is valid");
    // No time-out for a reply: it would cost a timer per command, which is part of what is measured elsewhere.
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    connection.expect("the server has just started")
}

/// One multiplexed connection and two scripts.
#[derive(Clone)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    acquire: String,
    release: String,
}

impl Raw {
    pub(crate) async fn connect(url: &str) -> Raw {
        let mut connection = connect(url).await;
        let acquire = load(&mut connection, ACQUIRE).await;
        let release = load(&mut connection, RELEASE).await;
        Raw { connection, acquire, release }
    }

    /// One attempt: whoever uses this has names of its own.
    pub(crate) async fn acquire(&self, name: &str) -> Outcome<String> {
        let owner = owner();
        let mut command = redis::cmd("EVALSHA");
        acquire_args(command.arg(&self.acquire), name, &owner);
        match command.query_async(&mut self.connection.clone()).await.map_err(words)? {
            Value::Nil => Ok(owner),
            other => Err(format!("{name} is busy: {other:?}")),
        }
    }

    pub(crate) async fn release(&self, name: &str, owner: &str) -> Outcome<()> {
        let mut command = redis::cmd("EVALSHA");
        release_args(command.arg(&self.release), name, owner);
        match command.query_async(&mut self.connection.clone()).await.map_err(words)? {
            Value::Int(0..) => Ok(()),
            other => Err(format!("{name} was not held: {other:?}")),
        }
    }
}

/// Two round trips on a blocking socket: nothing can be faster from one thread.
pub(crate) struct Blocking {
    socket: BufReader<TcpStream>,
    acquire: String,
    release: String,
}

impl Blocking {
    pub(crate) fn connect(addr: SocketAddr) -> Blocking {
        let socket = TcpStream::connect(addr).expect("the server has just started");
        socket.set_nodelay(true).expect("a TCP socket has this option");
        let (acquire, release) = (String::new(), String::new());
        let mut blocking = Blocking { socket: BufReader::new(socket), acquire, release };
        blocking.acquire = blocking.load(ACQUIRE);
        blocking.release = blocking.load(RELEASE);
        blocking
    }

    pub(crate) fn pair(&mut self, name: &str) {
        let owner = owner();
        let mut command = redis::cmd("EVALSHA");
        acquire_args(command.arg(&self.acquire), name, &owner);
        assert_eq!(self.ask(&command), "$-1", "the name is this caller's own");
        let mut command = redis::cmd("EVALSHA");
        release_args(command.arg(&self.release), name, &owner);
        assert!(self.ask(&command).starts_with(':'), "it was held");
    }

    fn load(&mut self, script: &str) -> String {
        let mut command = redis::cmd("SCRIPT");
        let head = self.ask(command.arg("LOAD").arg(script));
        assert_eq!(head, "$40", "a digest has 40 digits");
        let mut digest = [0; 42];
        self.socket.read_exact(&mut digest).expect("the server answers");
        String::from_utf8_lossy(&digest[..40]).into_owned()
    }

    /// Sends a command and gives the first line of the reply.
    fn ask(&mut self, command: &Cmd) -> String {
        self.socket.get_mut().write_all(&command.get_packed_command()).expect("the server listens");
        let mut line = String::new();
        self.socket.read_line(&mut line).expect("the server answers");
        line.trim_end().to_owned()
    }
}
