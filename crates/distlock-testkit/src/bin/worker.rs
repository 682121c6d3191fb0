//! A program that locks what it is told to lock, so that a test can stop, kill and outlive a holder.
//!
//! A command a line, an answer a line. An answer that starts with `error` goes on with the kind of the error and its text.
//!
//! ```text
//! connect URL WATCHDOG_MS      connected
//! lock NAME [LEASE_MS]         locked OWNER
//! try NAME WAIT_MS LEASE_MS    locked OWNER | busy                (lease 0: the watchdog's)
//! fair NAME                    locked OWNER                       (a fair lock)
//! read NAME                    locked OWNER                       (to read, for as long as it lives)
//! write NAME                   locked OWNER                       (to write, likewise)
//! unlock [NAME]                unlocked                           (without a name: the last one locked)
//! drop [NAME]                  dropped
//! state [NAME]                 state Held|Suspect|Lost REMAINING_MS
//! watch [NAME]                 watching; later, by itself: lost NAME
//! force NAME                   forced true|false
//! permits NAME N               taken OWNER                        (of a semaphore)
//! leases NAME N                taken ID…                          (of a leased semaphore)
//! count N NAME FILE            counted N                          (N times: lock, add 1 to the number in the file, unlock)
//! block MS                     blocked                            (the whole runtime, meanwhile)
//! close                        closed                             (everything still held is released)
//! ```
//! It closes and ends when its input does.

use std::io::{Write, stdout};
use std::str::SplitWhitespace;
use std::time::Duration;

use distlock::{Error, ErrorKind, Guard, Locks, Permits, ReadGuard, Result, WriteGuard};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    let mut worker = Worker::default();
    let mut lines = BufReader::new(stdin()).lines();
    say("ready");
    while let Some(line) = lines.next_line().await? {
        match worker.obey(&line).await {
            Ok(answer) => say(&answer),
            Err(error) => say(&format!("error {:?} {error}", error.kind())),
        }
    }
    worker.close().await;
    Ok(())
}

/// One write, so that lines of two tasks do not mix. A test that is gone hears nothing.
fn say(line: &str) {
    let mut out = stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
}

#[derive(Default)]
struct Worker {
    locks: Option<Locks>,
    guards: Vec<Guard>,
    reads: Vec<ReadGuard>,
    writes: Vec<WriteGuard>,
    permits: Vec<Permits>,
}

