//! Connections that the server must end before this store sends it anything else.
//!
//! A command that got no reply in time may still be on its way: the kernel sends it again for minutes, also after the
//! connection was closed here, and the server would run it after the commands that followed. So the connection that carried it
//! is noted, and the caller that sends the next command to that server, over whatever connection, first has the server end it with
//! `CLIENT KILL ID … ADDR …`. A connection that the server has ended runs nothing any more.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Pipeline, Value};

use super::connect::Endpoint;
use super::link::Line;
use super::refusal;
use super::topology::text;
use crate::env::{Env, Moment};
use crate::error::{Error, ErrorKind, Result};

/// How long a connection stays on the list of a server that does not answer. A kernel gives up sending after about 15 minutes.
const LISTED_FOR: Duration = Duration::from_secs(20 * 60);

/// How many connections a list holds; beyond that the oldest go.
const MOST_LISTED: usize = 1024;

/// How a server knows a connection. Both parts must match for it to be ended: a server that was restarted gives the same ids
/// again, to other clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientId {
    id: u64,
    /// The client's address as the server sees it. Of a Unix socket it is the path, the same for all: there the id decides alone.
    addr: String,
}

impl ClientId {
    /// The commands whose replies say it, and whether this user may end connections; and how many they are.
    pub(crate) fn questions() -> (Pipeline, usize) {
        let mut commands = Pipeline::with_capacity(2);
        commands.cmd("CLIENT").arg("INFO");
        // An id that no client has: they are counted from 1.
        commands.cmd("CLIENT").arg("KILL").arg("ID").arg(i64::MAX).arg("ADDR").arg("0.0.0.0:0");
        (commands, 2)
    }

    /// What the server answered; `None` if connections cannot be ended there.
    pub(crate) fn parse(replies: &[Value]) -> Option<ClientId> {
        match replies {
            [said, Value::Int(_)] => ClientId::read(said),
            _ => None,
        }
    }

    /// What `CLIENT INFO` says: `id=7 addr=10.0.0.2:40312 laddr=… …`. The path of a Unix socket may have spaces.
    fn read(reply: &Value) -> Option<ClientId> {
        let (id, rest) = text(reply)?.strip_prefix("id=")?.split_once(" addr=")?;
        let (addr, _) = rest.split_once(" laddr=")?;
        let id = id.parse().ok().filter(|id| *id > 0)?;
        (!addr.is_empty()).then(|| ClientId { id, addr: addr.to_owned() })
    }

    /// The command that ends it.
    pub(crate) fn kill(&self) -> Cmd {
        let mut command = redis::cmd("CLIENT");
        command.arg("KILL").arg("ID").arg(self.id).arg("ADDR").arg(&self.addr);
        command
    }
}

/// The lists of one store: one for each address, which outlives the connections there.
pub(crate) struct KillLists {
    env: Arc<dyn Env>,
    lists: Mutex<Vec<(Endpoint, Arc<KillList>)>>,
    permission: Arc<Permission>,
}

/// Whether the servers let this user end connections.
#[derive(Debug, Default)]
struct Permission {
    refused: AtomicBool,
    warned: AtomicBool,
}

impl KillLists {
    pub(crate) fn new(env: Arc<dyn Env>) -> Arc<KillLists> {
        Arc::new(KillLists { env, lists: Mutex::default(), permission: Arc::default() })
    }

    /// The list of the server at `endpoint`.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Arc<KillList> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        lists.retain(|(_, list)| Arc::strong_count(list) > 1 || !list.due().is_empty());
        if let Some((_, list)) = lists.iter().find(|(at, _)| at == endpoint) {
            return list.clone();
        }
        let list = Arc::new(KillList {
            env: self.env.clone(),
            is_pending: AtomicBool::new(false),
            clients: Mutex::default(),
            permission: self.permission.clone(),
        });
        lists.push((endpoint.clone(), list.clone()));
        list
    }

    /// Whether a server refused `CLIENT INFO` or `CLIENT KILL` when it was last asked: then a command that was given up may
    /// still run late.
    pub(crate) fn is_refused(&self) -> bool {
        self.permission.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for KillLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KillLists").field("refused", &self.is_refused()).finish_non_exhaustive()
    }
}

