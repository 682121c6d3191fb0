//! One owner at a time, in the format of `SET NX PX`.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::engine::Engine;
use crate::error::Result;
use crate::store::{Kind, What};

/// One owner at a time, in the format of `SET NX PX`.
#[derive(Clone)]
pub struct Simple {
    handle: Handle,
}

exclusive_handle!(Simple, What::Simple);

impl Simple {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Simple {
        Simple { handle: Handle::new(engine, name, Kind::Simple) }
    }
}
