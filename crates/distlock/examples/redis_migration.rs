//! Moves a lock from an old Redis to a new one while four processes fight for it, as `docs/migration.md` says.
//!
//! ```text
//! cargo run --release --example redis_migration [-- OLD-URL NEW-URL]
//! ```
//!
//! Starts two servers of its own if it finds `redis-server` (or `DISTLOCK_REDIS_SERVER` says where it is); else give it two URLs.
//! Exit code 3: there is no server to show it on.
//!
//! Processes are replaced one by one, as in a deployment: old → old and new → new. Inside the lock each reads a number from a
//! file and writes it back one higher, and puts down a marker that must not be there yet.

use std::error::Error;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use distlock::{Locks, MultiLock};
use distlock_testkit::{Flavor, Server};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const PROCESSES: usize = 4;
/// How much a process gets done before the next one is replaced.
const SHARE: u64 = 25;
/// Between reading the number and writing it.
const MOMENT: Duration = Duration::from_micros(500);
/// How long something may take that must happen: a deadlock shows as this.
const SOON: Duration = Duration::from_secs(60);
/// What is missing is not our fault.
const NO_SERVER: u8 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match &args[..] {
        [role, step, old, new, dir] if role == "process" => process(step, old, new, dir).await,
        [old, new] => migrate(old, new).await,
        [] if Flavor::Redis.program().is_none() => {
            eprintln!("no redis-server found: install one, or give two URLs: OLD NEW");
            return ExitCode::from(NO_SERVER);
        }
        [] => {
            let (old, new) = (Server::redis().await, Server::redis().await);
            migrate(&old.url(), &new.url()).await
        }
        _ => Err("redis_migration [OLD-URL NEW-URL]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redis_migration: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn migrate(old: &str, new: &str) -> Outcome<()> {
    // Why there is a step in between.
    let careless = Scene::new("careless", old, new)?;
    let mut fleet = Vec::new();
    for step in ["old", "new", "old", "new"] {
        fleet.push(careless.start(step).await?);
    }
    careless.all_get_on(&mut fleet).await?;
    let (counted, number, clashes) = careless.end(fleet).await?;
    println!(
        "straight from old to new: {counted} updates, {number} arrived, two inside {clashes} times"
    );
    if number == counted {
        return Err("old and new have excluded each other: this shows nothing".into());
    }

    let scene = Scene::new("careful", old, new)?;
    let mut fleet = Vec::new();
    for _ in 0..PROCESSES {
        fleet.push(scene.start("old").await?);
    }
    scene.all_get_on(&mut fleet).await?;
    let mut counted = 0;
    for step in ["both", "new"] {
        for at in 0..fleet.len() {
            // The one that is replaced finishes what it is at; the others go on meanwhile.
            let next = scene.start(step).await?;
            counted += std::mem::replace(&mut fleet[at], next).finish().await?;
            scene.all_get_on(&mut fleet[at..=at]).await?;
        }
        scene.all_get_on(&mut fleet).await?;
        println!("every process is at {step:?}, and every one gets on");
    }
    let (last, number, clashes) = scene.end(fleet).await?;
    counted += last;
    println!("old, both, new: {counted} updates, {number} arrived, two inside {clashes} times");
    if number != counted || clashes > 0 {
        return Err("two were inside at once".into());
    }
    for (place, url) in [("old", old), ("new", new)] {
        let locks = Locks::connect(url).await?;
        if locks.mutex(&scene.name).is_locked().await? {
            return Err(format!("the lock is still held on the {place} server").into());
        }
        locks.close().await;
    }
    println!("ok: moved under load, no update lost, nothing left behind");
    Ok(())
}

/// The number that the lock guards, and where the lock is.
struct Scene {
    old: String,
    new: String,
    name: String,
    dir: PathBuf,
}

impl Scene {
    fn new(name: &str, old: &str, new: &str) -> Outcome<Scene> {
        let name = format!("redis_migration-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(&name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("number"), "0")?;
        Ok(Scene { old: old.to_owned(), new: new.to_owned(), name, dir })
    }

    async fn start(&self, step: &str) -> Outcome<Process> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["process", step, &self.old, &self.new]).arg(&self.dir);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("its output is piped")?;
        let mut process = Process { child, stdin, lines: BufReader::new(stdout).lines() };
        process.say("ready").await?;
        Ok(process)
    }

    /// Everybody gets something done: nobody is locked out.
    async fn all_get_on(&self, fleet: &mut [Process]) -> Outcome<()> {
        for process in fleet.iter_mut() {
            let stdin = process.stdin.as_mut().ok_or("its input is piped")?;
            stdin.write_all(b"more\n").await?;
        }
        for process in fleet {
            process.say("counted").await?;
        }
        Ok(())
    }

    /// How many updates were made, how many arrived, and how often somebody found another one inside.
    async fn end(&self, fleet: Vec<Process>) -> Outcome<(u64, u64, usize)> {
        let mut counted = 0;
        for process in fleet {
            counted += process.finish().await?;
        }
        let number = read(&self.dir)?;
        let clashes = fs::read_dir(&self.dir)?.flatten();
        let clashes =
            clashes.filter(|file| file.file_name().to_string_lossy().starts_with("clash"));
        Ok((counted, number, clashes.count()))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// What it says after this word.
    async fn say(&mut self, word: &str) -> Outcome<String> {
        let line = timeout(SOON, self.lines.next_line());
        let line = line.await.map_err(|_| format!("no {word:?} for {SOON:?}: a deadlock?"))??;
        let line = line.ok_or_else(|| format!("a process ended before {word:?}"))?;
        let rest = line.strip_prefix(word).ok_or_else(|| format!("{line:?}, not {word:?}"))?;
        Ok(rest.trim().to_owned())
    }

    /// As a deployment ends it: it finishes what it is at. How many updates it made.
    async fn finish(mut self) -> Outcome<u64> {
        self.stdin = None;
        let done = self.say("done").await?.parse()?;
        if !timeout(SOON, self.child.wait()).await??.success() {
            return Err("a process failed".into());
        }
        Ok(done)
    }
}

/// One process of the fleet, at one of the three steps.
async fn process(step: &str, old: &str, new: &str, dir: &str) -> Outcome<()> {
    let dir = Path::new(dir);
    let name = dir.file_name().and_then(|name| name.to_str()).ok_or("a directory with a name")?;
    let mut places = Vec::new();
    if step != "new" {
        places.push(Locks::connect(old).await?);
    }
    if step != "old" {
        places.push(Locks::connect(new).await?);
    }
    let lock = MultiLock::new(places.iter().map(|locks| locks.mutex(name).into()));
    let (counted, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    println!("ready");
    let work = {
        let (lock, counted, over, dir) = (lock, counted.clone(), over.clone(), dir.to_owned());
        tokio::spawn(async move {
            while !over.load(Ordering::Relaxed) {
                lock.run(async |_| count(&dir).await).await?;
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        })
    };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await?.is_some() {
        let enough = counted.load(Ordering::Relaxed) + SHARE;
        while counted.load(Ordering::Relaxed) < enough && !work.is_finished() {
            tokio::time::sleep(MOMENT).await;
        }
        println!("counted");
    }
    over.store(true, Ordering::Relaxed);
    work.await??;
    for locks in places {
        locks.close().await;
    }
    println!("done {}", counted.load(Ordering::Relaxed));
    Ok(())
}

/// One higher, without any other protection; notes it down if somebody else is inside.
async fn count(dir: &Path) -> Outcome<()> {
    let marker = dir.join("inside");
    if File::create_new(&marker).is_err() {
        File::create(dir.join(format!(
            "clash-{}-{:?}",
            std::process::id(),
            std::time::Instant::now()
        )))?;
    }
    let number = read(dir)?;
    tokio::time::sleep(MOMENT).await;
    // Renamed into place: whoever reads beside us finds a whole number.
    let draft = dir.join(format!("draft-{}", std::process::id()));
    fs::write(&draft, (number + 1).to_string())?;
    fs::rename(&draft, dir.join("number"))?;
    let _ = fs::remove_file(&marker);
    Ok(())
}

fn read(dir: &Path) -> Outcome<u64> {
    Ok(fs::read_to_string(dir.join("number"))?.parse()?)
}
