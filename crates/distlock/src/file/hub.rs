//! What all stores of this process on one directory share: open files, who we are, and who listens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use uuid::Uuid;

use crate::error::Result;
use crate::owner::Owner;
use crate::store::Topic;

use super::PAUSE;
use super::bell::{self, Bell};
use super::dir::Dir;
use super::life::{self, Life, Lives};
use super::mount::System;
use super::name::STRIPES;
use super::state::StateFile;
use super::step::TRIES;
use super::watch::Watch;

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) dir: Dir,
    pub(super) boot: Uuid,
    /// Who opened it. A forked child shares the open files, and with them the locks: it must not use them.
    pub(super) pid: u32,
    pub(super) shards: Vec<Mutex<Shard>>,
    pub(super) me: Mutex<Option<Me>>,
    pub(super) lives: Lives,
    /// How many topics there are.
    pub(super) listening: AtomicUsize,
    /// In which state files, a bit each, there may be ears behind which nobody listens.
    pub(super) left: AtomicU64,
    pub(super) watch: Watch,
}

/// How others know this process.
#[derive(Debug)]
pub(super) struct Me {
    pub(super) life: Life,
    pub(super) bell: Option<Arc<Bell>>,
}

/// One state file, as this process uses it. The mutex around it is for our threads what the file's lock is for processes.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) file: Option<StateFile>,
    pub(super) topics: HashMap<(u128, Option<Owner>), Local>,
}

/// Those in this process who listen to a name, or for one waiter.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) topic: Arc<Topic>,
    pub(super) listeners: u32,
    pub(super) name: Arc<str>,
    /// How many calls were heard.
    pub(super) heard: u64,
}

impl Hub {
    /// The one of this process for that directory.
    pub(super) fn open(path: &Path) -> Result<Arc<Hub>> {
        static HUBS: OnceLock<Mutex<HashMap<PathBuf, Weak<Hub>>>> = OnceLock::new();
        let boot = life::boot_id()?;
        let dir = Dir::open(path)?;
        let mut hubs =
            HUBS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        hubs.retain(|_, hub| hub.strong_count() > 0);
        if let Some(hub) = hubs.get(dir.path()).and_then(Weak::upgrade)
            && hub.pid == std::process::id()
        {
            return Ok(hub);
        }
        let known = dir.path().to_owned();
        System::of(&known).warn_if_opaque(&known);
        let hub = Arc::new(Hub {
            dir,
            boot,
            pid: std::process::id(),
            shards: (0..STRIPES).map(|_| Mutex::default()).collect(),
            me: Mutex::default(),
            lives: Lives::new(boot),
            listening: AtomicUsize::new(0),
            left: AtomicU64::new(0),
            watch: Watch::default(),
        });
        hubs.insert(known, Arc::downgrade(&hub));
        Ok(hub)
    }

    pub(super) fn me(&self) -> MutexGuard<'_, Option<Me>> {
        self.me.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By which others know this process.
    pub(super) fn id(&self) -> Result<Uuid> {
        let mut me = self.me();
        if let Some(me) = &mut *me {
            // Without its file nobody would know when it is dead.
            if !me.life.named.is_found() {
                me.life.show_again(&self.dir, self.boot)?;
            }
            return Ok(me.life.id);
        }
        let life = Life::begin(&self.dir, self.boot)?;
        let id = life.id;
        *me = Some(Me { life, bell: None });
        Ok(id)
    }

    /// The same, if others know it.
    pub(super) fn known_id(&self) -> Option<Uuid> {
        self.me().as_ref().map(|me| me.life.id)
    }

    /// The pipe by which others call this process; `None` if there can be none.
    pub(super) fn bell(&self) -> Result<Option<Arc<Bell>>> {
        let id = self.id()?;
        let mut me = self.me();
        let Some(me) = &mut *me else { return Ok(None) };
        if let Some(lost) = me.bell.take_if(|bell| !bell.named.is_found()) {
            lost.nudge(); // whoever hears has to take the new one
        }
        if me.bell.is_none() {
            match Bell::hang(&self.dir, id) {
                Ok(bell) => me.bell = Some(Arc::new(bell)),
                Err(cause) => self.watch.warn_of_polling(&cause.into()),
            }
        }
        Ok(me.bell.clone())
    }

    /// The same, if there is one.
    pub(super) fn hung_bell(&self) -> Option<Arc<Bell>> {
        self.me().as_ref().and_then(|me| me.bell.clone())
    }

    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Acquire) > 0
    }

    pub(super) fn shard(&self, stripe: usize) -> MutexGuard<'_, Shard> {
        self.shards[stripe].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves the directory as if we had not been there, but for what is still held: that ends with the process.
impl Drop for Hub {
    fn drop(&mut self) {
        if self.pid != std::process::id() {
            return;
        }
        for _ in 0..TRIES {
            self.tidy_up();
            if !self.is_untidy() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        let me = self.me().take();
        // What is in a file that cannot be used keeps nobody's name alive: there would be one more for every process.
        let held = me.as_ref().is_some_and(|me| self.knows(me.life.id, false));
        (0..STRIPES).for_each(|stripe| self.clear_away(stripe));
        let Some(Me { life, bell }) = me else { return };
        if let Some(bell) = bell {
            bell.nudge();
            bell::remove(&self.dir, life.id);
        }
        if held {
            // Locked until the process ends.
            std::mem::forget(life);
        } else {
            life.end();
        }
    }
}
