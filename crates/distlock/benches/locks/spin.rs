//! The lock that everybody writes first: `SET NX PX`, and again after a pause.

use std::time::Duration;

use redis::aio::MultiplexedConnection;

use crate::client::{Outcome, words};
use crate::raw;

pub(crate) const RELEASE: &str = "\
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

#[derive(Clone)]
pub(crate) struct Spin {
    connection: MultiplexedConnection,
    release: String,
    pause: Duration,
}

impl Spin {
    pub(crate) async fn connect(url: &str, pause_ms: u64) -> Spin {
        let mut connection = raw::connect(url).await;
        let release = raw::load(&mut connection, RELEASE).await;
        Spin { connection, release, pause: Duration::from_millis(pause_ms) }
    }

    pub(crate) async fn acquire(&self, name: &str) -> Outcome<String> {
        let token = raw::owner();
        let mut set = redis::cmd("SET");
        set.arg(name).arg(&token).arg("NX").arg("PX").arg(raw::LEASE);
        loop {
            let done: Option<String> =
                set.query_async(&mut self.connection.clone()).await.map_err(words)?;
            if done.is_some() {
                return Ok(token);
            }
            tokio::time::sleep(self.pause).await;
        }
    }

    pub(crate) async fn release(&self, name: &str, token: &str) -> Outcome<()> {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.release).arg(1).arg(name).arg(token);
        match command.query_async(&mut self.connection.clone()).await.map_err(words)? {
            1_i64 => Ok(()),
            _ => Err(format!("{name} was lost")),
        }
    }
}
