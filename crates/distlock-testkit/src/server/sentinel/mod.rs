//! A primary with replicas, and sentinels that watch over them.

mod start;

pub use start::SentinelBuilder;

use std::collections::HashMap;
use std::sync::Arc;

use redis::{RedisResult, Value};

use super::{Certificates, Flavor, Server, Tls, nothing_left, text, until};
use crate::scratch::Scratch;

/// What the sentinels call the primary.
const NAME: &str = "mm";

/// One primary, its replicas and three sentinels.
///
/// Servers keep their place in [`servers`](SentinelSet::servers) whatever becomes of them: which of them is the primary is
/// asked for ([`primary`](SentinelSet::primary)).
#[derive(Debug)]
pub struct SentinelSet {
    servers: Vec<Arc<Server>>,
    sentinels: Vec<Arc<Server>>,
    password: Option<String>,
    sentinel_password: Option<String>,
    tls: Option<(Arc<Scratch>, Certificates)>,
}

impl SentinelSet {
    /// A primary, a replica and three sentinels of this flavour.
    pub fn builder(flavor: Flavor) -> SentinelBuilder {
        SentinelBuilder::new(flavor)
    }

    /// These servers and sentinels, which ask for no password and speak no TLS.
    pub(super) fn plain(servers: Vec<Arc<Server>>, sentinels: Vec<Arc<Server>>) -> SentinelSet {
        SentinelSet { servers, sentinels, password: None, sentinel_password: None, tls: None }
    }

