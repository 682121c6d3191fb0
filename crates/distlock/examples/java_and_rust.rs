//! Java's Redisson and Rust side by side on one lock: they exclude each other, wake each other, and survive each other.
//!
//! ```text
//! cargo xtask example java_and_rust
//! ```
//!
//! It needs `redis-server`, `java` and the Java program of interop/redisson, which Maven builds. `cargo xtask example` looks for all three first,
//! installs or builds those that are missing where it can, and compiles the example after that: the compilation takes minutes.
//! `cargo run --release --example java_and_rust` compiles at once. Exit code 3: something is missing; the example prints what.

use std::error::Error;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use distlock::{ErrorKind, Locks, Mutex};
use distlock_testkit::peer::{Kind, Peer, Version};
use distlock_testkit::{Flavor, Server};
use tokio::task::JoinSet;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Where the Java program is.
const VARIABLE: &str = "DISTLOCK_REDISSON";
const NAME: &str = "ledger";
const TURNS: u64 = 25;
const MOMENT: Duration = Duration::from_millis(1);
/// How long a lock outlives its holder, on both sides; longer than either of them may stand still.
const WATCHDOG: Duration = Duration::from_secs(10);
/// What is missing is not our fault.
const MISSING: u8 = 3;

fn main() -> ExitCode {
    if std::env::var_os(VARIABLE).is_none()
        && let Some(dir) = built()
    {
        // The testkit reads it from the environment.
        let program = std::env::current_exe().unwrap_or_default();
        let error = Command::new(program).env(VARIABLE, dir).exec();
        eprintln!("java_and_rust: {error}");
        return ExitCode::FAILURE;
    }
    match side_by_side() {
        Ok(Some(())) => ExitCode::SUCCESS,
        Ok(None) => ExitCode::from(MISSING),
        Err(error) => {
            eprintln!("java_and_rust: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Where `cargo xtask setup` puts it: into the target directory, which this program lies in.
fn built() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let peer = format!("redisson-{}", Version::Newest.number());
    program.ancestors().map(|dir| dir.join("interop")).find(|dir| dir.join(&peer).is_dir())
}

/// What the example cannot do without. Looked for before anything is started.
fn missing() -> Vec<String> {
    let mut missing = Vec::new();
    if Flavor::Redis.program().is_none() {
        missing.push("redis-server".to_owned());
    }
    let mut java = Command::new("java");
    java.arg("-version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if !java.status().is_ok_and(|status| status.success()) {
        missing.push("java".to_owned());
    }
    let peer = format!("redisson-{}", Version::Newest.number());
    let dir = std::env::var_os(VARIABLE).map(|dir| PathBuf::from(dir).join(&peer));
    if !dir.is_some_and(|dir| dir.join("classes").is_dir()) {
        missing.push(format!("the Java program with Redisson {}", Version::Newest.number()));
    }
    missing
}

#[tokio::main]
async fn side_by_side() -> Outcome<Option<()>> {
    let missing = missing();
    if !missing.is_empty() {
        let each = missing.join(", ");
        eprintln!(
            "missing: {each}; `cargo xtask setup` installs or builds it, or says why it cannot"
        );
        return Ok(None);
    }
    let server = Server::redis().await;
    let java = Peer::builder(Version::Newest).address(server.addr()).watchdog(WATCHDOG);
    let Some(java) = java.start().await else {
        return Err("Java with Redisson does not start".into());
    };
    let java = Arc::new(java);
    println!("Redisson {} and distlock on {}", java.version().number(), server.url());
    let locks = Locks::builder().url(server.url()).watchdog(WATCHDOG).connect().await?;
    let mutex = locks.mutex(NAME);
    each_sees_the_other(&java, &mutex).await?;
    take_turns(&java, &mutex).await?;
    outlive(&java, &mutex).await?;
    check(!mutex.is_locked().await?, "somebody left it locked")?;
    locks.close().await;
    println!("ok: Java and Rust took turns, and neither was ever in with the other");
    Ok(Some(()))
}

async fn each_sees_the_other(java: &Arc<Peer>, mutex: &Mutex) -> Outcome<()> {
    let thread = java.thread("main");
    thread.lock(Kind::Plain, NAME).await;
    let busy = mutex.lock().wait(10 * MOMENT).await.expect_err("Java has it");
    println!("Rust, while Java holds it: {busy}");
    check(busy.kind() == ErrorKind::WaitTimeout, "another error than a busy lock")?;
    check(busy.to_string().contains(java.uuid()), "it does not say who holds it")?;

    // Whoever waits is woken by the other's unlock.
    let waiting = tokio::spawn(mutex.lock().into_future());
    tokio::time::sleep(100 * MOMENT).await;
    let unlocked = Instant::now();
    thread.unlock(Kind::Plain, NAME).await;
    let guard = waiting.await??;
    println!("Java unlocked, and Rust had it after {:.1?}", unlocked.elapsed());

    let refused = thread.try_lock(Kind::Plain, NAME, Duration::ZERO, None).await;
    check(refused.is_none(), "Java came in although Rust holds it")?;
    let waiting = java.thread("other").lock(Kind::Plain, NAME);
    tokio::time::sleep(100 * MOMENT).await;
    let unlocked = Instant::now();
    guard.unlock().await?;
    waiting.await;
    println!("Rust unlocked, and Java had it after {:.1?}", unlocked.elapsed());
    java.thread("other").unlock(Kind::Plain, NAME).await;
    Ok(())
}

/// Two Java threads and two Rust tasks count: each reads the number, and writes it some time later.
async fn take_turns(java: &Arc<Peer>, mutex: &Mutex) -> Outcome<()> {
    let number = Arc::new(Number::default());
    let mut all = JoinSet::new();
    for name in ["one", "two"] {
        let (thread, counted) = (java.thread(name), number.clone());
        all.spawn(async move {
            for _ in 0..TURNS {
                thread.lock(Kind::Plain, NAME).await;
                counted.one_higher().await;
                thread.unlock(Kind::Plain, NAME).await;
            }
            Outcome::Ok(())
        });
        let (mutex, counted) = (mutex.clone(), number.clone());
        all.spawn(async move {
            for _ in 0..TURNS {
                let count = async |_| {
                    counted.one_higher().await;
                    Outcome::Ok(())
                };
                mutex.run(count).await?;
            }
            Outcome::Ok(())
        });
    }
    while let Some(done) = all.join_next().await {
        done??;
    }
    let counted = number.value.load(Ordering::SeqCst);
    println!("two Java threads and two Rust tasks, {TURNS} turns each: counted to {counted}");
    check(counted == 4 * TURNS, "updates were lost")?;
    check(!number.clash.load(Ordering::SeqCst), "two were inside at once")
}

/// The JVM is killed while it holds the lock: Rust has it when the lease ends.
async fn outlive(java: &Arc<Peer>, mutex: &Mutex) -> Outcome<()> {
    java.thread("main").lock(Kind::Plain, NAME).await;
    java.kill();
    let killed = Instant::now();
    check(mutex.try_lock().await?.is_none(), "a dead JVM's lock was free before its lease ended")?;
    let guard = mutex.lock().wait(20 * WATCHDOG).await?;
    println!("the JVM was killed; Rust had its lock after {:.1?}", killed.elapsed());
    Ok(guard.unlock().await?)
}

#[derive(Default)]
struct Number {
    value: AtomicU64,
    inside: AtomicBool,
    clash: AtomicBool,
}

impl Number {
    async fn one_higher(&self) {
        self.clash.fetch_or(self.inside.swap(true, Ordering::SeqCst), Ordering::SeqCst);
        let before = self.value.load(Ordering::SeqCst);
        tokio::time::sleep(MOMENT).await;
        self.value.store(before + 1, Ordering::SeqCst);
        self.inside.store(false, Ordering::SeqCst);
    }
}

fn check(is_so: bool, otherwise: &str) -> Outcome<()> {
    if is_so { Ok(()) } else { Err(otherwise.into()) }
}
