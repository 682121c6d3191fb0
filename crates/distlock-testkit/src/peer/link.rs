//! The line to a JVM: of this process's own, or by way of the host that lends it.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::Value;
use tokio::sync::oneshot;

use super::pending::Answer;
use super::{Peer, Version};
use crate::process::Worker;

/// Who waits for which answer.
pub(super) type UnderWay = Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>;

/// Whose JVM it is.
#[derive(Debug)]
pub(super) enum Link {
    /// A child of this process.
    Own(Mutex<Worker>),
    /// A child of the [host](crate::shared), which other test processes use at the same time.
    Lent(Mutex<UnixStream>),
}

impl Link {
    pub(super) fn send(&self, line: &str) {
        match self {
            Link::Own(worker) => locked(worker).send(line),
            Link::Lent(stream) => {
                // A JVM may end at any moment: that it is gone shows in the answers that do not come.
                let _ = locked(stream).write_all(format!("{line}\n").as_bytes());
            }
        }
    }

    /// The process, for a caller who wants to `what` it.
    ///
    /// # Panics
    /// When it is lent.
    pub(super) fn breakable(&self, what: &str) -> MutexGuard<'_, Worker> {
        match self {
            Link::Own(worker) => locked(worker),
            Link::Lent(_) => panic!(
                "cannot {what} this JVM: other tests use it at the same time; a test that breaks a JVM starts one of \
                 its own with Pair::own_peer"
            ),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Link::Lent(stream) = self {
            // The thread that reads the answers has the stream as well, and ends now.
            let _ = locked(stream).shutdown(Shutdown::Both);
        }
    }
}

impl Peer {
    /// The JVM of the host at the other end of `stream`, which has said so much and waits for commands.
    pub(crate) fn lent(
        version: Version,
        uuid: &str,
        stream: BufReader<UnixStream>,
    ) -> std::io::Result<Peer> {
        let link = Link::Lent(Mutex::new(stream.get_ref().try_clone()?));
        let under_way = UnderWay::default();
        deliver(stream.lines().map_while(Result::ok), under_way.clone());
        Ok(Peer { version, uuid: uuid.to_owned(), next: AtomicU64::new(1), link, under_way })
    }

    /// Whether its process is there. Only for a JVM of this process's own.
    pub(crate) fn runs(&self) -> bool {
        self.link.breakable("watch").runs()
    }

    /// Sends a command for another process, now. The future gives Java's answer as it is; `None` if Java ends first.
    pub(crate) fn relay(
        &self,
        thread: &str,
        command: &str,
    ) -> impl Future<Output = Option<Value>> + Send + use<> {
        let answer = self.submit(thread, command);
        async move { answer.await.ok().map(Answer::into_json) }
    }
}

/// Gives every answer to its [`Pending`](super::Pending), until there are no more.
pub(super) fn deliver(lines: impl Iterator<Item = String> + Send + 'static, under_way: UnderWay) {
    // A thread of its own: tests with a runtime each share a peer.
    std::thread::spawn(move || {
        for line in lines {
            let answer: Value = serde_json::from_str(&line)
                .unwrap_or_else(|error| panic!("the peer says {line:?}: {error}"));
            let id = answer["id"].as_u64().expect("an answer has an id");
            if let Some(sender) = locked(&under_way).remove(&id) {
                // A test that no longer waits does not want it.
                let _ = sender.send(Answer::new(answer));
            }
        }
        // The peer is gone: so are the answers.
        locked(&under_way).clear();
    });
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
