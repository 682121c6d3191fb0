//! How the kit reaches a server, started here or by another process.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use redis::{Connection, ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisResult};

use super::{Certificates, Flavor, Tls};
use crate::scratch::Scratch;

/// How long the kit's own questions wait for an answer.
const ANSWER: Duration = Duration::from_secs(10);

/// What one must know of a server to use it.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) flavor: Flavor,
    pub(super) password: Option<String>,
    pub(super) tls: Option<(Tls, Certificates)>,
    pub(super) dir: Scratch,
}

impl Access {
    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("sock")
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub(super) fn log(&self) -> String {
        let bytes = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// A new connection over the Unix socket.
    pub(super) fn connect(&self) -> RedisResult<Connection> {
        let info = ConnectionAddr::Unix(self.socket()).into_connection_info()?;
        let mut settings = info
            .redis_settings()
            .clone()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name();
        if let Some(password) = &self.password {
            settings = settings.set_password(password);
        }
        let client = redis::Client::open(info.set_redis_settings(settings))?;
        let connection = client.get_connection_with_timeout(ANSWER)?;
        connection.set_read_timeout(Some(ANSWER))?;
        Ok(connection)
    }
}
