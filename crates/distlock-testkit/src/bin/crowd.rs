//! Very many locks or waiters in one process: `crowd URL [WATCHDOG_MS]`, then commands on its standard input.
//!
//! ```text
//! hold PREFIX COUNT     acquires PREFIX0, PREFIX1, …       held COUNT
//! wait PREFIX COUNT     one waiter for each of these       waiting
//! wait-one NAME COUNT   that many waiters for one name     waiting
//! memory                what the process has in memory     memory BYTES
//! report                what has happened so far           asked=N served=N failed=N lost=N held=N
//! release               releases everything held           released COUNT
//! quit                  ends every wait, closes            closed
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use distlock::{Event, Guard, Locks, Observer, Subject};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// How many acquisitions and releases are under way at once.
const AT_ONCE: usize = 256;

#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    lost: AtomicU64,
    served: AtomicU64,
    failed: AtomicU64,
}

impl Observer for Counts {
    fn observe(&self, _: Subject<'_>, event: Event) {
        if let Event::Lost = event {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

struct Crowd {
    locks: Locks,
    counts: Arc<Counts>,
    held: Vec<Guard>,
}

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("crowd URL [WATCHDOG_MS]")?;
    let watchdog = args.next().map_or(Ok(30_000), |ms| ms.parse())?;
    let counts = Arc::new(Counts::default());
    let builder = Locks::builder().url(url).watchdog(Duration::from_millis(watchdog));
    let locks = builder.observer(counts.clone()).connect().await?;
    let mut crowd = Crowd { locks, counts, held: Vec::new() };
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["hold", prefix, count] => crowd.hold(prefix, count.parse()?).await?,
            ["wait", prefix, count] => {
                let count: usize = count.parse()?;
                crowd.wait((0..count).map(|n| format!("{prefix}{n}")));
            }
            ["wait-one", name, count] => {
                let count: usize = count.parse()?;
                crowd.wait((0..count).map(|_| name.to_owned()));
            }
            ["memory"] => println!("memory {}", resident()?),
            ["report"] => crowd.report(),
            ["release"] => crowd.release().await?,
            ["quit"] => break,
            _ => return Err(format!("unknown command: {line}").into()),
        }
    }
    crowd.held.clear();
    crowd.locks.close().await;
    println!("closed");
    Ok(())
}

impl Crowd {
    async fn hold(&mut self, prefix: &str, count: usize) -> Outcome<()> {
        let mut under_way = JoinSet::new();
        for number in 0..count {
            if under_way.len() == AT_ONCE
                && let Some(guard) = under_way.join_next().await
            {
                self.held.push(guard??);
            }
            let lock = self.locks.mutex(format!("{prefix}{number}"));
            under_way.spawn(async move { lock.lock().await });
        }
        while let Some(guard) = under_way.join_next().await {
            self.held.push(guard??);
        }
        println!("held {}", self.held.len());
        Ok(())
    }

    fn wait(&self, names: impl Iterator<Item = String>) {
        for name in names {
            let (lock, counts) = (self.locks.mutex(name), self.counts.clone());
            tokio::spawn(async move {
                // Queued by the first poll, in the same breath.
                counts.asked.fetch_add(1, Ordering::Relaxed);
                let served = match lock.lock().await {
                    Ok(guard) => guard.unlock().await,
                    Err(error) => Err(error),
                };
                match served {
                    Ok(()) => counts.served.fetch_add(1, Ordering::Relaxed),
                    Err(error) => {
                        let before = counts.failed.fetch_add(1, Ordering::Relaxed);
                        if before < 3 {
                            eprintln!("{error}");
                        }
                        before
                    }
                }
            });
        }
        println!("waiting");
    }

    fn report(&self) {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { asked, lost, served, failed } = &*self.counts;
        println!(
            "asked={} served={} failed={} lost={} held={}",
            get(asked),
            get(served),
            get(failed),
            get(lost),
            self.held.iter().filter(|guard| !guard.is_lost()).count()
        );
    }

    async fn release(&mut self) -> Outcome<()> {
        let (mut under_way, mut done) = (JoinSet::new(), 0);
        for guard in self.held.drain(..) {
            if under_way.len() == AT_ONCE
                && let Some(released) = under_way.join_next().await
            {
                released??;
                done += 1;
            }
            under_way.spawn(guard.unlock());
        }
        while let Some(released) = under_way.join_next().await {
            released??;
            done += 1;
        }
        println!("released {done}");
        Ok(())
    }
}

/// The resident memory of this process in bytes.
fn resident() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 =
        line.and_then(|line| line.trim().strip_suffix(" kB")).ok_or("no VmRSS")?.parse()?;
    Ok(kib * 1024)
}