/// The connections that one server must end.
pub(crate) struct KillList {
    env: Arc<dyn Env>,
    /// Whether `clients` has any.
    is_pending: AtomicBool,
    clients: Mutex<VecDeque<(ClientId, Moment)>>,
    permission: Arc<Permission>,
}

impl KillList {
    /// Whether something must be ended before the next command is sent.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_pending.load(Ordering::Acquire)
    }

    /// Notes a connection. One that the server did not name cannot be ended.
    #[cold]
    pub(crate) fn add(&self, client: Option<&ClientId>) {
        let Some(client) = client else { return self.warn() };
        let now = self.env.now();
        let mut clients = self.clients();
        clients.retain(|(listed, since)| listed != client && !is_over(*since, now));
        if clients.len() >= MOST_LISTED {
            clients.pop_front();
        }
        clients.push_back((client.clone(), now));
        self.is_pending.store(true, Ordering::Release);
    }

    /// Notes that the server lets this user end connections.
    pub(crate) fn allowed(&self) {
        self.permission.refused.store(false, Ordering::Relaxed);
    }

    /// Notes that the server refused to name a connection or to end one.
    pub(crate) fn refused(&self) {
        self.permission.refused.store(true, Ordering::Relaxed);
    }

    /// Has the server end everything on the list, over `line`. An error says that this is not known to be done.
    pub(crate) async fn clear(&self, line: &mut Line) -> Result<()> {
        let due = self.due();
        // After the list was read: a connection is given up before it is noted, so one that is on the list is found out here,
        // and is not asked to end itself, which no server does.
        if !line.is_live() {
            return Err(Error::new(ErrorKind::Unavailable, "the connection to the server broke"));
        }
        if due.is_empty() {
            return Ok(());
        }
        let mut commands = Pipeline::with_capacity(due.len());
        for client in &due {
            commands.add_command(client.kill());
        }
        let replies = line.send_all(&commands, due.len()).await.map_err(|error| {
            let text =
                format!("cannot close an earlier connection, whose command got no reply: {error}");
            Error::new(ErrorKind::Unavailable, text)
        })?;
        let mut is_refused = false;
        for reply in replies {
            match reply {
                // How many were ended. None: it had gone already.
                Value::Int(_) => {}
                Value::ServerError(refused) if refusal::is_not_now(refused.code()) => {
                    return Err(refusal::of(&refused));
                }
                _ => is_refused = true,
            }
        }
        self.permission.refused.store(is_refused, Ordering::Relaxed);
        if is_refused {
            self.warn();
        }
        self.remove(&due);
        Ok(())
    }

    /// Everything that is on the list, without what has been there for too long.
    fn due(&self) -> Vec<ClientId> {
        let now = self.env.now();
        let mut clients = self.clients();
        clients.retain(|(_, since)| !is_over(*since, now));
        self.is_pending.store(!clients.is_empty(), Ordering::Release);
        clients.iter().map(|(client, _)| client.clone()).collect()
    }

    fn remove(&self, done: &[ClientId]) {
        let mut clients = self.clients();
        clients.retain(|(client, _)| !done.contains(client));
        self.is_pending.store(!clients.is_empty(), Ordering::Release);
    }

    fn clients(&self) -> MutexGuard<'_, VecDeque<(ClientId, Moment)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Once per store.
    fn warn(&self) {
        if self.permission.warned.swap(true, Ordering::Relaxed) {
            return;
        }
        tracing::warn!(
            target: "distlock",
            "a command got no reply, and the Redis user may not close its connection at the server: the command may still arrive, \
             and run after newer commands; give the user +client|info and +client|kill (`distlock doctor --acl PREFIX` prints all rules)"
        );
    }
}

fn is_over(since: Moment, now: Moment) -> bool {
    now.since(since) > LISTED_FOR
}
