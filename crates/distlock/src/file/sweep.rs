//! What the dead had: their holds, places, waiting writers and permits are freed without waiting for their leases.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::owner::Owner;
use crate::store::machine::{Transition, Wake, entry};
use crate::store::{Claim, ClaimKind};

use super::FileStore;
use super::bell;
use super::life::{self, State};
use super::name::STRIPES;
use super::step::Turn;

/// How long after somebody was seen dead its things are left alone: whatever ran under its lock, on the same machine, may have
/// to be stopped first. `distlock run` needs a moment to do that.
pub(super) const GRACE: Duration = Duration::from_millis(200);

impl FileStore {
    /// Frees what those of them who are dead had: whether there was anybody.
    pub(super) async fn sweep_dead(&self, processes: &[Uuid]) -> bool {
        let is_dead = |process: &Uuid| self.hub.lives.state(&self.hub.dir, *process) == State::Dead;
        let dead: Vec<Uuid> = processes.iter().copied().filter(is_dead).collect();
        if dead.is_empty() {
            return false;
        }
        self.env.sleep_in_background(self.env.now().after(GRACE)).await;
        let mut swept = false;
        for process in dead {
            self.hub.lives.doubt(process);
            // Gone: somebody else has swept it meanwhile.
            swept |= match self.hub.lives.state(&self.hub.dir, process) {
                State::Alive | State::Unborn => false,
                State::Unknown => true,
                State::Dead => self.sweep(process).await,
            };
        }
        swept
    }

    /// Frees what one that is dead had, everywhere, and then forgets that it lived: whether that is worth another look. A file
    /// that cannot be used keeps what is in the others from nobody.
    async fn sweep(&self, process: Uuid) -> bool {
        let clock = || self.env.now();
        let (mut whole, mut freed) = (true, false);
        for stripe in 0..STRIPES {
            let change =
                || self.hub.try_change(stripe, |_, turn| forget(turn, process), process, &clock);
            match self.until_in(self.patience(), change).await {
                Ok(changed) => freed |= changed,
                Err(cause) => {
                    tracing::warn!(
                        target: "distlock", %cause,
                        "cannot free the locks of a dead process in one file: they stay held until their leases end"
                    );
                    whole = false;
                }
            }
        }
        if whole {
            tracing::info!(target: "distlock", %process, "a process has died: its locks were freed");
            self.bury(process);
        }
        whole || freed
    }

    /// Clears up after those who died while nobody was here.
    pub(super) fn sweep_apart(self: &Arc<FileStore>) {
        let dir = &self.hub.dir;
        let mut left = Vec::new();
        for process in life::everybody(dir).unwrap_or_default() {
            match self.hub.lives.state(dir, process) {
                State::Alive | State::Unknown => {}
                State::Dead if self.hub.knows(process, true) => left.push(process),
                // Most have left nothing but their names: programs that run for a moment need not wait to clear those away.
                State::Dead | State::Unborn => self.bury(process),
            }
        }
        life::clear_away_fresh(dir);
        bell::clear_away_deaf(dir);
        if !left.is_empty() {
            let store = self.clone();
            self.env.spawn_background(Box::pin(async move {
                store.sweep_dead(&left).await;
            }));
        }
    }

    fn bury(&self, process: Uuid) {
        life::bury(&self.hub.dir, process);
        // Nobody will ask for it again.
        self.hub.lives.doubt(process);
    }
}

/// Takes a process out of a record.
fn forget(turn: &mut Turn<'_>, process: Uuid) {
    turn.record.ears.retain(|ear| ear.process != process);
    let dead = |person: &&super::record::Person| person.process == process;
    let people: Vec<_> = turn.record.people.iter().filter(dead).cloned().collect();
    for person in people {
        // Whoever waits for it as a mutex is told as well as the first in line.
        if let Some(entry::AnyEntry::Hold(hold)) = &turn.record.entry
            && hold.held.as_ref().is_some_and(|held| held.owner == person.owner)
        {
            turn.wakes.push(Wake::All);
        }
        for what in ways_to_have(turn, person.permits) {
            let claim = gone(person.owner, what);
            let entry = turn.record.entry.take();
            let step = entry::give_up(entry, &claim, turn.now, &*turn);
            match step {
                Ok(Transition { entry, wake, .. }) => {
                    turn.record.entry = entry;
                    turn.wakes.push(wake);
                }
                Err(taken) => turn.record.entry = Some(taken.0),
            }
        }
    }
    turn.record.settle(None);
    turn.record.note(None, turn.now);
}

/// How an owner may have something of this entry.
fn ways_to_have(turn: &Turn<'_>, permits: u32) -> Vec<ClaimKind> {
    match &turn.record.entry {
        None => vec![],
        Some(entry::AnyEntry::Hold(_)) => vec![ClaimKind::Fair { patience: None }],
        Some(entry::AnyEntry::Rw(_)) => vec![ClaimKind::Write { waits: false }, ClaimKind::Read],
        Some(entry::AnyEntry::Simple(_)) => vec![ClaimKind::Simple],
        Some(entry::AnyEntry::Permits(_)) => vec![ClaimKind::Permits { count: 1, initial: None }],
        Some(entry::AnyEntry::Leased(_)) => {
            vec![ClaimKind::LeasedPermits { count: permits, initial: None }]
        }
        Some(entry::AnyEntry::Latch(_) | entry::AnyEntry::Gate(_)) => vec![],
    }
}

fn gone(owner: Owner, what: ClaimKind) -> Claim {
    Claim {
        name: Arc::from(""),
        owner,
        lease: Duration::ZERO,
        depth: 0,
        heir_of: None,
        kind: what,
        info: None,
    }
}
