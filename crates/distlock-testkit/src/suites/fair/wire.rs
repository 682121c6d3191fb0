//! A fair lock's keys, as a test sees and makes them.

use crate::Server;
use crate::suites::eventually;

/// A queue on a server, behind the library's back.
pub(super) struct Queue<'a> {
    server: &'a Server,
    name: &'a str,
}

impl Queue<'_> {
    pub(super) fn of<'a>(server: &'a Server, name: &'a str) -> Queue<'a> {
        Queue { server, name }
    }

    fn list(&self) -> String {
        format!("redisson_lock_queue:{{{}}}", self.name)
    }

    fn timeouts(&self) -> String {
        format!("redisson_lock_timeout:{{{}}}", self.name)
    }

    /// Where this waiter is called.
    pub(super) fn channel(&self, waiter: &str) -> String {
        format!("redisson_lock__channel:{{{}}}:{waiter}", self.name)
    }

    /// Who waits, first in line first.
    pub(super) async fn owners(&self) -> Vec<String> {
        self.server.ask(&["LRANGE", &self.list(), "0", "-1"]).await
    }

    pub(super) async fn len(&self) -> usize {
        self.server.ask(&["LLEN", &self.list()]).await
    }

    /// Waits until so many listen for themselves.
    pub(super) async fn listen(&self, count: usize) {
        let channels = || async { self.server.pubsub_channels().await.len() == count };
        eventually("all of them listen", channels).await;
    }

    async fn now(&self) -> f64 {
        let (secs, micros): (f64, f64) = self.server.ask(&["TIME"]).await;
        (secs * 1000.0 + micros / 1000.0).floor()
    }

    /// How many seconds each has left, first in line first.
    pub(super) async fn times(&self) -> Vec<f64> {
        let look = "local times = {} \
            local now = redis.call('time') \
            for i, one in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do \
              times[i] = tostring(redis.call('zscore', KEYS[2], one) / 1000 - now[1] - now[2] / 1e6) \
            end \
            return times";
        self.server.ask(&["EVAL", look, "2", &self.list(), &self.timeouts()]).await
    }

    /// Has somebody wait who died at once, as a Java client leaves it: nobody listens for it.
    pub(super) async fn add_dead(&self, waiter: &str, patience_ms: i64) {
        let last = self.owners().await.pop();
        let ttl = self.server.pttl(self.name).await.max(0) as f64;
        let base = match last {
            Some(last) => self.server.ask(&["ZSCORE", &self.timeouts(), &last]).await,
            None => self.now().await + ttl,
        };
        let score = (base + patience_ms as f64).to_string();
        self.server.cli(&["ZADD", &self.timeouts(), &score, waiter]).await;
        self.server.cli(&["RPUSH", &self.list(), waiter]).await;
    }
}