    /// The servers that keep data; the first was the first primary.
    pub fn servers(&self) -> &[Arc<Server>] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Arc<Server>] {
        &self.sentinels
    }

    /// The name that the sentinels have for the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The URL for the library, by way of the sentinels.
    pub fn url(&self) -> String {
        self.url_by(&self.sentinels, NAME)
    }

    /// The same by way of these sentinels, with this path: the name of the primary, and a database if there is to be one.
    pub fn url_by(&self, sentinels: &[Arc<Server>], path: &str) -> String {
        let mut options = self.options();
        if let Some(password) = &self.sentinel_password {
            options.push(format!("sentinel_pass={password}"));
        }
        self.url_of("sentinel", sentinels, &format!("/{path}"), &options)
    }

    /// The URL for the library without sentinels: all servers, one of which is the primary.
    pub fn replicated_url(&self) -> String {
        self.url_of("replicated", &self.servers, "", &self.options())
    }

    fn url_of(&self, kind: &str, of: &[Arc<Server>], path: &str, options: &[String]) -> String {
        let scheme = if self.tls.is_some() { "rediss" } else { "redis" };
        let user = match &self.password {
            Some(password) => format!(":{password}@"),
            None => String::new(),
        };
        let hosts: Vec<String> = of.iter().map(|server| server.addr().to_string()).collect();
        let query = match options.is_empty() {
            true => String::new(),
            false => format!("?{}", options.join("&")),
        };
        format!("{scheme}+{kind}://{user}{}{path}{query}", hosts.join(","))
    }

    fn options(&self) -> Vec<String> {
        let Some((_, files)) = &self.tls else { return Vec::new() };
        let query = files.query(Tls::Mutual);
        query.trim_start_matches('?').split('&').map(str::to_owned).collect()
    }

    /// The server that most sentinels name.
    ///
    /// # Panics
    /// When there is none.
    pub async fn primary(&self) -> Arc<Server> {
        for server in &self.servers {
            let mut votes = 0;
            for sentinel in &self.sentinels {
                votes += usize::from(sentinel.names().await == Some(server.port()));
            }
            if votes * 2 > self.sentinels.len() {
                return server.clone();
            }
        }
        panic!("the sentinels do not agree who is the primary");
    }

    /// A server that says it is a replica and is up to date.
    ///
    /// # Panics
    /// When there is none.
    pub async fn replica(&self) -> Arc<Server> {
        for server in self.servers.iter().filter(|server| !server.is_stopped()) {
            if server.info_field("master_link_status").await.as_deref() == Some("up") {
                return server.clone();
            }
        }
        panic!("there is no replica");
    }

    /// Waits until every replica that is linked has all that the primary has now.
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn replicated(&self) {
        let primary = self.primary().await;
        let offset = |field: Option<String>| field.and_then(|n| n.parse::<u64>().ok());
        let goal = offset(primary.info_field("master_repl_offset").await).expect("an offset");
        let caught_up = async || {
            let mut linked = 0;
            for server in self.servers.iter().filter(|server| server.port() != primary.port()) {
                let Ok(info) = server.try_cli(&["INFO", "replication"]).await else { continue };
                let info = text(&info);
                if !info.contains("master_link_status:up") {
                    continue;
                }
                linked += 1;
                let line = info.lines().find_map(|line| line.strip_prefix("slave_repl_offset:"));
                if offset(line.map(|n| n.trim().to_owned())).is_none_or(|has| has < goal) {
                    return false;
                }
            }
            linked > 0
        };
        until("the replicas have what the primary has", caught_up).await;
    }

    /// `SENTINEL FAILOVER`: a replica takes the primary's place. Returns the new primary when all sentinels name it; the old one
    /// goes on as if nothing had happened until they make it a replica ([`follows`](SentinelSet::follows)).
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn fail_over(&self) -> Arc<Server> {
        let old = self.primary().await;
        let at_it = async |sentinel: &Server| {
            // A sentinel that does not know of a good replica yet, or is at it already, refuses.
            sentinel.try_cli(&["SENTINEL", "FAILOVER", NAME]).await.is_ok()
        };
        let mut chosen = None;
        let begun = async || {
            for sentinel in &self.sentinels {
                if at_it(sentinel).await {
                    chosen = Some(sentinel.clone());
                    return true;
                }
            }
            false
        };
        until("a sentinel begins", begun).await;
        let sentinel = chosen.expect("one has begun");
        // On a busy machine the sentinel may give up what it has begun: no replica answered it in time.
        let over = async || {
            if sentinel.has_given_up(&old).await {
                at_it(&sentinel).await;
            }
            sentinel.names().await.is_some_and(|port| port != old.port())
        };
        until("the sentinel has a new primary", over).await;
        self.replaced(&old).await
    }

    /// Waits until all sentinels that answer name another primary than `old`, and it says that it is one.
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn replaced(&self, old: &Server) -> Arc<Server> {
        let mut found = None;
        let agreed = async || {
            let mut named = Vec::new();
            for sentinel in &self.sentinels {
                named.extend(sentinel.names().await);
            }
            let port = *named.first().expect("a sentinel answers");
            if port == old.port() || named.iter().any(|other| *other != port) {
                return false;
            }
            found = self.servers.iter().find(|server| server.port() == port).cloned();
            let Some(new) = &found else { return false };
            new.is_primary().await
        };
        until("another server is the primary", agreed).await;
        found.expect("a server of this set")
    }

    /// Waits until a server that was the primary follows the new one: sentinels let it be for ten seconds.
    ///
    /// # Panics
    /// When that does not come about.
    pub async fn follows(&self, old: &Server) {
        until("the old primary follows", async || !old.is_primary().await).await;
    }

    /// Waits until no server that answers has a key or a channel with `prefix` in its name.
    ///
    /// # Panics
    /// When something is left after a while.
    pub async fn assert_clean(&self, prefix: &str) {
        nothing_left(&self.servers, prefix).await;
    }
}

impl Server {
    /// Whether it says that it is a primary.
    pub async fn is_primary(&self) -> bool {
        self.try_cli(&["ROLE"]).await.is_ok_and(|role| format!("{role:?}").contains("master"))
    }

    /// Whether this sentinel, having begun to replace `old`, is no longer at it and still names `old`. Both stand in one reply: it cannot
    /// be about to switch.
    async fn has_given_up(&self, old: &Server) -> bool {
        let Ok(reply) = self.try_cli(&["SENTINEL", "MASTER", NAME]).await else { return false };
        let Ok(fields) = redis::from_redis_value::<HashMap<String, String>>(reply) else {
            return false;
        };
        let still_old = fields.get("port").is_some_and(|port| *port == old.port().to_string());
        still_old
            && fields.get("flags").is_some_and(|flags| !flags.contains("failover_in_progress"))
    }

    /// The port of the server that this sentinel names; `None` if it does not answer.
    async fn names(&self) -> Option<u16> {
        if self.is_stopped() {
            return None;
        }
        let asked = self.try_cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME]).await;
        named(asked)
    }
}

fn named(reply: RedisResult<Value>) -> Option<u16> {
    let (_, port): (String, u16) = redis::from_redis_value(reply.ok()?).ok()?;
    Some(port)
}
