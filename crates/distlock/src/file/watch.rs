//! The thread that hears: calls from other processes, and their deaths.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use uuid::Uuid;

use super::bell::Bell;
use super::hub::Hub;
use super::life::State;

/// How often one looks for calls that did not arrive: whoever was to call may have been killed before it did.
const LOOK: Duration = Duration::from_secs(1);

/// The same where there are no pipes: a look costs some microseconds, and a person does not notice the delay.
const LOOK_WITHOUT_PIPE: Duration = Duration::from_millis(20);

/// How often one looks whether a process lives whose end cannot be waited for, and whether a state file that has to be tidied is free.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Watched>);

#[derive(Debug, Default)]
struct Watched {
    running: bool,
    warned: bool,
    /// Those whose end can be waited for.
    ends: HashMap<Uuid, Arc<OwnedFd>>,
    /// Those that have to be looked at.
    others: HashSet<Uuid>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Watched> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody listens: there has to be a thread that hears.
    pub(super) fn start(&self, hub: &Arc<Hub>) {
        let bell = hub.hung_bell();
        let mut watched = self.lock();
        if watched.running {
            if let Some(bell) = bell {
                bell.nudge(); // it may be asleep for good
            }
            return;
        }
        let weak = Arc::downgrade(hub);
        let thread = std::thread::Builder::new().name("distlock-file".to_owned());
        match thread.spawn(move || hear(&weak)) {
            Ok(_) => watched.running = true,
            // The engine comes again by itself, if not as soon.
            Err(cause) => {
                tracing::warn!(target: "distlock", %cause, "cannot start the thread that waits for releases: waiters poll")
            }
        }
    }

    /// Says once that there will be polling.
    pub(super) fn warn_of_polling(&self, cause: &io::Error) {
        if !std::mem::replace(&mut self.lock().warned, true) {
            tracing::warn!(
                target: "distlock", %cause,
                "cannot create a named pipe in the directory of the locks: waiters poll every 20 ms"
            );
        }
    }

    /// Wakes those who listen here when one of these is dead.
    pub(super) fn follow(&self, hub: &Hub, processes: &[Uuid]) {
        let mut watched = self.lock();
        let mut more = false;
        for process in processes {
            if watched.ends.contains_key(process) || watched.others.contains(process) {
                continue;
            }
            more = true;
            match hub.lives.end_of(&hub.dir, *process) {
                Some(end) => drop(watched.ends.insert(*process, Arc::new(end))),
                None => drop(watched.others.insert(*process)),
            }
        }
        drop(watched);
        if more && let Ok(Some(bell)) = hub.bell() {
            bell.nudge();
        }
    }

    fn ended(&self, process: Uuid) {
        let mut watched = self.lock();
        watched.ends.remove(&process);
        // Its lock may outlast it by a moment, if a child of it was just being born.
        watched.others.insert(process);
    }
}

/// Hears until there is no hub.
fn hear(hub: &Weak<Hub>) {
    let (mut looked, mut tidied) = (Instant::now(), Instant::now());
    loop {
        let Some(now) = hub.upgrade() else { return };
        let bell = now.hung_bell();
        let look = if bell.is_some() { LOOK } else { LOOK_WITHOUT_PIPE };
        let (ends, wait) = {
            let mut watched = now.watch.lock();
            if !now.is_listening() {
                watched.ends.clear();
                watched.others.clear();
            }
            let wait = match (watched.others.is_empty() && !now.is_untidy(), now.is_listening()) {
                (true, false) => None,
                (true, true) => Some(look),
                (false, _) => Some(LOOK_AGAIN.min(look)),
            };
            let ends: Vec<_> = watched.ends.iter().map(|(id, end)| (*id, end.clone())).collect();
            (ends, wait)
        };
        // It must be able to go while we sleep.
        drop(now);
        let woken = sleep(bell.as_deref(), &ends, wait.or(bell.is_none().then_some(look)));
        let Some(hub) = hub.upgrade() else { return };
        for (process, _) in
            ends.iter().zip(&woken.ends).filter_map(|(end, ended)| ended.then_some(end))
        {
            hub.watch.ended(*process);
        }
        if let Some(bell) = &bell {
            let heard = bell.heard();
            heard.calls.into_iter().for_each(|call| hub.called(call));
            if heard.overflown {
                hub.wake_all();
            }
        }
        // Not at once: whoever was inside may still be, and somebody may listen again.
        if tidied.elapsed() >= LOOK_AGAIN {
            hub.tidy_up();
            tidied = Instant::now();
        }
        look_for_dead(&hub);
        if hub.is_listening() && looked.elapsed() >= look {
            hub.look_for_missed_calls();
            looked = Instant::now();
        }
    }
}

/// Wakes everybody here if one of those that have to be looked at is dead: whoever is woken finds out what that one left.
fn look_for_dead(hub: &Hub) {
    let others: Vec<Uuid> = hub.watch.lock().others.iter().copied().collect();
    let mut dead = false;
    for process in others {
        hub.lives.doubt(process);
        match hub.lives.state(&hub.dir, process) {
            State::Alive => continue,
            State::Dead => dead = true,
            State::Unborn | State::Unknown => {}
        }
        hub.watch.lock().others.remove(&process);
    }
    if dead {
        hub.wake_all();
    }
}

struct Woken {
    ends: Vec<bool>,
}

/// Sleeps until something is called, a process has ended, or the time is over.
fn sleep(bell: Option<&Bell>, ends: &[(Uuid, Arc<OwnedFd>)], wait: Option<Duration>) -> Woken {
    let mut fds: Vec<PollFd<'_>> =
        ends.iter().map(|(_, end)| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)).collect();
    fds.extend(bell.map(|bell| PollFd::from_borrowed_fd(bell.pipe.as_fd(), PollFlags::IN)));
    let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
    if rustix::event::poll(&mut fds, wait.as_ref()).is_err() {
        // A signal, or memory is short: not a reason to go round in circles.
        std::thread::sleep(Duration::from_millis(10));
    }
    Woken { ends: fds[..ends.len()].iter().map(|fd| !fd.revents().is_empty()).collect() }
}
