//! W3 and W4: many tasks on one name, in one process and in four. Each run proves exclusion with a counter that two at
//! once would spoil.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Bench;
use crate::client::{Client, Outcome, Who, words};
use crate::machine::{self, Worker};
use crate::report::Target;

const TASKS: usize = 64;
const PROCESSES: usize = 4;
/// As long as the library lets a lock stay in one process.
const BURST_MS: f64 = 10.0;

pub(crate) async fn run(bench: &mut Bench) {
    for (workload, processes) in [("w3", 1), ("w4", PROCESSES)] {
        if !bench.wants(workload) {
            continue;
        }
        for _ in 0..bench.rounds() {
            for section in [0, 1] {
                for who in Who::WAITING {
                    let key = format!("{workload}.{}.{section}ms", who.key());
                    round(bench, who, &key, processes, section).await;
                }
            }
        }
        if workload == "w3" { w3_rows(bench) } else { w4_rows(bench) }
    }
}

fn w3_rows(bench: &mut Bench) {
    let report = &mut bench.report;
    let (ours, alg) = ("w3.distlock.0ms", "w3.redisson-alg.0ms");
    report.compare(
        "W3 64 tasks on one key, hand-overs/s",
        format!("{ours}.hand_overs_per_s"),
        format!("{alg}.hand_overs_per_s"),
        Target::AtLeast(20.0),
    );
    report.compare(
        "W3 commands per acquisition",
        format!("{ours}.commands"),
        format!("{alg}.commands"),
        Target::None,
    );
    report.judge("W3 commands per acquisition", format!("{ours}.commands"), Target::Below(0.2));
    report.compare(
        "W3 longest wait ms, 1 ms section",
        "w3.distlock.1ms.max_wait_ms",
        "w3.redisson-alg.1ms.max_wait_ms",
        Target::None,
    );
    report.judge(
        "W3 longest wait / (64 turns + a burst), 1 ms section",
        "w3.distlock.1ms.max_wait_in_rounds",
        Target::Below(1.0),
    );
}

fn w4_rows(bench: &mut Bench) {
    let report = &mut bench.report;
    let (ours, alg) = ("w4.distlock.0ms", "w4.redisson-alg.0ms");
    report.compare(
        "W4 4 × 16 on one key, hand-overs/s",
        format!("{ours}.hand_overs_per_s"),
        format!("{alg}.hand_overs_per_s"),
        Target::AtLeast(3.0),
    );
    report.judge("W4 commands per acquisition", format!("{ours}.commands"), Target::Below(2.2));
    report.judge("W4 most / least per process", format!("{ours}.share"), Target::Below(2.0));
    report.judge(
        "W4 longest wait ms, 1 ms section",
        "w4.distlock.1ms.max_wait_ms",
        Target::Below(300.0),
    );
}

/// One turn of one contender.
async fn round(bench: &mut Bench, who: Who, key: &str, processes: usize, section_ms: u64) {
    bench.clean().await;
    let path = bench.server.dir().join("tally");
    Tally::create(&path);
    let (url, turn) = (bench.server.url(), bench.turn());
    let tasks = (TASKS / processes).to_string();
    let (seconds, section) = (turn.as_secs_f64().to_string(), section_ms.to_string());
    let file = path.to_string_lossy().into_owned();
    // In processes of their own in W3 too: the benchmark's own work stays out of it, and both are alike.
    let mut workers: Vec<Worker> = (0..processes)
        .map(|_| Worker::start(&["fight", who.key(), &url, &tasks, &seconds, &section, &file]))
        .collect();
    workers.iter_mut().for_each(|worker| drop(worker.line()));
    bench.server.reset_stats().await;
    workers.iter_mut().for_each(|worker| worker.say("go"));
    let done = tokio::task::spawn_blocking(move || {
        workers.iter_mut().map(Worker::line).collect::<Vec<String>>()
    });
    let done = done.await.expect("reading does not panic");
    let commands = machine::commands(&bench.server).await;
    let mut acquired = Vec::new();
    let mut longest: f64 = 0.0;
    for line in done {
        let mut words = line.split(' ').map(str::parse::<f64>);
        match (words.next(), words.next()) {
            (Some(Ok(count)), Some(Ok(wait))) => {
                acquired.push(count);
                longest = longest.max(wait);
            }
            _ => return bench.report.broke(format!("{key}: {line}")),
        }
    }
    let total: f64 = acquired.iter().sum();
    let tally = Tally::open(&path).read();
    if tally.entered as f64 != total {
        let text = format!("{key}: {total} acquisitions, but only {} updates", tally.entered);
        bench.report.broke(text);
    }
    let least = acquired.iter().copied().fold(f64::INFINITY, f64::min);
    let most = acquired.iter().copied().fold(0.0, f64::max);
    let seconds = turn.as_secs_f64();
    let report = &mut bench.report;
    report.add(format!("{key}.hand_overs_per_s"), tally.moved as f64 / seconds);
    report.add(format!("{key}.acquisitions_per_s"), total / seconds);
    report.add(format!("{key}.commands"), commands as f64 / total);
    report.add(format!("{key}.max_wait_ms"), longest);
    if processes > 1 {
        report.add(format!("{key}.share"), most / least.max(1.0));
    } else {
        let turn_ms = seconds * 1e3 / total;
        let served_in_order = TASKS as f64 * turn_ms + BURST_MS;
        report.add(format!("{key}.max_wait_in_rounds"), longest / served_in_order);
    }
}

