//! What handles of all kinds have in common: an engine, a name, and what is claimed under it.

use std::sync::Arc;

use crate::acquire::Acquire;
use crate::acquire::Member;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::owner::Owner;
use crate::store::{Admin, ClaimKind, Kind, Snapshot};

/// A handle is a name; making one does no I/O and cannot fail, so a bad name is reported when it is used.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) engine: Arc<Engine>,
    name: Result<Arc<str>>,
    pub(crate) kind: Kind,
}

impl Handle {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>, kind: Kind) -> Handle {
        let about = |e: Error| match e.lock_name() {
            Some(_) => e,
            None => e.about(kind, &Arc::from("")),
        };
        Handle { engine, name: name.map_err(about), kind }
    }

    #[track_caller]
    pub(crate) fn acquire<G, Ending>(&self, what: ClaimKind) -> Acquire<G, Ending> {
        Acquire::one(self.clone().member(what))
    }

    /// The same as one of several that are acquired together.
    pub(crate) fn member(self, what: ClaimKind) -> Member {
        let Handle { engine, name, kind } = self;
        Member { engine, name, kind, what, spin: None, owner: None }
    }

    pub(crate) async fn force(&self, what: ClaimKind) -> Result<Snapshot> {
        let before =
            Box::pin(self.engine.force(what, self.offered(what.required(self.kind))?)).await;
        let before = before.map_err(|e| self.about(e))?;
        if let Some(holder) = before.holders.first() {
            let (name, kind, holder) = (&*before.name, self.kind.as_str(), &holder.owner);
            tracing::warn!(target: "distlock", kind, name, %holder, "lock freed by force_unlock");
        }
        Ok(before)
    }

    pub(crate) async fn unlock(&self, what: ClaimKind, owner: &Owner) -> Result<()> {
        let name = self.offered(what.required(self.kind))?;
        let released = self.engine.release_leaked(self.kind, what, name, *owner);
        Box::pin(released).await.map_err(|e| self.about(e))
    }

    pub(crate) async fn inspect(&self, what: ClaimKind) -> Result<Snapshot> {
        // In a box, as all queries are: they are rare, and the futures of programs stay small.
        let name = self.offered(what.required(self.kind))?;
        let seen = Box::pin(self.engine.inspect(what, name)).await;
        seen.map_err(|e| self.about(e))
    }

    pub(crate) async fn admin(&self, op: Admin) -> Result<i64> {
        Box::pin(self.engine.admin(self.offered(self.kind)?, &op)).await.map_err(|e| self.about(e))
    }

    /// The same, with whether an earlier request for it got no reply.
    pub(crate) async fn admin_unsure(&self, op: Admin) -> Result<(i64, bool)> {
        self.engine.admin_unsure(self.offered(self.kind)?, &op).await.map_err(|e| self.about(e))
    }

    /// The full name, prefix included; empty if the name is not valid.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Returns the full name, or an error if the store does not offer this kind.
    fn offered(&self, kind: Kind) -> Result<&Arc<str>> {
        let (name, store) = (self.named()?, &self.engine.store);
        store.capabilities().check(kind, || store.place()).map_err(|e| self.about(e))?;
        Ok(name)
    }

    pub(crate) fn named(&self) -> Result<&Arc<str>> {
        self.name.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn about(&self, error: Error) -> Error {
        match &self.name {
            Ok(name) => error.about(self.kind, name),
            Err(_) => error,
        }
    }
}

