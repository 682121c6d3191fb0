//! One of several processes that count under one lock on several servers: `counter HOW NAME PLACE TASKS URL…`.
//!
//! `HOW` is `all` or `majority` of the servers; `PLACE` is the URL of another one, where the number that the lock guards is
//! kept under the lock's name. Says `ready`, to each line that it reads `counted N` when it has counted ten more, and `done N`
//! at the end, which comes when its input ends. Inside the lock every task reads the number, waits a moment, and writes it
//! back one higher, without any other protection: two at once would lose an update.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use distlock::{Locks, MultiLock, RedLock};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::watch;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Between the reading and the writing.
const MOMENT: Duration = Duration::from_micros(500);

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [how, name, place, tasks, urls @ ..] = &args[..] else {
        return Err("counter HOW NAME PLACE TASKS URL…".into());
    };
    let mut servers = Vec::new();
    for url in urls {
        servers.push(Locks::connect(url).await?);
    }
    let lock = match how.as_str() {
        "all" => MultiLock::new(servers.iter().map(|locks| locks.mutex(name).into())),
        _ => MultiLock::new([RedLock::new(name, &servers).into()]),
    };
    // Without a limit: on a machine that does other things the number may come late, and then it still counts.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None);
    let config = config.set_response_timeout(None);
    let number = redis::Client::open(place.as_str())?;
    let number = number.get_multiplexed_async_connection_with_config(&config).await?;
    let (counting, mut counted) = watch::channel(0_u64);
    let over = Arc::new(AtomicBool::new(false));
    println!("ready");
    let many: usize = tasks.parse()?;
    let mut tasks = JoinSet::new();
    for _ in 0..many {
        let (lock, number, name) = (lock.clone(), number.clone(), name.clone());
        let (counting, over) = (counting.clone(), over.clone());
        tasks.spawn(async move {
            while !over.load(Ordering::Relaxed) {
                count(&lock, number.clone(), &name).await?;
                counting.send_modify(|counted| *counted += 1);
            }
            Outcome::Ok(())
        });
    }
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let enough = *counted.borrow() + 10;
        let so_far = tokio::select! {
            so_far = counted.wait_for(|counted| *counted >= enough) => *so_far?,
            // None ends before it is told to, unless it failed: then whoever waits for the number should know.
            Some(failed) = tasks.join_next() => return failed?,
        };
        println!("counted {so_far}");
    }
    over.store(true, Ordering::Relaxed);
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    for locks in servers {
        locks.close().await;
    }
    println!("done {}", *counted.borrow());
    Ok(())
}

async fn count(lock: &MultiLock, mut number: MultiplexedConnection, name: &str) -> Outcome<()> {
    let guard = lock.lock().await?;
    let before: Option<u64> = redis::cmd("GET").arg(name).query_async(&mut number).await?;
    tokio::time::sleep(MOMENT).await;
    let after = before.unwrap_or(0) + 1;
    let () = redis::cmd("SET").arg(name).arg(after).query_async(&mut number).await?;
    guard.unlock().await?;
    Ok(())
}
