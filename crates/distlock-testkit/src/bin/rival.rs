//! One of several processes that fight for one lock, some of them Java's: `rival URL PLACE`.
//!
//! `PLACE` is the URL of the plain server where histories are kept. Says `ready`, and then, a line each:
//!
//! ```text
//! stress KIND NAME KEY WHO MS       done TIMES
//! ```
//!
//! Goes in and out for so long and leaves a history as `distlock_testkit::history` says. `KIND` is a kind of lock of the library's, or
//! `read` or `write`; `multi` takes several names with commas between them. Commands run side by side; each answer names its
//! `WHO`: `done WHO TIMES`, or `failed WHO` and why.

use std::error::Error;
use std::io::{Write, stdout};
use std::time::{Duration, Instant};

use distlock::Locks;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Longer than any pause of a busy machine: a lease that ended in here would look like a broken lock.
const LEASE: Duration = Duration::from_secs(60);

#[tokio::main(worker_threads = 2)]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, place] = &args[..] else { return Err("rival URL PLACE".into()) };
    let locks = Locks::connect(url).await?;
    // Without a limit: on a machine that does other things an answer may come late, and then it still counts.
    let config = AsyncConnectionConfig::new().set_connection_timeout(None);
    let config = config.set_response_timeout(None);
    let place = redis::Client::open(place.as_str())?;
    let place = place.get_multiplexed_async_connection_with_config(&config).await?;
    say("ready");
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let [stress, kind, name, key, who, ms] = &words[..] else {
            return Err(format!("not a command: {line:?}").into());
        };
        assert_eq!(stress, "stress");
        let mut history = History { place: place.clone(), key: key.clone(), who: who.clone() };
        let (locks, kind, name) = (locks.clone(), kind.clone(), name.clone());
        let time = Duration::from_millis(ms.parse()?);
        tokio::spawn(async move {
            let done = stress_for(&locks, &kind, &name, &mut history, time).await;
            match done {
                Ok(times) => say(&format!("done {} {times}", history.who)),
                Err(error) => say(&format!("failed {} {error}", history.who)),
            }
        });
    }
    locks.close().await;
    Ok(())
}

/// One write, so that lines of two tasks do not mix. A test that is gone hears nothing.
fn say(line: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

async fn stress_for(
    locks: &Locks,
    kind: &str,
    name: &str,
    history: &mut History,
    time: Duration,
) -> Outcome<u64> {
    let until = Instant::now() + time;
    let mut times = 0;
    while Instant::now() < until {
        once(locks, kind, name, history, times).await?;
        times += 1;
    }
    Ok(times)
}

/// Takes one, does what is to be done inside, and lets go.
macro_rules! inside {
    ($lock:expr, $history:ident, $time:ident, $how:ident, $guard:ident => $token:expr) => {{
        // By turns with a lease and with the watchdog: they end differently.
        let request = $lock;
        let $guard = if $time % 2 == 0 { request.await? } else { request.lease(LEASE).await? };
        $history.$how($token).await?;
        $guard.unlock().await?;
    }};
}

async fn once(
    locks: &Locks,
    kind: &str,
    name: &str,
    history: &mut History,
    time: u64,
) -> Outcome<()> {
    match kind {
        "mutex" => inside!(locks.mutex(name).lock(), history, time, alone, guard => 0),
        "fair" => inside!(locks.fair(name).lock(), history, time, alone, guard => 0),
        "spin" => inside!(locks.spin(name).lock(), history, time, alone, guard => 0),
        "fenced" => {
            inside!(locks.fenced(name).lock(), history, time, alone, guard => guard.token());
        }
        "multi" => {
            inside!(locks.multi(name.split(',')).lock(), history, time, alone, guard => 0);
        }
        "read" => inside!(locks.rw(name).read(), history, time, shared, guard => 0),
        "write" => inside!(locks.rw(name).write(), history, time, alone, guard => 0),
        "leased_semaphore" => {
            let semaphore = locks.leased_semaphore(name);
            inside!(semaphore.acquire(1), history, time, shared, guard => 0);
        }
        "semaphore" => {
            let permits = locks.semaphore(name).acquire(1).await?;
            history.shared(0).await?;
            permits.unlock().await?;
        }
        other => return Err(format!("no such kind: {other}").into()),
    }
    Ok(())
}

/// Where it is told who was inside.
struct History {
    place: MultiplexedConnection,
    key: String,
    who: String,
}

impl History {
    async fn alone(&mut self, token: u64) -> Outcome<()> {
        let number = format!("{}:number", self.key);
        self.tell(&format!("in {} alone {token}", self.who)).await?;
        let before: Option<u64> =
            redis::cmd("GET").arg(&number).query_async(&mut self.place).await?;
        let after = before.unwrap_or_default() + 1;
        let () = redis::cmd("SET").arg(&number).arg(after).query_async(&mut self.place).await?;
        self.tell(&format!("out {}", self.who)).await
    }

    async fn shared(&mut self, _token: u64) -> Outcome<()> {
        self.tell(&format!("in {} shared 0", self.who)).await?;
        self.tell(&format!("out {}", self.who)).await
    }

    async fn tell(&mut self, step: &str) -> Outcome<()> {
        let list = format!("{}:history", self.key);
        let mut command = redis::cmd("RPUSH");
        Ok(command.arg(list).arg(step).query_async(&mut self.place).await?)
    }
}
