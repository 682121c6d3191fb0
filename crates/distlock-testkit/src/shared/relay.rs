//! Commands of several test processes for one JVM.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

use crate::Peer;

/// How often Java threads are interrupted whose test process has ended.
const INTERRUPTS: u32 = 50;
/// Between two of these.
const BETWEEN: Duration = Duration::from_millis(200);

/// One connection to a test process that uses the JVM.
#[derive(Debug)]
pub(super) struct Relay {
    peer: Arc<Peer>,
    /// What the names of its Java threads begin with: two tests may call theirs the same.
    prefix: String,
    /// How many commands each of its Java threads has not answered yet.
    under_way: Mutex<HashMap<String, usize>>,
}

impl Relay {
    pub(super) fn new(peer: Arc<Peer>, connection: u64) -> Arc<Relay> {
        Arc::new(Relay { peer, prefix: format!("c{connection}:"), under_way: Mutex::default() })
    }

    /// Carries commands to the JVM and its answers back, until the test process closes the connection. Then interrupts
    /// those of its Java threads that still wait for something.
    ///
    /// What they hold they keep, as long as the watchdog in the JVM renews it: no other test uses these names.
    pub(super) async fn run(
        self: Arc<Self>,
        mut commands: Lines<BufReader<OwnedReadHalf>>,
        writer: OwnedWriteHalf,
    ) {
        let (answers, inbox) = mpsc::unbounded_channel();
        tokio::spawn(write(inbox, writer));
        while let Ok(Some(line)) = commands.next_line().await {
            let mut words = line.splitn(3, ' ');
            let (id, thread, command) = (words.next(), words.next(), words.next());
            let id = id.and_then(|id| id.parse::<u64>().ok());
            let (Some(id), Some(thread), Some(command)) = (id, thread, command) else { break };
            let thread = format!("{}{thread}", self.prefix);
            *self.under_way().entry(thread.clone()).or_default() += 1;
            let sent = self.peer.relay(&thread, command);
            let (relay, answers) = (Arc::clone(&self), answers.clone());
            tokio::spawn(async move {
                let answer = sent.await.map(|mut answer| {
                    answer["id"] = id.into();
                    answer
                });
                relay.answered(&thread);
                // A test process that has closed the connection does not want it.
                let _ = answers.send(answer);
            });
        }
        self.interrupt().await;
    }

    fn answered(&self, thread: &str) {
        let mut under_way = self.under_way();
        if let Some(count) = under_way.get_mut(thread) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(thread);
            }
        }
    }

    /// Ends what its Java threads wait for. Again and again: each may have several commands to come, and Redisson's `lock()`
    /// goes on waiting after the first interrupt.
    async fn interrupt(&self) {
        for _ in 0..INTERRUPTS {
            let threads: Vec<String> = self.under_way().keys().cloned().collect();
            if threads.is_empty() {
                return;
            }
            for thread in threads {
                drop(self.peer.relay(&thread, "interrupt"));
            }
            tokio::time::sleep(BETWEEN).await;
        }
        let threads: Vec<String> = self.under_way().keys().cloned().collect();
        eprintln!("testkit-servers: Java threads of a test that has ended go on: {threads:?}");
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.under_way.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Writes answers until there are no more. `None` says that the JVM has ended: then the connection is closed, which is how
/// the test process knows.
async fn write(mut answers: mpsc::UnboundedReceiver<Option<Value>>, mut writer: OwnedWriteHalf) {
    while let Some(Some(answer)) = answers.recv().await {
        if writer.write_all(format!("{answer}\n").as_bytes()).await.is_err() {
            return;
        }
    }
    // The other side may have gone before.
    let _ = writer.shutdown().await;
}