/// One process of a round: says `ready`, fights when told to, and says how often it was in and how long it waited at most.
pub(crate) async fn worker(args: &[&str]) {
    let [who, url, tasks, seconds, section, file] = args else { panic!("{args:?}") };
    let who = Who::named(who).expect("the benchmark knows its contenders");
    let tasks: u64 = tasks.parse().expect("a number");
    let turn = Duration::from_secs_f64(seconds.parse().expect("a number"));
    let section = Duration::from_millis(section.parse().expect("a number"));
    let client = Client::connect(who, url).await;
    println!("ready");
    machine::told().await;
    let end = Instant::now() + turn;
    let tally = Arc::new(Tally::open(Path::new(file)));
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let id = u64::from(std::process::id()) << 16 | task;
            tokio::spawn(contend(client.clone(), tally.clone(), id, end, section))
        })
        .collect();
    let (mut total, mut longest) = (0, Duration::ZERO);
    for task in tasks {
        match task.await.expect("a contender does not panic") {
            Ok((acquired, waited)) => {
                total += acquired;
                longest = longest.max(waited);
            }
            Err(error) => return println!("failed: {error}"),
        }
    }
    client.close().await;
    println!("{total} {}", longest.as_secs_f64() * 1e3);
}

async fn contend(
    client: Client,
    tally: Arc<Tally>,
    id: u64,
    end: Instant,
    section: Duration,
) -> Outcome<(u64, Duration)> {
    let name: Arc<str> = "hot".into();
    let (mut acquired, mut longest) = (0, Duration::ZERO);
    while Instant::now() < end {
        let asked = Instant::now();
        let held = client.lock(&name).await?;
        longest = longest.max(asked.elapsed());
        let before = tally.read();
        if !section.is_zero() {
            tokio::time::sleep(section).await;
        }
        tally.write(before.next(id)).map_err(words)?;
        acquired += 1;
        held.unlock().await?;
    }
    Ok((acquired, longest))
}

/// A file that is read and written back without any protection but the lock's.
struct Tally(File);

#[derive(Clone, Copy)]
struct Count {
    entered: u64,
    /// How often somebody else than the last one entered.
    moved: u64,
    last: u64,
}

impl Count {
    fn next(self, id: u64) -> Count {
        let moved = self.moved + u64::from(self.last != id);
        Count { entered: self.entered + 1, moved, last: id }
    }
}

impl Tally {
    fn create(path: &Path) {
        std::fs::write(path, [0; 24]).expect("the server's directory can be written to");
    }

    fn open(path: &Path) -> Tally {
        let file = File::options().read(true).write(true).open(path);
        Tally(file.expect("it has just been created"))
    }

    fn read(&self) -> Count {
        let mut bytes = [0; 24];
        self.0.read_exact_at(&mut bytes, 0).expect("it has 24 bytes");
        let word = |at: usize| {
            u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes are 8 bytes"))
        };
        Count { entered: word(0), moved: word(8), last: word(16) }
    }

    fn write(&self, count: Count) -> std::io::Result<()> {
        let words = [count.entered, count.moved, count.last].map(u64::to_le_bytes);
        self.0.write_all_at(&words.concat(), 0)
    }
}
