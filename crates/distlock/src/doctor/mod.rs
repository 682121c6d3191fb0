//! Whether the place where locks are kept is fit for them.

#[cfg(feature = "redis")]
pub use crate::redis::{Acl, Channels};
