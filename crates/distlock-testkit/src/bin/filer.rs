//! One of several processes that use one `file:` store until they are done or killed.
//!
//! ```text
//! filer count KIND TIMES NAME FILE URL   counted TIMES   (mutex, fair or write; each time adds 1 to the number in the file)
//! filer leak NAME URL                    leaked          (and ends, holding it)
//! filer list URL                         listed NAME…    (of what is held)
//! filer work SEED DIR URL                working, and goes on for ever with locks of every kind
//! ```
//! `work` says `violation …` when it meets somebody inside, or sees what must not be: then it ends.

use std::fs;
use std::io::{ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use distlock::Locks;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match &args[..] {
        ["count", kind, times, name, file, url] => {
            let locks = Locks::connect(url).await?;
            for _ in 0..times.parse()? {
                count(&locks, kind, name, Path::new(file)).await?;
            }
            say(&format!("counted {times}"));
            locks.close().await;
        }
        ["leak", name, url] => {
            let locks = Locks::connect(url).await?;
            locks.mutex(*name).lock().await?.leak();
            say("leaked");
        }
        ["list", url] => {
            let held = Locks::connect(url).await?.list("").await?;
            let names: Vec<&str> = held.iter().map(|lock| &*lock.name).collect();
            say(&format!("listed {}", names.join(" ")));
        }
        ["work", seed, dir, url] => {
            let locks = Locks::connect(url).await?;
            let mut random = Random(seed.parse()?);
            say("working");
            loop {
                if let Err(wrong) = work(&locks, &mut random, Path::new(dir)).await {
                    say(&format!("violation {wrong}"));
                    return Err(wrong);
                }
            }
        }
        _ => return Err("filer count|leak|list|work …".into()),
    }
    Ok(())
}

fn say(line: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

/// Reads and writes in two steps: two processes inside at once lose counts.
async fn add_one(file: &Path) -> Outcome<()> {
    let before: u64 = fs::read_to_string(file)?.trim().parse()?;
    tokio::task::yield_now().await;
    Ok(fs::write(file, format!("{}\n", before + 1))?)
}

async fn count(locks: &Locks, kind: &str, name: &str, file: &Path) -> Outcome<()> {
    match kind {
        "write" => {
            let guard = locks.rw(name).write().await?;
            add_one(file).await?;
            guard.unlock().await?;
        }
        "fair" => {
            let guard = locks.fair(name).lock().await?;
            add_one(file).await?;
            guard.unlock().await?;
        }
        _ => {
            let guard = locks.mutex(name).lock().await?;
            add_one(file).await?;
            guard.unlock().await?;
        }
    }
    Ok(())
}

/// Small and seeded: what a process does can be done again.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// One piece of work, with a lock of any kind.
async fn work(locks: &Locks, random: &mut Random, dir: &Path) -> Outcome<()> {
    let wait = Duration::from_secs(60);
    let leave = random.below(2) == 0;
    match random.below(9) {
        0 => {
            let guard = locks.mutex("mutex").lock().wait(wait).await?;
            Inside::enter(dir, "mutex")?.pass(random).await?;
            if leave {
                guard.unlock().await?
            }
        }
        1 => {
            let guard = locks.fair("fair").lock().wait(wait).await?;
            Inside::enter(dir, "fair")?.pass(random).await?;
            if leave {
                guard.unlock().await?
            }
        }
        2 => {
            let guard = locks.rw("rw").write().wait(wait).await?;
            Inside::enter(dir, "rw")?.pass(random).await?;
            if leave {
                guard.unlock().await?
            }
        }
        3 => {
            let guard = locks.rw("rw").read().wait(wait).await?;
            if let Some(other) = Inside::somebody(dir, "rw") {
                return Err(format!("a reader meets the writer {other}").into());
            }
            if leave {
                guard.unlock().await?
            }
        }
        4 => {
            let guard = locks.fenced("fenced").lock().wait(wait).await?;
            let inside = Inside::enter(dir, "fenced")?;
            let file = dir.join("token");
            let last: u64 = fs::read_to_string(&file).unwrap_or_default().parse().unwrap_or(0);
            if guard.token() <= last {
                return Err(format!("token {} after {last}", guard.token()).into());
            }
            // In one step: a number that is half-written by one that is killed is no number.
            fs::write(dir.join("token.new"), guard.token().to_string())?;
            fs::rename(dir.join("token.new"), &file)?;
            inside.pass(random).await?;
            if leave {
                guard.unlock().await?
            }
        }
        5 => {
            let permits =
                locks.semaphore("semaphore").with_permits(3).acquire(2).wait(wait).await?;
            Inside::enter(dir, "semaphore")?.pass(random).await?;
            if leave {
                permits.unlock().await?
            }
        }
        6 => {
            let leased = locks.leased_semaphore("leased").with_permits(3);
            let permits = leased.acquire(2).wait(wait).await?;
            Inside::enter(dir, "leased")?.pass(random).await?;
            if leave {
                permits.unlock().await?
            }
        }
        7 => {
            // Nobody meets anybody there: what must not be is a count that nobody has set.
            let latch = locks.latch("latch");
            latch.init(2).await?;
            let left = latch.count_down().await?;
            if !(0..2).contains(&left) {
                return Err(format!("{left} are left of a latch of two").into());
            }
            if leave {
                latch.wait_for(Duration::from_micros(random.below(3000))).await?;
            }
        }
        _ => {
            let guard = locks.simple("simple").lock().wait(wait).await?;
            Inside::enter(dir, "simple")?.pass(random).await?;
            if leave {
                guard.unlock().await?
            }
        }
    }
    Ok(())
}

/// A file that says who is inside. One who was killed there has left it behind.
struct Inside(PathBuf);

impl Inside {
    fn enter(dir: &Path, name: &str) -> Outcome<Inside> {
        let path = dir.join(format!("inside-{name}"));
        if let Some(other) = Inside::somebody(dir, name) {
            return Err(format!("{} meets {other} in {name}", std::process::id()).into());
        }
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => return Err(cause.into()),
            _ => {}
        }
        let mut file = fs::File::create_new(&path)
            .map_err(|cause| format!("another came into {name}: {cause}"))?;
        write!(file, "{}", std::process::id())?;
        Ok(Inside(path))
    }

    /// Who is inside and alive.
    fn somebody(dir: &Path, name: &str) -> Option<u32> {
        let text = fs::read_to_string(dir.join(format!("inside-{name}"))).ok()?;
        let pid: u32 = text.parse().ok()?;
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let state = stat.rsplit_once(") ")?.1.chars().next()?;
        (pid != std::process::id() && !matches!(state, 'Z' | 'X')).then_some(pid)
    }

    /// Stays for a moment.
    async fn pass(self, random: &mut Random) -> Outcome<()> {
        if random.below(4) == 0 {
            tokio::time::sleep(Duration::from_micros(random.below(3000))).await;
        }
        Ok(fs::remove_file(&self.0)?)
    }
}
