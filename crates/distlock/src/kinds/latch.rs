//! A count that comes down to zero.

use std::sync::Arc;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::Kind;

/// A count that comes down to zero.
#[derive(Clone)]
pub struct Latch {
    handle: Handle,
}

impl std::fmt::Debug for Latch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Latch").field(&self.handle.name()).finish()
    }
}

impl Latch {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Latch {
        Latch { handle: Handle::new(engine, name, Kind::Latch) }
    }
}
