//! One owner at a time; those who wait poll.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::engine::Engine;
use crate::error::Result;
use crate::store::{Kind, What};

/// One owner at a time; those who wait poll.
#[derive(Clone)]
pub struct Spin {
    handle: Handle,
}

exclusive_handle!(Spin, What::Exclusive);

impl Spin {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Spin {
        Spin { handle: Handle::new(engine, name, Kind::Spin) }
    }
}
