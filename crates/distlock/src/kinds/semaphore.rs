//! A number of permits.

use std::sync::Arc;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::Kind;

/// A number of permits.
#[derive(Clone)]
pub struct Semaphore {
    handle: Handle,
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Semaphore").field(&self.handle.name()).finish()
    }
}

impl Semaphore {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Semaphore {
        Semaphore { handle: Handle::new(engine, name, Kind::Semaphore) }
    }
}
