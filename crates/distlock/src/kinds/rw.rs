//! Many readers or one writer.

use std::sync::Arc;

use super::handle::Handle;
use crate::engine::Engine;
use crate::error::Result;
use crate::store::Kind;

/// Many readers or one writer.
#[derive(Clone)]
pub struct Rw {
    handle: Handle,
}

impl std::fmt::Debug for Rw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Rw").field(&self.handle.name()).finish()
    }
}

impl Rw {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Rw {
        Rw { handle: Handle::new(engine, name, Kind::Rw) }
    }
}
