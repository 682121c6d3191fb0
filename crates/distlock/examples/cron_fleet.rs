//! Cron on many hosts: every one has the schedule, one of them runs each tick; one is killed in the middle of a run.
//!
//! ```text
//! cargo run --release --example cron_fleet [-- URL]
//! ```
//!
//! The hosts are five processes. The lock is in `file:` (no server needed) unless a URL says otherwise; not in `memory:`, which
//! processes cannot share.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant, UNIX_EPOCH};

use distlock::{Locks, Tick};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const HOSTS: usize = 5;
const PERIOD: Duration = Duration::from_millis(250);
/// How long a run takes.
const RUN: Duration = Duration::from_millis(60);
/// How long a host that is killed keeps the others out.
const WATCHDOG: Duration = Duration::from_secs(5);
/// How many ticks must be run before the kill, and after it.
const ENOUGH: usize = 8;
/// How long that may take on a machine that does other things.
const SOON: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [role, number, url, book] if role == "host" => host(number, url, Path::new(book)),
        [] => fleet(None),
        [url] => fleet(Some(url)),
        _ => Err("cron_fleet [URL]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cron_fleet: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One host. It ends when its input does, and finishes what it is at.
#[tokio::main]
async fn host(number: &str, url: &str, book: &Path) -> Outcome<()> {
    let locks = Locks::builder().url(url).watchdog(WATCHDOG).connect().await?;
    let job = |tick: Tick| {
        let millis = tick.at().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let (begun, ended) =
            (format!("begun {millis} {number}"), format!("ended {millis} {number}"));
        async move {
            // What a real job would do with a database.
            note(book, &begun).unwrap_or_else(|error| eprintln!("{error}"));
            tokio::time::sleep(RUN).await;
            note(book, &ended).unwrap_or_else(|error| eprintln!("{error}"));
        }
    };
    let (stop, stopped) = tokio::sync::oneshot::channel();
    // A thread that the runtime does not wait for.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read(&mut [0]);
        let _ = stop.send(());
    });
    let told_to_stop = async {
        let _ = stopped.await;
    };
    let name = format!("cron:{}", book.display());
    locks.schedule(&name).every(PERIOD).until(told_to_stop).run(job).await?;
    locks.close().await;
    Ok(())
}

fn note(book: &Path, line: &str) -> std::io::Result<()> {
    // In one piece: lines of several processes do not mix.
    OpenOptions::new().append(true).open(book)?.write_all(format!("{line}\n").as_bytes())
}

/// What is in the book: for each tick who has begun it and who has ended it, in order.
#[derive(Default)]
struct Book(BTreeMap<u64, (Vec<usize>, Vec<usize>)>);

impl Book {
    fn read(path: &Path) -> Outcome<Book> {
        let mut book = Book::default();
        let text = fs::read_to_string(path)?;
        // Somebody may be writing a line.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [what, tick, host] = words[..] else { return Err(format!("{line:?}?").into()) };
            let (begun, ended) = book.0.entry(tick.parse()?).or_default();
            if what == "begun" { begun } else { ended }.push(host.parse()?);
        }
        Ok(book)
    }

    fn ended(&self) -> usize {
        self.0.values().filter(|(_, ended)| !ended.is_empty()).count()
    }

    /// Who is at it now.
    fn at_work(&self) -> Option<(u64, usize)> {
        let (tick, (begun, ended)) = self.0.last_key_value()?;
        ended.is_empty().then(|| begun.first().map(|host| (*tick, *host)))?
    }

    /// What this host, which is gone, has begun and not ended.
    fn unfinished_by(&self, host: usize) -> Option<u64> {
        let unfinished =
            |(begun, ended): &(Vec<usize>, Vec<usize>)| begun.contains(&host) && ended.is_empty();
        self.0.iter().rev().find(|(_, runs)| unfinished(runs)).map(|(tick, _)| *tick)
    }
}

struct Fleet {
    hosts: Vec<Child>,
    dir: PathBuf,
}

fn fleet(url: Option<&str>) -> Outcome<()> {
    let dir = std::env::temp_dir().join(format!("cron_fleet-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let book = dir.join("book");
    fs::write(&book, "")?;
    let own = format!("file:{}", dir.join("locks").display());
    let mut fleet = Fleet { hosts: Vec::new(), dir };
    for number in 0..HOSTS {
        let mut host = Command::new(std::env::current_exe()?);
        host.args(["host", &number.to_string(), url.unwrap_or(&own)]).arg(&book);
        fleet.hosts.push(host.stdin(Stdio::piped()).spawn()?);
    }
    println!("{HOSTS} hosts, a tick each {PERIOD:?}");

    fleet.wait(&book, "ticks are run", |book| (book.ended() >= ENOUGH).then_some(()))?;
    let (tick, victim) = fleet.wait(&book, "somebody is at work", Book::at_work)?;
    fleet.hosts[victim].kill()?;
    fleet.hosts[victim].wait()?;
    // It may have come to a later tick between the look and the kill.
    let after = Book::read(&book)?;
    let (tick, before) = (after.unfinished_by(victim).unwrap_or(tick), after.ended());
    println!("host {victim} was killed in the middle of tick {tick}, after {before} ticks");
    fleet
        .wait(&book, "the others go on", |book| (book.ended() >= before + ENOUGH).then_some(()))?;
    for (number, host) in fleet.hosts.iter_mut().enumerate() {
        drop(host.stdin.take());
        let status = host.wait()?;
        if number != victim && !status.success() {
            return Err(format!("host {number}: {status}").into());
        }
    }

    let book = Book::read(&book)?;
    let mut runs = [0; HOSTS];
    for (at, (begun, ended)) in &book.0 {
        if begun.len() != 1 {
            return Err(format!("tick {at} was begun by {begun:?}").into());
        }
        // The one that was killed may have ended its run in that very moment.
        if begun != ended && (*at, begun[0]) != (tick, victim) {
            return Err(format!("tick {at} was begun by {begun:?} and ended by {ended:?}").into());
        }
        runs[begun[0]] += 1;
    }
    println!("{} ticks, run by the hosts {runs:?} times", book.0.len());
    println!("ok: no tick was run twice, and a killed host stopped nobody");
    Ok(())
}

impl Fleet {
    /// Reads the book until it says so.
    fn wait<T>(
        &mut self,
        book: &Path,
        what: &str,
        look: impl Fn(&Book) -> Option<T>,
    ) -> Outcome<T> {
        let began = Instant::now();
        while began.elapsed() < SOON {
            if let Some(found) = look(&Book::read(book)?) {
                return Ok(found);
            }
            if self.hosts.iter_mut().all(|host| matches!(host.try_wait(), Ok(Some(_)))) {
                return Err("every host has ended".into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(format!("not within {SOON:?}: {what}").into())
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for host in &mut self.hosts {
            // Gone already, if all went well.
            let _ = host.kill();
            let _ = host.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}
