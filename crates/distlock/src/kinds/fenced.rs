//! One owner at a time, each acquisition numbered.

use std::sync::Arc;

use super::handle::{Handle, exclusive_handle};
use crate::engine::Engine;
use crate::error::Result;
use crate::store::{Kind, What};

/// One owner at a time, each acquisition numbered.
#[derive(Clone)]
pub struct Fenced {
    handle: Handle,
}

exclusive_handle!(Fenced, What::Fenced);

impl Fenced {
    pub(crate) fn new(engine: Arc<Engine>, name: Result<Arc<str>>) -> Fenced {
        Fenced { handle: Handle::new(engine, name, Kind::Fenced) }
    }
}
