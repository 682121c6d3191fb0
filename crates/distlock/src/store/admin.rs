//! Operations on what is not a hold: counts, permits by id, fences; and commands under a guard.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};
use crate::owner::Owner;

/// An operation on a semaphore, a latch or a fence. Each is one atomic operation that returns a number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Admin {
    /// On a semaphore.
    Permits(PermitsOp),
    /// On a semaphore whose permits have leases.
    Leased(LeasedOp),
    /// On a latch.
    Latch(LatchOp),
    /// Shows a fencing token to a gate: 1 if it is not lower than the highest seen before, else minus the highest seen (at least
    /// -2^53). Idempotent.
    Fence {
        /// The token.
        token: u64,
    },
    /// Forgets a gate: 1 if there was one.
    FenceForget,
}

impl Admin {
    /// Returns whether applying it twice is the same as applying it once, the result included.
    pub fn is_idempotent(&self) -> bool {
        match self {
            Admin::Permits(op) => matches!(op, PermitsOp::Available),
            Admin::Leased(op) => matches!(
                op,
                LeasedOp::Available
                    | LeasedOp::Acquired
                    | LeasedOp::Set(_)
                    | LeasedOp::Extend(..)
                    | LeasedOp::Remaining(_)
            ),
            Admin::Latch(op) => {
                matches!(op, LatchOp::CountDown { .. } | LatchOp::Count | LatchOp::Forget { .. })
            }
            Admin::Fence { .. } => true,
            Admin::FenceForget => false,
        }
    }
}

/// An operation on a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitsOp {
    /// Sets the number of permits if it is not set: 1, else 0.
    Init(u32),
    /// Adds permits, or takes some away: the number that is free then, which may be negative.
    Add(i64),
    /// Takes all permits that are free: how many they were.
    Drain,
    /// How many permits are free; 0 if the number is not set. Idempotent.
    Available,
    /// Gives back permits that no guard holds: the number that is free then. Creates the semaphore if there is none.
    Release(u32),
    /// As `Release`, but only if there is a semaphore: 1, else 0.
    ReleaseIfExists(u32),
    /// Removes the semaphore: 1 if there was one.
    Delete,
}

/// An operation on a semaphore whose permits have leases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeasedOp {
    /// Sets the number of permits if it is not set: 1, else 0.
    Init(u32),
    /// Sets the number of permits, those that are held included: the number that is free then, which may be negative. Idempotent.
    Set(u32),
    /// Adds permits, or takes some away: the number that is free then, which may be negative.
    Add(i64),
    /// How many permits are free. Idempotent.
    Available,
    /// How many permits are held. Idempotent.
    Acquired,
    /// Releases these permits, all or none: how many, or 0 if one of them is unknown or has expired.
    Release(Vec<PermitId>),
    /// Gives this permit a new lease of so many milliseconds from now: 1, or 0 if it is unknown or has expired. Idempotent.
    Extend(PermitId, u64),
    /// How many milliseconds this permit has left; -1 for ever, -2 if it is unknown or has expired. Idempotent.
    Remaining(PermitId),
    /// Removes the semaphore: 1 if there was one.
    Delete,
}

/// An operation on a latch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LatchOp {
    /// Sets the count if there is none: 1, else 0.
    Init(u32),
    /// Counts down by one: the new count. Idempotent by `request`, until that is forgotten.
    CountDown {
        /// The id of the request; the same each time that one count-down is sent.
        request: Owner,
    },
    /// Forgets a count-down whose reply has arrived: 1 if it was remembered. Idempotent.
    Forget {
        /// The id of the request.
        request: Owner,
    },
    /// The count; 0 if there is none. Idempotent.
    Count,
    /// Sets the count whether or not there is one: the old count. 0 opens the latch.
    Reset(u32),
    /// Removes the latch, which opens it: 1 if there was one.
    Delete,
}

