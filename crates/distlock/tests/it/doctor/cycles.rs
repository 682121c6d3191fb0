//! A cycle of each kind: taken, contended, entered again, renewed, released, forced, looked at, looked after.

use std::future::Future;
use std::time::Duration;

use distlock::store::Kind;
use distlock::{Error, Locks, MultiLock, Result};

/// Longer than a cycle takes.
const LEASE: Duration = Duration::from_secs(30);

/// Longer than it takes to get in when it is one's turn.
const LINE: Duration = Duration::from_secs(15);

/// Two clients, as good as two processes, and names for what they do.
pub(crate) struct Cycle {
    pub(crate) locks: Locks,
    pub(crate) other: Locks,
    /// How long the one that finds it busy waits.
    pub(crate) wait: Duration,
    /// What every name starts with.
    pub(crate) prefix: String,
    /// What went wrong, by the part in which it did; each part has names of its own and ends with its first error.
    pub(crate) troubles: Vec<(&'static str, Error)>,
}

/// Locks of one owner at a time share their verbs, not a type.
macro_rules! exclusive {
    ($cycle:ident, $lock:expr) => {{
        let wait = $cycle.wait;
        let at = |locks: &Locks, name: &str| $lock(locks, name);
        let (locks, other) = ($cycle.locks.clone(), $cycle.other.clone());
        let name = $cycle.name("contended");
        $cycle
            .part("contended", async {
                let guard = at(&locks, &name).lock().lease(LEASE).await?;
                let busy = at(&other, &name).try_lock().wait(wait).await;
                let extended = guard.extend(LEASE).await;
                let seen = at(&locks, &name).inspect().await;
                let done = guard.unlock().await;
                assert!(busy?.is_none(), "{name} is held");
                extended.and(seen.map(|seen| assert!(seen.is_held()))).and(done)
            })
            .await;
        let name = $cycle.name("again");
        $cycle
            .part("again", async {
                let me = locks.owner();
                let outer = at(&locks, &name).lock().owner(&me).lease(LEASE).await?;
                let inner = at(&locks, &name).lock().owner(&me).lease(LEASE).await;
                let left = match inner {
                    Ok(inner) => inner.unlock().await,
                    Err(error) => Err(error),
                };
                left.and(outer.unlock().await)
            })
            .await;
        let name = $cycle.name("forced");
        $cycle
            .part("forced", async {
                let held = at(&other, &name).lock().lease(LEASE).await?;
                let forced = at(&locks, &name).force_unlock().await;
                let left = held.unlock().await; // lost, where that worked
                forced.map(|was_held| assert!(was_held && left.is_err()))
            })
            .await;
    }};
}

impl Cycle {
    pub(crate) async fn of(&mut self, kind: Kind) {
        match kind {
            Kind::Mutex => exclusive!(self, |locks: &Locks, name: &str| locks.mutex(name)),
            Kind::Fair => {
                exclusive!(self, |locks: &Locks, name: &str| locks.fair(name));
                self.line().await;
            }
            Kind::Spin => exclusive!(self, |locks: &Locks, name: &str| locks.spin(name)),
            Kind::Simple => exclusive!(self, |locks: &Locks, name: &str| locks.simple(name)),
            Kind::Fenced => {
                exclusive!(self, |locks: &Locks, name: &str| locks.fenced(name));
                self.gate().await;
            }
            Kind::Rw => self.rw().await,
            Kind::Multi => self.multi().await,
            Kind::Semaphore => self.semaphore().await,
            Kind::LeasedSemaphore => self.leased_semaphore().await,
            Kind::Latch => self.latch().await,
            other => panic!("no cycle for {other}"),
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    async fn part(&mut self, part: &'static str, work: impl Future<Output = Result<()>>) {
        if let Err(error) = work.await {
            self.troubles.push((part, error));
        }
    }

    /// Three in a line, who get in one after the other.
    async fn line(&mut self) {
        let name = self.name("line");
        let (here, there) = (self.locks.clone(), self.other.clone());
        let work = async {
            let first = here.fair(&name).lock().lease(LEASE).await?;
            let wait = |locks: &Locks| {
                let waiting = locks.fair(&name).lock().wait(LINE).lease(LEASE);
                tokio::spawn(async move { waiting.await?.unlock().await })
            };
            let waiting = [wait(&there), wait(&here)];
            // Both have a place, or one of them could not have one.
            let placed = async || here.fair(&name).inspect().await.map(|seen| seen.queue.len());
            while !waiting.iter().any(|one| one.is_finished()) && placed().await? < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let mut done = first.unlock().await;
            if done.is_err() {
                // Nobody will get in before the lease ends.
                waiting.iter().for_each(|one| one.abort());
                return done;
            }
            for one in waiting {
                let entered = one.await.unwrap_or_else(|panic| panic!("{panic}"));
                done = done.and(entered);
            }
            done
        };
        self.part("line", work).await;
    }

    async fn gate(&mut self) {
        let gate = self.locks.fence_gate(self.name("gate"));
        let work = async {
            gate.admit(7).await?;
            gate.forget().await.map(drop)
        };
        self.part("gate", work).await;
    }

    async fn rw(&mut self) {
        let (wait, me) = (self.wait, self.locks.owner());
        let (here, there) = (self.locks.clone(), self.other.clone());
        let name = self.name("read");
        let work = async {
            let read = here.rw(&name).read().owner(&me).lease(LEASE).await?;
            let deeper = here.rw(&name).read().owner(&me).lease(LEASE).await;
            let busy = there.rw(&name).try_write().wait(wait).await;
            let extended = read.extend(LEASE).await;
            let seen = here.rw(&name).inspect().await.map(|seen| assert!(seen.is_held()));
            let left = match deeper {
                Ok(deeper) => deeper.unlock().await,
                Err(error) => Err(error),
            };
            let done = read.unlock().await;
            assert!(busy?.is_none(), "{name} is read");
            extended.and(seen).and(left).and(done)
        };
        self.part("read", work).await;
        let name = self.name("write");
        let work = async {
            let write = here.rw(&name).write().owner(&me).lease(LEASE).await?;
            let deeper = here.rw(&name).write().owner(&me).lease(LEASE).await;
            let busy = there.rw(&name).try_read().wait(wait).await;
            let extended = write.extend(LEASE).await;
            let left = match deeper {
                Ok(deeper) => deeper.unlock().await,
                Err(error) => Err(error),
            };
            let read = write.downgrade().await;
            let done = match read {
                Ok(read) => read.unlock().await,
                Err(error) => Err(error),
            };
            assert!(busy?.is_none(), "{name} is written");
            extended.and(left).and(done)
        };
        self.part("write", work).await;
        for (part, write) in [("forced read", false), ("forced write", true)] {
            let name = self.name(part);
            let work = async {
                let rw = there.rw(&name);
                let forced = if write {
                    let held = rw.write().lease(LEASE).await?;
                    let forced = here.rw(&name).force_unlock_write().await;
                    drop(held.unlock().await);
                    forced
                } else {
                    let held = rw.read().lease(LEASE).await?;
                    let forced = here.rw(&name).force_unlock_read().await;
                    drop(held.unlock().await);
                    forced
                };
                forced.map(|was_held| assert!(was_held))
            };
            self.part(part, work).await;
        }
        let (name, data) = (self.name("{g}guarded"), self.name("{g}data"));
        let work = async {
            let read = here.rw(&name).read().lease(LEASE).await?;
            let look = distlock::store::Command::new("PTTL").key(&data);
            let sent = read.send(&look).await.map(drop);
            sent.and(read.unlock().await)
        };
        self.part("guarded", work).await;
    }

    async fn multi(&mut self) {
        let names = ["m1", "m2"].map(|name| self.name(name));
        let (here, there) = (self.locks.clone(), self.other.clone());
        let wait = self.wait;
        let work = async {
            let of =
                |locks: &Locks| MultiLock::new(names.iter().map(|name| locks.mutex(name).into()));
            let both = of(&here).lock().wait(LINE).lease(LEASE).await?;
            let busy = of(&there).try_lock().wait(wait).await;
            let extended = both.extend(LEASE).await;
            let seen = here.mutex(&names[0]).inspect().await.map(drop);
            let done = both.unlock().await;
            assert!(busy?.is_none(), "both are held");
            extended.and(seen).and(done)?;
            let held = there.mutex(&names[0]).lock().wait(LINE).lease(LEASE).await?;
            let forced = here.mutex(&names[0]).force_unlock().await;
            drop(held.unlock().await);
            forced.map(|was_held| assert!(was_held))
        };
        self.part("multi", work).await;
    }

    async fn semaphore(&mut self) {
        let (here, there) = (self.locks.clone(), self.other.clone());
        let (wait, name) = (self.wait, self.name("permits"));
        let work = async {
            let semaphore = here.semaphore(&name).with_permits(2);
            let permits = semaphore.acquire(2).await?;
            let busy = there.semaphore(&name).try_acquire(1).wait(wait).await;
            let seen = semaphore.inspect().await.map(drop);
            let done = permits.release().await;
            assert!(busy?.is_none(), "all are out");
            seen.and(done)
        };
        self.part("permits", work).await;
        let name = self.name("admin");
        let work = async {
            let semaphore = here.semaphore(&name);
            semaphore.init(2).await?;
            semaphore.add(2).await?;
            semaphore.available().await?;
            semaphore.release(1).await?;
            semaphore.drain().await?;
            semaphore.add(1).await?;
            let held = there.semaphore(&name).acquire(1).await?;
            let forced = semaphore.force_unlock().await;
            drop(held.release().await);
            semaphore.delete().await.and(forced).map(drop)
        };
        self.part("admin", work).await;
        // Renewed for as long as it is held, by a look at whether it still is.
        let name = self.name("kept");
        let work = async {
            let brief = here.semaphore(&name).with_permits(1);
            let permits = brief.acquire(1).await?;
            permits.release().await
        };
        self.part("kept", work).await;
    }

    async fn leased_semaphore(&mut self) {
        let (here, there) = (self.locks.clone(), self.other.clone());
        let (wait, name) = (self.wait, self.name("permits"));
        let work = async {
            let semaphore = here.leased_semaphore(&name).with_permits(2);
            let permits = semaphore.acquire(2).lease(LEASE).await?;
            let busy = there.leased_semaphore(&name).try_acquire(1).wait(wait).await;
            let extended = permits.extend(LEASE).await;
            let seen = semaphore.inspect().await.map(drop);
            let done = permits.release().await;
            assert!(busy?.is_none(), "all are out");
            extended.and(seen).and(done)
        };
        self.part("permits", work).await;
        // A permit whose lease is over comes back when somebody looks.
        let name = self.name("over");
        let work = async {
            let semaphore = here.leased_semaphore(&name).with_permits(1);
            let ids = {
                let permits = semaphore.acquire(1).lease(Duration::from_millis(50)).await?;
                let ids = permits.ids();
                permits.leak();
                ids
            };
            while semaphore.remaining(ids[0]).await?.is_some() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            semaphore.acquire(1).lease(LEASE).await?.release().await
        };
        self.part("over", work).await;
        let name = self.name("admin");
        let work = async {
            let semaphore = here.leased_semaphore(&name);
            semaphore.init(2).await?;
            semaphore.add(2).await?;
            semaphore.set(3).await?;
            semaphore.available().await?;
            semaphore.acquired().await?;
            let permits = semaphore.acquire(1).lease(LEASE).await?;
            let ids = permits.ids();
            permits.leak();
            semaphore.extend(ids[0], LEASE).await?;
            semaphore.remaining(ids[0]).await?;
            semaphore.release(&ids).await?;
            let held = there.leased_semaphore(&name).acquire(1).lease(LEASE).await?;
            let forced = semaphore.force_unlock().await;
            drop(held.release().await);
            semaphore.delete().await.and(forced).map(drop)
        };
        self.part("admin", work).await;
    }

    async fn latch(&mut self) {
        let (wait, name) = (self.wait, self.name("latch"));
        let (here, there) = (self.locks.latch(&name), self.other.latch(&name));
        let work = async {
            here.init(2).await?;
            let open = there.wait_for(wait).await;
            here.count().await?;
            assert!(!open?, "it is closed");
            here.count_down().await?;
            here.count_down().await?;
            assert!(there.wait_for(wait).await?, "it is open");
            here.reset(3).await?;
            here.delete().await.map(drop)
        };
        self.part("latch", work).await;
    }
}
