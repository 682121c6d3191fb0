//! Processes of their own that fight for a majority.
#![cfg(feature = "redis")]

use std::time::Duration;

use distlock_testkit::{Server, Worker, worker};

use crate::redlock::servers::{assert_empty, servers};

/// How long a crowd may take, on a machine that does other things.
const SOON: Duration = Duration::from_secs(180);

struct Fight {
    nodes: Vec<Server>,
    third: Server,
    processes: Vec<Worker>,
    counted: u64,
}

impl Fight {
    async fn begin(nodes: usize, processes: usize) -> Fight {
        let (nodes, third) = (servers(nodes).await, Server::redis().await);
        let mut fight = Fight { nodes, third, processes: Vec::new(), counted: 0 };
        for _ in 0..processes {
            let place = fight.third.url();
            let mut process = worker("counter").arg("majority").arg("k").arg(place).arg("2");
            for node in &fight.nodes {
                process = process.arg(node.url());
            }
            let mut process = process.start().await;
            process.wait_for("ready").await;
            fight.processes.push(process);
        }
        fight
    }

    /// Everybody gets something done.
    async fn all_get_on(&mut self) {
        for process in &mut self.processes {
            process.send("more");
        }
        for process in &mut self.processes {
            process.wait_for_within("counted", SOON).await;
        }
    }

    /// No update was lost, and nothing is left.
    async fn end(mut self) {
        for mut process in std::mem::take(&mut self.processes) {
            process.close();
            let done = process.wait_for_within("done", SOON).await;
            self.counted += done["done ".len()..].parse::<u64>().expect("a number");
            assert!(process.finish().await.success());
        }
        let number: u64 = self.third.ask(&["GET", "k"]).await;
        assert_eq!(number, self.counted, "updates were lost");
        assert_empty(&self.nodes).await;
    }
}

/// Four can tie two to two: nobody has it then, and they must not tie for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_on_four_nodes_all_get_on() {
    let mut fight = Fight::begin(4, 3).await;
    for _ in 0..3 {
        fight.all_get_on().await;
    }
    fight.end().await;
}

/// The same on four of five, with another one missing each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_processes_all_get_on_whichever_of_five_nodes_is_missing() {
    let mut fight = Fight::begin(5, 3).await;
    for gone in [4, 0, 2] {
        fight.nodes[gone].stop();
        fight.all_get_on().await;
        fight.nodes[gone].cont();
        fight.all_get_on().await;
    }
    fight.end().await;
}
