//! Servers described in JSON, so that a test process can use those of the [host](crate::shared).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Access, Certificates, Cluster, Flavor, Process, SentinelSet, Server, Tls};
use crate::scratch::Scratch;

impl Server {
    /// Everything that another process must know to use this server.
    pub(crate) fn description(&self) -> Value {
        json!({
            "flavor": self.flavor().word(),
            "port": self.port,
            "pid": self.pid(),
            "dir": path(self.dir()),
            "password": self.access.password,
            "tls": self.access.tls.as_ref().map(|(tls, files)| files.description(*tls)),
        })
    }

    /// The server of another process.
    pub(crate) fn lent(described: &Value) -> Option<Server> {
        let tls = match &described["tls"] {
            Value::Null => None,
            described => Some(Certificates::described(described)?),
        };
        let access = Access {
            flavor: Flavor::of_word(described["flavor"].as_str()?)?,
            password: described["password"].as_str().map(str::to_owned),
            tls,
            dir: Scratch::borrowed(described["dir"].as_str()?),
        };
        let port = u16::try_from(described["port"].as_u64()?).ok()?;
        let pid = u32::try_from(described["pid"].as_u64()?).ok()?;
        Some(Server { access: Arc::new(access), port, process: Process::lent(pid) })
    }
}

impl SentinelSet {
    /// Everything that another process must know to use this set, which has neither passwords nor TLS.
    pub(crate) fn description(&self) -> Value {
        let (servers, sentinels) = (self.servers(), self.sentinels());
        json!({ "servers": descriptions(servers), "sentinels": descriptions(sentinels) })
    }

    /// The set of another process.
    pub(crate) fn lent(described: &Value) -> Option<SentinelSet> {
        let (servers, sentinels) = (&described["servers"], &described["sentinels"]);
        Some(SentinelSet::plain(all_lent(servers)?, all_lent(sentinels)?))
    }
}

impl Cluster {
    /// Everything that another process must know to use this cluster, which has neither a password nor TLS.
    pub(crate) fn description(&self) -> Value {
        json!({ "nodes": descriptions(self.nodes()) })
    }

    /// The cluster of another process.
    pub(crate) fn lent(described: &Value) -> Option<Cluster> {
        Some(Cluster::plain(all_lent(&described["nodes"])?))
    }
}

impl Certificates {
    fn description(&self, tls: Tls) -> Value {
        json!({
            "mode": tls.word(),
            "ca": path(&self.ca),
            "server_cert": path(&self.server_cert),
            "server_key": path(&self.server_key),
            "client_cert": path(&self.client_cert),
            "client_key": path(&self.client_key),
        })
    }

    fn described(described: &Value) -> Option<(Tls, Certificates)> {
        let file = |name: &str| described[name].as_str().map(PathBuf::from);
        let files = Certificates {
            ca: file("ca")?,
            server_cert: file("server_cert")?,
            server_key: file("server_key")?,
            client_cert: file("client_cert")?,
            client_key: file("client_key")?,
        };
        let modes = [Tls::Server, Tls::Mutual, Tls::Expired];
        let mode = modes.into_iter().find(|mode| described["mode"] == mode.word())?;
        Some((mode, files))
    }
}

impl Tls {
    fn word(self) -> &'static str {
        match self {
            Tls::Server => "server",
            Tls::Mutual => "mutual",
            Tls::Expired => "expired",
        }
    }
}

fn descriptions(servers: &[Arc<Server>]) -> Vec<Value> {
    servers.iter().map(|server| server.description()).collect()
}

fn all_lent(described: &Value) -> Option<Vec<Arc<Server>>> {
    described.as_array()?.iter().map(|one| Server::lent(one).map(Arc::new)).collect()
}

fn path(path: &Path) -> String {
    path.to_str().expect("the paths of test servers are UTF-8").to_owned()
}