/// The id of one permit of a leased semaphore: 16 bytes, written as 32 hexadecimal digits.
///
/// ```
/// # distlock::block_on(async {
/// let builds = distlock::Locks::memory().leased_semaphore("builds").with_permits(3);
/// let permit = builds.acquire(1).await?;
/// let written_down = permit.ids()[0].to_string(); // for another process, which may release it
/// permit.leak();
/// builds.release(&[written_down.parse()?]).await?;
/// assert_eq!(builds.available().await?, 3);
/// # Ok::<(), distlock::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId([u8; 16]);

impl PermitId {
    /// Returns the id with these bytes.
    pub fn from_bytes(bytes: [u8; 16]) -> PermitId {
        PermitId(bytes)
    }

    /// Returns the bytes of the id.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Returns the ids of the permits that `owner` acquires: each acquisition has an owner of its own, so a store need not keep them.
    pub fn of(owner: Owner, count: u32) -> impl Iterator<Item = PermitId> {
        let (client, number) = owner.parts();
        (0..count).map(move |index| {
            // Half of the client's random bits, then the number of the acquisition, then that of the permit.
            let mut bytes = [0; 16];
            bytes[..6].copy_from_slice(&client[..6]);
            bytes[6..12].copy_from_slice(&number.to_be_bytes()[2..]);
            bytes[12..].copy_from_slice(&index.to_be_bytes());
            for (byte, salt) in bytes[6..].iter_mut().zip(&client[6..]) {
                *byte ^= salt;
            }
            PermitId(bytes)
        })
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PermitId({self})")
    }
}

/// Parses 32 hexadecimal digits.
impl FromStr for PermitId {
    type Err = Error;

    fn from_str(text: &str) -> Result<PermitId, Error> {
        let number = match text.len() {
            32 if text.bytes().all(|b| b.is_ascii_hexdigit()) => {
                u128::from_str_radix(text, 16).ok()
            }
            _ => None,
        };
        number.map(|number| PermitId(number.to_be_bytes())).ok_or_else(|| {
            let text = format!("{text:?} is no permit id: expected 32 hexadecimal digits");
            Error::new(ErrorKind::Config, text)
        })
    }
}

/// A command that the server runs only while a lock is held.
///
/// ```
/// use distlock::store::Command;
/// let command = Command::new("SET").key("stock:42").arg("7");
/// assert_eq!(command.keys().len(), 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    name: String,
    keys: Vec<Vec<u8>>,
    /// The arguments in order; `None` is the next key.
    args: Vec<Option<Vec<u8>>>,
}

impl Command {
    /// Returns the command with this name, for instance `SET`.
    pub fn new(name: impl Into<String>) -> Command {
        Command { name: name.into(), keys: Vec::new(), args: Vec::new() }
    }

    /// Adds an argument that is a key. In a cluster it must be in the lock's slot.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<[u8]>) -> Command {
        self.keys.push(key.as_ref().to_vec());
        self.args.push(None);
        self
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<[u8]>) -> Command {
        self.args.push(Some(arg.as_ref().to_vec()));
        self
    }

    /// Returns the name of the command.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its keys.
    pub fn keys(&self) -> &[Vec<u8>] {
        &self.keys
    }

    /// Returns its arguments in order; `None` is the next key.
    pub fn args(&self) -> &[Option<Vec<u8>>] {
        &self.args
    }
}

/// The reply of a server to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A text or other bytes; `OK` is one.
    Bytes(Vec<u8>),
    /// Several replies.
    List(Vec<Reply>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permit_ids_are_their_own_and_read_back() {
        let client = uuid::Uuid::new_v4();
        let (one, two) = (Owner::mint(client), Owner::mint(client));
        let mut ids: Vec<PermitId> = PermitId::of(one, 300).chain(PermitId::of(two, 300)).collect();
        for id in &ids {
            assert_eq!(id.to_string().parse::<PermitId>().unwrap(), *id);
            assert_eq!(id.to_string().len(), 32);
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 600);
        assert!("zz".parse::<PermitId>().is_err());
        assert!("+0000000000000000000000000000000".parse::<PermitId>().is_err());
    }
}
