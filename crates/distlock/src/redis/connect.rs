//! Reaching a server: from an address to a logged-in connection.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::kill_list::KillLists;
use super::refusal;
use super::target::Target;
use crate::env::{BoxFuture, Env};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Durability;
use crate::observe::{Event, Observer, Subject};
use crate::runtime::duration::rounded;
use crate::store::Kind;

/// How many commands may queue for one connection before callers wait for it to drain.
const QUEUE: usize = 512;

/// A byte stream to a server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for T {}

/// Makes byte streams to servers. [`Net`] is the real one; a simulated network is another.
///
/// ```
/// use std::io;
/// use distlock::env::BoxFuture;
/// use distlock::net::{Connector, Endpoint, Net, Stream};
///
/// /// Writes down which servers a program talks to.
/// #[derive(Debug)]
/// struct Noted;
/// impl Connector for Noted {
///     fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
///         println!("to {endpoint}");
///         Net.connect(endpoint)
///     }
/// }
/// let builder = distlock::Locks::builder().url("redis://127.0.0.1:6379").connector(std::sync::Arc::new(Noted));
/// ```
pub trait Connector: fmt::Debug + Send + Sync + 'static {
    /// A new stream to `endpoint`. An error of kind `InvalidInput` or `InvalidData` says that no retry will help.
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>>;
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A TCP port.
    Tcp {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A TCP port that speaks TLS.
    Tls {
        /// A name or an address, without brackets.
        host: String,
        /// The port.
        port: u16,
        /// What to trust and what to show.
        options: TlsOptions,
    },
    /// A Unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
    },
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port, .. }
                if host.contains(':') =>
            {
                write!(f, "[{host}]:{port}")
            }
            Endpoint::Tcp { host, port } | Endpoint::Tls { host, port, .. } => {
                write!(f, "{host}:{port}")
            }
            Endpoint::Unix { path } => write!(f, "{}", path.display()),
        }
    }
}

/// What to trust and what to show when a connection is encrypted. The server's certificate is always verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Certificates to trust, as a PEM file; without it, those that the system trusts.
    pub ca: Option<PathBuf>,
    /// The client's certificate chain, as a PEM file.
    pub cert: Option<PathBuf>,
    /// The client's private key, as a PEM file.
    pub key: Option<PathBuf>,
    /// The name to expect in the server's certificate, if it is not the host.
    pub sni: Option<String>,
}

/// The real network.
#[derive(Clone, Copy, Debug, Default)]
pub struct Net;

impl Connector for Net {
    fn connect<'a>(&'a self, endpoint: &'a Endpoint) -> BoxFuture<'a, io::Result<Box<dyn Stream>>> {
        Box::pin(async move {
            Ok(match endpoint {
                Endpoint::Tcp { host, port } => {
                    Box::new(tcp(host, *port).await?) as Box<dyn Stream>
                }
                #[cfg(feature = "tls")]
                Endpoint::Tls { host, port, options } => {
                    let stream = tcp(host, *port).await?;
                    Box::new(super::tls::wrap(stream, host, options).await?)
                }
                #[cfg(unix)]
                Endpoint::Unix { path } => Box::new(tokio::net::UnixStream::connect(path).await?),
                #[allow(unreachable_patterns)]
                _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not supported here")),
            })
        })
    }
}

/// Commands are small and wait for their answers: without `TCP_NODELAY` each could wait for the last one's ACK.
async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A logged-in connection, and the work that moves its bytes: it must be polled for the connection to live.
pub(crate) type Opened = (MultiplexedConnection, BoxFuture<'static, ()>);

/// Everything it takes to open a connection to one server.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) target: Target,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) env: Arc<dyn Env>,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) reply_timeout: Duration,
    pub(crate) durability: Durability,
    pub(crate) holder_info: bool,
    /// Shared by all servers of a store. None where nothing is changed: at sentinels.
    pub(crate) kill_lists: Option<Arc<KillLists>>,
}

impl Dial {
    /// The same for another server.
    pub(crate) fn to(&self, target: Target) -> Dial {
        Dial { target, ..self.clone() }
    }

    /// The same for servers that are only asked, where it does no harm if a question arrives late.
    pub(crate) fn to_ask(&self) -> Dial {
        Dial { kill_lists: None, ..self.clone() }
    }

