//! `distlock demo`: a crowd, a few coupons, and a shop that reads before it writes.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::duration;
use crate::exit::{Exit, Failure};
use crate::lock::{Ask, Lock};
use crate::plan::{Demo, Setup};
use crate::print::{self, Paint};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::times::Times;

/// How many clients share the crowd, each with a connection of its own, like so many services.
const CLIENTS: usize = 4;

/// How long the shop looks at the stock before it writes it down: what a query to a database takes.
const SALE: Duration = Duration::from_millis(1);

pub(super) async fn demo(plan: Demo) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|cause| Failure::System("catch signals", cause))?;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Arc::new(Lock::open(&plan.store, &plan.lock, &Setup::default()).await?));
    }
    let exit = tokio::select! {
        exit = both(&plan, &clients) => exit,
        signal = signals.recv() => Ok(Exit::Signal(signal.as_raw())),
    };
    super::clean(&clients).await;
    exit
}

async fn both(plan: &Demo, clients: &[Arc<Lock>]) -> Result<Exit, Failure> {
    if !plan.json {
        print::out(&format!(
            "{} customers want one of {} coupons; a {} lock in {}:\n\n",
            plan.tasks,
            plan.stock,
            plan.lock.kind.word(),
            plan.store.place()
        ))?;
    }
    let without = rush(plan, &[], "without the lock").await?;
    let with = rush(plan, clients, "with the lock").await?;
    let exact = with.is_exact(plan);
    if plan.json {
        print::out(&format!("{}\n", json_of(plan, &without, &with)))?;
    } else {
        print::out(&text_of(plan, &without, &with))?;
    }
    Ok(if exact { Exit::Done } else { Exit::Inexact })
}

/// The shop: the stock is read, and written some time later. That is the mistake a lock mends.
#[derive(Debug)]
struct Shop {
    stock: AtomicU32,
    sold: Mutex<Vec<u32>>,
}

impl Shop {
    /// Sells the coupon whose number is the stock, if there is one left.
    async fn sell(&self) {
        let stock = self.stock.load(Ordering::SeqCst);
        if stock == 0 {
            return;
        }
        tokio::time::sleep(SALE).await;
        self.stock.store(stock - 1, Ordering::SeqCst);
        self.sold.lock().unwrap_or_else(PoisonError::into_inner).push(stock);
    }
}

/// The result of one rush.
#[derive(Debug)]
struct Outcome {
    sold: u32,
    duplicates: u32,
    left: u32,
    took: Duration,
    /// How long each customer waited for the lock.
    waits: Times,
}

impl Outcome {
    /// Whether every coupon, or as many as there were customers, went to exactly one of them.
    fn is_exact(&self, plan: &Demo) -> bool {
        let fair = plan.tasks.min(plan.stock);
        self.sold == fair && self.duplicates == 0 && self.left == plan.stock - fair
    }

    fn oversold(&self, plan: &Demo) -> u32 {
        self.sold.saturating_sub(plan.stock)
    }

    fn per_second(&self, plan: &Demo) -> f64 {
        f64::from(plan.tasks) / self.took.as_secs_f64().max(1e-9)
    }
}

/// All customers come at once; each takes the lock first if there are `clients` to take it with.
async fn rush(plan: &Demo, clients: &[Arc<Lock>], title: &'static str) -> Result<Outcome, Failure> {
    let shop = Arc::new(Shop { stock: AtomicU32::new(plan.stock), sold: Mutex::default() });
    let mut progress = Progress::new(plan.json);
    progress.count(title, plan.tasks);
    let began = Instant::now();
    let mut crowd = JoinSet::new();
    for number in 0..plan.tasks as usize {
        let shop = shop.clone();
        let lock = (!clients.is_empty()).then(|| clients[number % clients.len()].clone());
        crowd.spawn(async move {
            let Some(lock) = lock else {
                shop.sell().await;
                return Ok(Duration::ZERO);
            };
            let came = Instant::now();
            let held = lock.acquire(&Ask::default()).await?;
            let waited = came.elapsed();
            shop.sell().await;
            held.unlock().await?;
            Ok::<_, distlock::Error>(waited)
        });
    }
    let mut waits = Vec::with_capacity(plan.tasks as usize);
    while let Some(customer) = crowd.join_next().await {
        let waited = customer.map_err(|cause| Failure::System("run a task", cause.into()))?;
        waits.push(waited?);
        progress.step();
    }
    let took = began.elapsed();
    drop(progress);
    let numbers = shop.sold.lock().unwrap_or_else(PoisonError::into_inner);
    let distinct: HashSet<u32> = numbers.iter().copied().collect();
    Ok(Outcome {
        sold: numbers.len() as u32,
        duplicates: (numbers.len() - distinct.len()) as u32,
        left: shop.stock.load(Ordering::SeqCst),
        took,
        waits: waits.into(),
    })
}

fn text_of(plan: &Demo, without: &Outcome, with: &Outcome) -> String {
    let paint = Paint::stdout();
    let row = |title: &str, outcome: &Outcome| {
        let verdict = match outcome.oversold(plan) {
            _ if outcome.is_exact(plan) => paint.good("each coupon sold exactly once"),
            0 => paint.bad("not what was in stock"),
            over => paint.bad(&format!("{over} more than there were")),
        };
        vec![
            title.to_owned(),
            format!("sold {}", outcome.sold),
            format!("duplicates {}", outcome.duplicates),
            verdict,
        ]
    };
    let rows = [row("without the lock", without), row("with the lock", with)];
    let [half, most, nearly, all] = [0.5, 0.9, 0.99, 1.0]
        .map(|share| with.waits.share(share).map(duration::show).unwrap_or_default());
    let (took, rate) = (duration::show(with.took), with.per_second(plan));
    format!(
        "{}\n{} locks in {took}, {rate:.0} a second; waited: p50 {half}, p90 {most}, p99 {nearly}, longest {all}\n",
        print::table(&rows),
        plan.tasks,
    )
}

fn json_of(plan: &Demo, without: &Outcome, with: &Outcome) -> Value {
    let outcome = |outcome: &Outcome| {
        json!({
            "sold": outcome.sold,
            "duplicates": outcome.duplicates,
            "oversold": outcome.oversold(plan),
            "seconds": outcome.took.as_micros() as f64 / 1e6,
        })
    };
    let mut locked = outcome(with);
    locked["locks_per_second"] = json!(with.per_second(plan).round());
    locked["wait_ms"] = with.waits.json();
    json!({
        "store": plan.store.place(),
        "kind": plan.lock.kind.word(),
        "tasks": plan.tasks,
        "stock": plan.stock,
        "without_lock": outcome(without),
        "with_lock": locked,
        "exact": with.is_exact(plan),
    })
}
