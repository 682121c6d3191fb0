//! Owners: the identities that hold locks.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::error::{Error, ErrorKind};

/// The holder of a lock: `uuid:n`, as Redisson's `clientId:threadId`.
///
/// Every acquisition has a new owner, so two branches of a `join!` exclude each other. Re-entry is explicit: pass the same owner to
/// both acquisitions.
///
/// An owner that the program names is an identity inside one [`Locks`](crate::Locks). The store sees another id for each
/// stay in a lock ([`Guard::stay`](crate::Guard::stay)), so that a request which the network delivers late cannot be taken for
/// one about the owner's next stay. Do not use an owner with a second `Locks` on the same server: hold counts are kept per `Locks`.
///
/// ```
/// # tokio_test(async {
/// let locks = distlock::Locks::memory();
/// let me = locks.owner();
/// let outer = locks.mutex("ledger").lock().owner(&me).await?;
/// let inner = locks.mutex("ledger").lock().owner(&me).await?; // depth 2
/// assert_eq!(locks.mutex("ledger").hold_count(&me).await?, 2);
/// # Ok::<(), distlock::Error>(()) });
/// # fn tokio_test<F: std::future::Future<Output = Result<(), distlock::Error>>>(f: F) {
/// #     tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(f).unwrap();
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner {
    client: Uuid,
    number: u64,
}

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static SCOPE: Owner;
}

impl Owner {
    /// A new owner of this client.
    pub(crate) fn mint(client: Uuid) -> Owner {
        Owner { client, number: NEXT.fetch_add(1, Ordering::Relaxed) }
    }

    /// Runs `work` so that everything it acquires has one owner, through all the functions it calls and awaits.
    ///
    /// Nested functions that lock the same name re-enter instead of waiting for each other. Tasks that `work`
    /// spawns are not inside the scope.
    ///
    /// ```
    /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # rt.block_on(async {
    /// use distlock::{Locks, Owner};
    ///
    /// async fn inner(locks: &Locks) -> distlock::Result<()> {
    ///     locks.mutex("ledger").lock().await?.unlock().await
    /// }
    ///
    /// let locks = Locks::memory();
    /// Owner::scope(async {
    ///     let _outer = locks.mutex("ledger").lock().await?;
    ///     inner(&locks).await // re-enters
    /// })
    /// .await
    /// # }).unwrap();
    /// ```
    pub fn scope<F: Future>(work: F) -> impl Future<Output = F::Output> {
        SCOPE.scope(Owner::mint(process_client()), work)
    }

    /// Returns the owner of the calling thread, the same at every call: for blocking code that identifies holders by thread.
    ///
    /// ```
    /// use distlock::Owner;
    /// assert_eq!(Owner::current_thread(), Owner::current_thread());
    /// ```
    pub fn current_thread() -> Owner {
        thread_local! {
            static MINE: Cell<Option<Owner>> = const { Cell::new(None) };
        }
        MINE.with(|mine| match mine.get() {
            Some(owner) => owner,
            None => {
                let owner = Owner::mint(process_client());
                mine.set(Some(owner));
                owner
            }
        })
    }

    /// The client's bytes, and which of its owners this is.
    pub(crate) fn parts(self) -> ([u8; 16], u64) {
        (self.client.into_bytes(), self.number)
    }

    /// The inverse of [`parts`](Owner::parts).
    #[cfg(all(feature = "file", any(target_os = "linux", target_os = "android")))]
    pub(crate) fn from_parts(client: Uuid, number: u64) -> Owner {
        Owner { client, number }
    }

    /// The owner that the surrounding [`Owner::scope`] gives, if there is one.
    pub(crate) fn of_scope() -> Option<Owner> {
        SCOPE.try_with(|owner| *owner).ok()
    }
}

/// The client part of owners that are not minted by a `Locks`.
fn process_client() -> Uuid {
    static CLIENT: OnceLock<Uuid> = OnceLock::new();
    *CLIENT.get_or_init(Uuid::new_v4)
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.client.hyphenated(), self.number)
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({self})")
    }
}

/// Parses `uuid:n`, for instance to query [`Mutex::is_held_by`](crate::Mutex::is_held_by) for a Java thread.
impl FromStr for Owner {
    type Err = Error;

    fn from_str(text: &str) -> Result<Owner, Error> {
        let parts = text.rsplit_once(':').and_then(|(client, number)| {
            Some(Owner { client: Uuid::try_parse(client).ok()?, number: number.parse().ok()? })
        });
        parts.ok_or_else(|| {
            Error::new(
                ErrorKind::Config,
                format!("{text:?} is not an owner: expected `uuid:number`"),
            )
        })
    }
}