/// Locks that are taken by `lock` can also be had around a piece of work.
macro_rules! run_methods {
    () => {
        /// Acquires the lock, runs `work` and releases the lock: `lock().run(work)`. See [`Acquire::run`](crate::Acquire::run), whose options
        /// can be set before.
        ///
        /// ```
        /// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        /// # rt.block_on(async {
        /// let locks = distlock::Locks::memory();
        /// let shipped = locks.mutex("orders:42").run(async |scope| {
        ///     // dropped when the loss of the lock is noticed; `scope` reports the lock's state
        ///     Ok("shipped")
        /// });
        /// assert_eq!(shipped.await?, "shipped");
        /// # Ok::<(), distlock::Error>(())
        /// # }).unwrap();
        /// ```
        ///
        /// # Cancel safety
        /// Dropping the future at any point drops `work` and releases; so does a panic in `work`.
        ///
        /// # Errors
        /// The error of `work`; `Lost` if the lock was lost before `work` was done; the errors of [`lock`](Self::lock).
        #[track_caller]
        pub fn run<T, E, W>(
            &self,
            work: W,
        ) -> impl std::future::Future<Output = std::result::Result<T, E>> + use<T, E, W>
        where
            E: From<$crate::Error>,
            W: AsyncFnOnce($crate::Scope) -> std::result::Result<T, E>,
        {
            self.lock().run(work)
        }

        /// [`run`](Self::run) on the calling thread; no runtime is needed. `work` cannot be stopped when the lock is lost:
        /// see [`Acquire::run_blocking`](crate::Acquire::run_blocking).
        ///
        /// # Errors
        /// As [`run`](Self::run).
        pub fn run_blocking<T, E: From<$crate::Error>>(
            &self,
            work: impl FnOnce($crate::Scope) -> std::result::Result<T, E>,
        ) -> std::result::Result<T, E> {
            self.lock().run_blocking(work)
        }
    };
}

pub(crate) use run_methods;

/// The questions and the operator's tools that every lock of one owner at a time has.
macro_rules! exclusive_handle {
    ($handle:ident, $what:expr) => {
        impl $handle {
            fn what(&self) -> ClaimKind {
                $what
            }
        }

        $crate::kinds::handle::exclusive_handle!($handle);
    };
    // With a `what` of its own.
    ($handle:ident) => {
        impl $handle {
            $crate::kinds::handle::run_methods!();

            /// Frees the lock although another owner may hold it, and returns whether it was held. For operators.
            ///
            /// A guard of the same `Locks` (or a clone of it) is lost at once; any other guard at its next renewal, or with a fixed
            /// lease at its deadline. Until then its holder works beside the next one.
            pub async fn force_unlock(&self) -> $crate::Result<bool> {
                Ok(self.handle.force(self.what()).await?.is_held())
            }

            /// Frees the hold of `owner` whose guard is gone, for instance after
            /// [`Guard::leak`](crate::Guard::leak).
            ///
            /// # Errors
            /// `NotHeld` if that owner does not hold it, or holds it through a guard of this `Locks`.
            pub async fn unlock(&self, owner: &$crate::Owner) -> $crate::Result<()> {
                self.handle.unlock(self.what(), owner).await
            }

            /// Returns whether the lock is held.
            pub async fn is_locked(&self) -> $crate::Result<bool> {
                Ok(self.inspect().await?.is_held())
            }

            /// Returns whether this owner holds the lock.
            pub async fn is_held_by(&self, owner: &$crate::Owner) -> $crate::Result<bool> {
                Ok(self.hold_count(owner).await? > 0)
            }

            /// Returns how many times this owner holds the lock.
            pub async fn hold_count(&self, owner: &$crate::Owner) -> $crate::Result<u32> {
                let seen = self.inspect().await?;
                Ok(seen.depth_of(&self.handle.engine.owner_of(&seen.name, *owner)))
            }

            /// Returns how long the lock stays held unless it is renewed; `None` if it is free.
            pub async fn ttl(&self) -> $crate::Result<Option<std::time::Duration>> {
                Ok(self.inspect().await?.ttl)
            }

            /// Returns the holder, or `None` if the lock is free.
            pub async fn holder(&self) -> $crate::Result<Option<$crate::store::Holder>> {
                Ok(self.inspect().await?.holders.into_iter().next())
            }

            /// Returns everything that the store knows about the lock.
            pub async fn inspect(&self) -> $crate::Result<$crate::store::Snapshot> {
                self.handle.inspect(self.what()).await
            }

            /// Returns the full name, prefix included; empty if the name is not valid.
            pub fn name(&self) -> &str {
                self.handle.name()
            }
        }

        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_tuple(stringify!($handle)).field(&self.name()).finish()
            }
        }
    };
}

pub(crate) use exclusive_handle;
