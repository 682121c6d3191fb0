//! A crowd, a few coupons, and a shop that reads before it writes: oversold without a lock, exact with one.
//!
//! ```text
//! cargo run --release --example coupon_rush [-- URL]
//! ```
//!
//! Four processes with fifty buyers each want one of a hundred coupons. The stock is a file that every process reads and writes
//! with no protection of its own; the lock is in `file:` (no server needed) unless a URL says otherwise. `memory:` cannot be
//! shared by processes: there the buyers are tasks of this one.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use distlock::Locks;
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PROCESSES: usize = 4;
const BUYERS: usize = 50;
const COUPONS: usize = 100;
/// Between looking at the stock and writing it down: what a query to a database takes.
const MOMENT: Duration = Duration::from_millis(1);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [role, url, dir] if role == "buyers" => buyers(url, Path::new(dir)),
        [] => rush(None),
        [url] => rush(Some(url)),
        _ => Err("coupon_rush [URL]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("coupon_rush: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Both rushes, and what must have come of them.
fn rush(url: Option<&str>) -> Outcome<()> {
    let dir = Scratch::new()?;
    let own = format!("file:{}", dir.0.join("locks").display());
    let url = url.unwrap_or(&own);
    println!("{PROCESSES} x {BUYERS} buyers, {COUPONS} coupons");
    let without = sell("none", &dir.0.join("without"))?;
    println!("without a lock: {without}");
    let with = sell(url, &dir.0.join("with"))?;
    println!("with a lock:    {with}");
    if !with.is_exact() {
        return Err("the lock let two in".into());
    }
    if without.is_exact() {
        return Err("without a lock nothing went wrong: this shows nothing".into());
    }
    println!("ok: with the lock every coupon was sold exactly once");
    Ok(())
}

/// What was sold: the number of each coupon, in a file that lines are only ever added to.
struct Sales {
    sold: usize,
    twice: usize,
    took: Duration,
}

impl Sales {
    fn is_exact(&self) -> bool {
        self.sold == COUPONS && self.twice == 0
    }
}

impl std::fmt::Display for Sales {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sales { sold, twice, took } = self;
        write!(f, "{sold} sold, {twice} of them a second time, in {took:.1?}")
    }
}

fn sell(url: &str, shop: &Path) -> Outcome<Sales> {
    fs::create_dir_all(shop)?;
    fs::write(shop.join("stock"), COUPONS.to_string())?;
    fs::write(shop.join("sold"), "")?;
    let began = Instant::now();
    if url.starts_with("memory:") {
        buyers(url, shop)?;
    } else {
        let program = std::env::current_exe()?;
        let mut processes = Vec::new();
        for _ in 0..PROCESSES {
            let mut process = Command::new(&program);
            process.arg("buyers").arg(url).arg(shop).stdin(Stdio::null());
            processes.push(process.spawn()?);
        }
        for mut process in processes {
            if !process.wait()?.success() {
                return Err("a process of buyers failed".into());
            }
        }
    }
    let took = began.elapsed();
    let sold = fs::read_to_string(shop.join("sold"))?;
    let mut coupons: Vec<&str> = sold.lines().collect();
    let sold = coupons.len();
    coupons.sort_unstable();
    coupons.dedup();
    Ok(Sales { sold, twice: sold - coupons.len(), took })
}

/// One process: all of its buyers come at once.
#[tokio::main]
async fn buyers(url: &str, shop: &Path) -> Outcome<()> {
    let locks = match url {
        "none" => None,
        url => Some(Locks::connect(url).await?),
    };
    let crowd = if url.starts_with("memory:") { PROCESSES * BUYERS } else { BUYERS };
    let mut buyers = JoinSet::new();
    for _ in 0..crowd {
        let (locks, shop) = (locks.clone(), shop.to_owned());
        buyers.spawn(async move {
            match locks {
                // A name of its own for every shop: several of these may run on one server.
                Some(locks) => locks.mutex(name(&shop)).run(async |_| buy(&shop).await).await,
                None => buy(&shop).await,
            }
        });
    }
    while let Some(buyer) = buyers.join_next().await {
        buyer??;
    }
    if let Some(locks) = locks {
        locks.close().await;
    }
    Ok(())
}

fn name(shop: &Path) -> String {
    format!("coupons:{}", shop.display())
}

/// Reads the stock, and writes it some time later. That is the mistake a lock mends.
async fn buy(shop: &Path) -> Outcome<()> {
    let stock = shop.join("stock");
    // A reader may find the file just emptied by a writer: without a lock that happens, and means that it must look again.
    let left = loop {
        if let Ok(left) = fs::read_to_string(&stock)?.parse::<usize>() {
            break left;
        }
    };
    if left == 0 {
        return Ok(());
    }
    tokio::time::sleep(MOMENT).await;
    fs::write(&stock, (left - 1).to_string())?;
    let mut sold = OpenOptions::new().append(true).open(shop.join("sold"))?;
    // In one piece: lines of several processes do not mix.
    sold.write_all(format!("{left}\n").as_bytes())?;
    Ok(())
}

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Scratch> {
        let dir = std::env::temp_dir().join(format!("coupon_rush-{}", std::process::id()));
        fs::create_dir_all(&dir)?;
        Ok(Scratch(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
