//! One owner at a time, in the order in which they asked.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::engine::Engine;
use crate::error::Result;
use crate::store::{Kind, What};

/// One owner at a time, in the order in which they asked.
#[derive(Clone)]
pub struct Fair {
    handle: Handle,
}

exclusive_handle!(Fair, What::Fair { patience: None });

impl Fair {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Fair {
        Fair { handle: Handle::new(engine, name, Kind::Fair) }
    }
}
