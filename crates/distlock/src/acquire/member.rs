//! [`Member`]: a lock and how it is claimed, alone or together with others.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::check_lease;
use crate::engine::{Ask, Engine, Wait};
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Asker;
use crate::locks::config;
use crate::owner::Owner;
use crate::runtime::Backoff;
use crate::store::{ClaimKind, Kind};

/// One of several locks that are acquired together. Made from a handle: `locks.mutex("k").into()`,
/// `locks.rw("k").reader()`, `locks.semaphore("s").permits(2)`.
///
/// ```
/// # distlock::block_on(async {
/// use distlock::{Locks, Member, MultiLock};
///
/// let locks = Locks::memory();
/// let members: [Member; 3] = [locks.mutex("ledger").into(), locks.rw("prices").reader(), locks.fair("desk").into()];
/// let all = MultiLock::new(members).lock().await?; // all or none
/// assert_eq!(all.guards().len(), 3);
/// # all.unlock().await }).unwrap();
/// ```
#[derive(Clone)]
pub struct Member {
    pub(crate) engine: Arc<Engine>,
    pub(crate) name: Result<Arc<str>>,
    pub(crate) kind: Kind,
    pub(crate) what: ClaimKind,
    pub(crate) spin: Option<Backoff>,
    /// The owner that acquires this one, if it is not the owner of the request.
    pub(crate) owner: Option<Owner>,
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or_default();
        f.debug_struct("Member").field("kind", &self.kind).field("name", &name).finish()
    }
}

impl Member {
    /// Checks everything that can be checked before anything is sent.
    pub(crate) fn ask(
        self,
        owner: Option<Owner>,
        wait: Wait,
        lease: Option<Duration>,
        label: Option<&str>,
    ) -> Result<(Arc<Engine>, Arc<str>, Ask)> {
        let Member { engine, name, kind, what, spin, owner: own } = self;
        let name = name?;
        let lease = lease.map(check_lease).transpose().map_err(|e| e.about(kind, &name))?;
        let offered =
            engine.store.capabilities().check(what.required(kind), || engine.store.place());
        offered.map_err(|e| e.about(kind, &name))?;
        let spin = spin.or(engine.tuning.spin);
        let what = what.waiting(wait, engine.tuning.fair_patience);
        let lease = match (what, lease) {
            (ClaimKind::Permits { .. }, Some(_)) => {
                let text = "a semaphore's permits have no lease: use a leased_semaphore";
                return Err(Error::new(ErrorKind::Unsupported, text).about(kind, &name));
            }
            (ClaimKind::Permits { .. }, None) => Some(config::LONGEST),
            (_, lease) => lease,
        };
        let owner = own.or(owner).filter(|_| what.reenters());
        let explicit = owner.is_some();
        let owner = owner.unwrap_or_else(|| engine.mint_owner());
        let service = engine.tuning.service.as_ref().filter(|_| what != ClaimKind::LatchOpen);
        let asker = service.map(|service| Asker::new(service, label, engine.env.now()));
        Ok((
            engine,
            name,
            Ask { kind, what, spin, owner, stay: owner, explicit, part: false, lease, wait, asker },
        ))
    }
}
