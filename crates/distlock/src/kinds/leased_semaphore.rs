//! A number of permits, each with a lease.

use std::sync::Arc;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::Kind;

/// A number of permits, each with a lease.
#[derive(Clone)]
pub struct LeasedSemaphore {
    handle: Handle,
}

impl std::fmt::Debug for LeasedSemaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LeasedSemaphore").field(&self.handle.name()).finish()
    }
}

impl LeasedSemaphore {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> LeasedSemaphore {
        LeasedSemaphore { handle: Handle::new(engine, name, Kind::LeasedSemaphore) }
    }
}
