//! Which kind of lock a name holds: read from what the store has, as far as that tells.
//!
//! Files and memory store the kind, but for `fair`, `fenced` and `spin`, which are stored like `mutex` there and on a server. On a
//! server, a semaphore without taken permits, of either kind, and a latch are the same: a number.

use distlock::store::Snapshot;
use distlock::{Error, ErrorKind, Locks, Result};

use crate::args::Kind;
use crate::exit::Failure;
use crate::plan::Choice;
use crate::print;

/// What a name holds.
pub(crate) struct Found {
    /// The kinds that it can be; more than one for a number on a server.
    kinds: Vec<Kind>,
    pub(crate) seen: Snapshot,
}

impl Found {
    /// The kind, or the first of those that it can be.
    pub(crate) fn kind(&self) -> Kind {
        self.kinds.first().copied().unwrap_or(Kind::Mutex)
    }

    /// The kinds that it can be, if the data does not tell which.
    pub(crate) fn doubt(&self) -> Option<&[Kind]> {
        (self.kinds.len() > 1).then_some(&self.kinds[..])
    }

    fn fits(&self, kind: Kind) -> bool {
        self.kinds.iter().any(|found| found.is_like(kind))
    }

    /// Says which kind it is, after "NAME is".
    fn words(&self) -> String {
        match self.kinds.as_slice() {
            [Kind::Mutex] => "a mutex (fair, fenced and spin locks look the same)".to_owned(),
            [kind] => a(*kind),
            kinds => format!("a number: {}", either(kinds)),
        }
    }
}

/// The kind with its article.
pub(crate) fn a(kind: Kind) -> String {
    match kind {
        Kind::Rw => "an rw lock".to_owned(),
        Kind::Fair | Kind::Fenced | Kind::Spin | Kind::Simple | Kind::Multi => {
            format!("a {} lock", kind.word())
        }
        kind => format!("a {}", kind.word()),
    }
}

/// `a, b or c`.
pub(crate) fn either(kinds: &[Kind]) -> String {
    let words: Vec<&str> = kinds.iter().map(|kind| kind.word()).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Looks what the name holds; `None` if that is nothing. An error of kind `Conflict` if it is data that is not a lock.
pub(crate) async fn find(locks: &Locks, name: &str) -> Result<Option<Found>> {
    let one = |kind, seen| Ok(Some(Found { kinds: vec![kind], seen }));
    let mut met = Met::default();
    // Before the mutex: on a server that one takes the fields of a read-write lock for owners.
    if let Some(seen) = met.judge(locks.rw(name).inspect().await)?
        && seen.is_held()
    {
        return one(Kind::Rw, seen);
    }
    let seen = match met.judge(locks.fair(name).inspect().await)? {
        None if met.conflict.is_none() => met.judge(locks.mutex(name).inspect().await)?,
        seen => seen,
    };
    match seen {
        Some(seen) if !seen.queue.is_empty() => return one(Kind::Fair, seen),
        // Once more as what it is shown as: the waiters of a fair lock are others.
        Some(seen) if seen.is_held() => {
            return one(Kind::Mutex, locks.mutex(name).inspect().await?);
        }
        Some(_) if met.conflict.is_none() => return Ok(None),
        _ => {}
    }
    if let Some(seen) = met.judge(locks.simple(name).inspect().await)?
        && seen.is_held()
    {
        return one(Kind::Simple, seen);
    }
    match numbers(locks, name, &mut met).await? {
        Some(found) => Ok(Some(found)),
        None => met.conflict.or(met.refused).map_or(Ok(None), Err),
    }
}

/// The kinds that are a number on a server.
async fn numbers(locks: &Locks, name: &str, met: &mut Met) -> Result<Option<Found>> {
    let mut fitting: Vec<(Kind, Snapshot)> = Vec::new();
    for kind in [Kind::Semaphore, Kind::LeasedSemaphore, Kind::Latch] {
        let seen = match kind {
            Kind::Semaphore => locks.semaphore(name).inspect().await,
            Kind::LeasedSemaphore => locks.leased_semaphore(name).inspect().await,
            _ => locks.latch(name).inspect().await,
        };
        if let Some(seen) = met.judge(seen)?.filter(|seen| seen.count.is_some()) {
            if seen.is_held() {
                return Ok(Some(Found { kinds: vec![kind], seen }));
            }
            fitting.push((kind, seen));
        }
    }
    let kinds = fitting.iter().map(|(kind, _)| *kind).collect();
    Ok(fitting.into_iter().next().map(|(_, seen)| Found { kinds, seen }))
}

/// What looking at a name as one kind after the other has met.
#[derive(Default)]
struct Met {
    /// Something else is there.
    conflict: Option<Error>,
    /// This user may not look at it in this way: permissions may cover some kinds only.
    refused: Option<Error>,
}

impl Met {
    /// What was seen; `None` if the name does not hold this kind, or if this user may not look.
    fn judge(&mut self, seen: Result<Snapshot>) -> Result<Option<Snapshot>> {
        match seen {
            Ok(seen) => return Ok(Some(seen)),
            Err(error) => match error.kind() {
                ErrorKind::Conflict => self.conflict = Some(error),
                ErrorKind::Config | ErrorKind::Unsupported => self.refused = Some(error),
                _ => return Err(error),
            },
        }
        Ok(None)
    }
}

/// The error, in words that name the kind that is there instead of what was asked for. `in_files`: the stores are directories.
pub(crate) async fn explain(
    stores: &[Locks],
    in_files: bool,
    choice: &Choice,
    error: Error,
) -> Failure {
    if error.kind() != ErrorKind::Conflict {
        return error.into();
    }
    for name in &choice.names {
        for locks in stores {
            match find(locks, name).await {
                Ok(Some(found)) => {
                    if let Err(failure) = check(&found, choice.kind, name) {
                        return failure;
                    }
                }
                Ok(None) => {}
                // Of a damaged file the library names the path.
                Err(other) if other.kind() == ErrorKind::Conflict && !in_files => {
                    let name = print::name(name);
                    return Failure::Conflict(format!(
                        "{name} holds data that is not a lock; nothing was changed: choose another name"
                    ));
                }
                Err(_) => {}
            }
        }
    }
    error.into()
}

/// Refuses a kind that is not the one that was found.
pub(crate) fn check(found: &Found, wanted: Kind, name: &str) -> Result<(), Failure> {
    if found.fits(wanted) {
        return Ok(());
    }
    let (name, is, wanted) = (print::name(name), found.words(), a(wanted));
    let use_ = match found.doubt() {
        None => format!("use --kind {}", found.kind().word()),
        Some(_) => "name its kind with --kind".to_owned(),
    };
    Err(Failure::Conflict(format!("{name} is {is}, not {wanted}; {use_}")))
}

/// Refuses to go on where the data does not tell the kind.
pub(crate) fn certain(found: &Found, name: &str) -> Result<Kind, Failure> {
    match found.doubt() {
        None => Ok(found.kind()),
        Some(kinds) => Err(Failure::Usage(format!(
            "{} is a number, which can be a {}: name its kind with --kind",
            print::name(name),
            either(kinds)
        ))),
    }
}