    /// Opens a connection on the calling runtime, and hands messages that nobody asked for to `push`. Replies take no longer than
    /// `limit`, if there is one; how long the login takes is for the caller to say.
    pub(crate) async fn open(
        &self,
        push: Option<impl redis::aio::AsyncPushSender>,
        limit: Option<Duration>,
    ) -> Result<Opened> {
        let target = &self.target;
        let stream = self.connector.connect(&target.endpoint).await.map_err(|why| {
            let kind = match why.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ErrorKind::Config,
                _ => ErrorKind::Unavailable,
            };
            Error::new(kind, format!("cannot connect to {target}: {why}")).with_source(why)
        })?;
        let mut config = AsyncConnectionConfig::new()
            .set_response_timeout(limit)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        if let Some(push) = push {
            config = config.set_push_sender(push);
        }
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&target.login(), stream, config)
                .await
                .map_err(|why| self.rejected(&why))?;
        Ok((connection, Box::pin(driver)))
    }

    /// The error for a failed login. A server that does not know the command repeats its arguments, and one of them is
    /// the password: nothing of what it said is passed on.
    fn rejected(&self, why: &redis::RedisError) -> Error {
        let target = &self.target;
        let known = refusal::of_redis(why).kind();
        let (kind, what) = match why.kind() {
            redis::ErrorKind::Io => {
                let hint = self.tls_hint();
                return Error::new(
                    ErrorKind::Unavailable,
                    format!("{target} closed the connection during login: {why}{hint}"),
                );
            }
            // It may also be a reply that was cut off in the middle, so it is worth another try.
            redis::ErrorKind::Parse => {
                let hint = self.tls_hint();
                let text = format!(
                    "the reply of {target} to the login is incomplete, or not one that Redis sends{hint}"
                );
                return Error::new(ErrorKind::Unavailable, text);
            }
            redis::ErrorKind::RESP3NotSupported => {
                (ErrorKind::Unsupported, "is older than Redis 6.2")
            }
            // The client words a refused SELECT itself, so it can be told from a refused HELLO.
            _ if why.to_string().starts_with("Redis server refused to switch database") => {
                (ErrorKind::Config, "refused the database of the URL")
            }
            _ if matches!(why.code(), Some("NOAUTH")) => (
                ErrorKind::Config,
                "requires a password: write it in the URL, as in redis://:password@host",
            ),
            _ if known == ErrorKind::Config => (
                ErrorKind::Config,
                "refused the user name or password of the URL, or the user may not run HELLO",
            ),
            _ if known == ErrorKind::Unavailable && is_not_now(why) => {
                (ErrorKind::Unavailable, "accepts no connections now")
            }
            _ => (ErrorKind::Config, "refused the login"),
        };
        let code = why.code().unwrap_or("no code");
        Error::new(kind, format!("the server at {target} {what} ({code})"))
    }

    /// Tells the observer that a connection was made again.
    pub(crate) fn reconnected(&self) {
        self.observer
            .observe(Subject { kind: Kind::Mutex, name: "", label: None }, Event::Reconnected);
    }

    /// The error for a connection that could not be made in time.
    pub(crate) fn too_slow(&self, limit: Duration) -> Error {
        let target = &self.target;
        let hint = match target.endpoint {
            // A plain Redis waits for the end of a line that does not come.
            Endpoint::Tls { .. } => {
                "; write redis:// instead of rediss:// if this port is not encrypted"
            }
            Endpoint::Tcp { .. } | Endpoint::Unix { .. } => "",
        };
        let limit = rounded(limit);
        let text = format!("no connection to {target} within {limit:?}{hint}");
        Error::new(ErrorKind::Unavailable, text)
    }

    /// What to look at if a server did not answer a login as Redis does: one that expects TLS closes the connection, or sends an alert.
    fn tls_hint(&self) -> &'static str {
        match self.target.endpoint {
            Endpoint::Tcp { .. } => {
                "; write rediss:// instead of redis:// if this port is encrypted"
            }
            Endpoint::Tls { .. } | Endpoint::Unix { .. } => "",
        }
    }
}

fn is_not_now(why: &redis::RedisError) -> bool {
    let general = why.code() == Some("ERR");
    !general || why.detail().is_some_and(|text| text.contains("max number of clients"))
}