impl Worker {
    async fn obey(&mut self, line: &str) -> Result<String> {
        let mut words = line.split_whitespace();
        Ok(match words.next().unwrap_or_default() {
            "connect" => {
                let (url, watchdog) = (word(&mut words)?, millis(&mut words)?);
                self.locks = Some(Locks::builder().url(url).watchdog(watchdog).connect().await?);
                "connected".to_owned()
            }
            "lock" => {
                let mut request = self.locks()?.mutex(word(&mut words)?).lock();
                if words.clone().next().is_some() {
                    request = request.lease(millis(&mut words)?);
                }
                let guard = request.await?;
                self.keep(guard)
            }
            "try" => {
                let (name, wait) = (word(&mut words)?, millis(&mut words)?);
                let lease = millis(&mut words)?;
                let mut request = self.locks()?.mutex(name).try_lock().wait(wait);
                if !lease.is_zero() {
                    request = request.lease(lease);
                }
                match request.await? {
                    Some(guard) => self.keep(guard),
                    None => "busy".to_owned(),
                }
            }
            "fair" => {
                let guard = self.locks()?.fair(word(&mut words)?).lock().await?;
                self.keep(guard)
            }
            "read" => {
                let guard = self.locks()?.rw(word(&mut words)?).read().await?;
                let answer = format!("locked {}", guard.owner());
                self.reads.push(guard);
                answer
            }
            "write" => {
                let guard = self.locks()?.rw(word(&mut words)?).write().await?;
                let answer = format!("locked {}", guard.owner());
                self.writes.push(guard);
                answer
            }
            "unlock" => {
                self.take(words.next())?.unlock().await?;
                "unlocked".to_owned()
            }
            "drop" => {
                drop(self.take(words.next())?);
                "dropped".to_owned()
            }
            "state" => {
                let guard = self.find(words.next())?;
                format!("state {:?} {}", guard.state(), guard.remaining().as_millis())
            }
            "watch" => {
                let guard = self.find(words.next())?;
                let (lost, name) = (guard.lost(), guard.name().to_owned());
                tokio::spawn(async move {
                    lost.await;
                    say(&format!("lost {name}"));
                });
                "watching".to_owned()
            }
            "force" => {
                let forced = self.locks()?.mutex(word(&mut words)?).force_unlock().await?;
                format!("forced {forced}")
            }
            "permits" => {
                let semaphore = self.locks()?.semaphore(word(&mut words)?);
                let permits = semaphore.acquire(number(&mut words)? as u32).await?;
                let answer = format!("taken {}", permits.owner());
                self.permits.push(permits);
                answer
            }
            "leases" => {
                let semaphore = self.locks()?.leased_semaphore(word(&mut words)?);
                let permits = semaphore.acquire(number(&mut words)? as u32).await?;
                let ids: Vec<String> = permits.ids().iter().map(ToString::to_string).collect();
                self.permits.push(permits);
                format!("taken {}", ids.join(" "))
            }
            "count" => {
                let times = number(&mut words)?;
                let (name, file) = (word(&mut words)?, word(&mut words)?);
                self.count(times, name, file).await?;
                format!("counted {times}")
            }
            "block" => {
                std::thread::sleep(millis(&mut words)?);
                "blocked".to_owned()
            }
            "close" => {
                self.close().await;
                "closed".to_owned()
            }
            other => return Err(misused(&format!("no such command: {other:?}"))),
        })
    }

    fn locks(&self) -> Result<&Locks> {
        self.locks.as_ref().ok_or_else(|| misused("not connected"))
    }

    fn keep(&mut self, guard: Guard) -> String {
        let answer = format!("locked {}", guard.owner());
        self.guards.push(guard);
        answer
    }

    fn position(&self, name: Option<&str>) -> Result<usize> {
        let is_meant = |guard: &Guard| name.is_none_or(|name| guard.name() == name);
        self.guards.iter().rposition(is_meant).ok_or_else(|| misused("no such guard"))
    }

    fn find(&self, name: Option<&str>) -> Result<&Guard> {
        Ok(&self.guards[self.position(name)?])
    }

    fn take(&mut self, name: Option<&str>) -> Result<Guard> {
        Ok(self.guards.remove(self.position(name)?))
    }

    /// Reads and writes in two steps: two processes inside at once lose counts.
    async fn count(&self, times: u64, name: &str, file: &str) -> Result<()> {
        let trouble = |why: std::io::Error| misused(&format!("{file}: {why}"));
        let mutex = self.locks()?.mutex(name);
        for _ in 0..times {
            let guard = mutex.lock().await?;
            let before = std::fs::read_to_string(file).map_err(trouble)?;
            let before: u64 = before.trim().parse().map_err(|_| misused("no number in it"))?;
            tokio::task::yield_now().await;
            std::fs::write(file, format!("{}\n", before + 1)).map_err(trouble)?;
            guard.unlock().await?;
        }
        Ok(())
    }

    async fn close(&mut self) {
        if let Some(locks) = self.locks.take() {
            locks.close().await;
        }
        self.guards.clear();
        self.reads.clear();
        self.writes.clear();
        self.permits.clear();
    }
}

fn word<'a>(words: &mut SplitWhitespace<'a>) -> Result<&'a str> {
    words.next().ok_or_else(|| misused("an argument is missing"))
}

fn number(words: &mut SplitWhitespace<'_>) -> Result<u64> {
    word(words)?.parse().map_err(|_| misused("not a number"))
}

fn millis(words: &mut SplitWhitespace<'_>) -> Result<Duration> {
    number(words).map(Duration::from_millis)
}

fn misused(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}
