//! One kind a file: the handle and its documentation; no algorithm, no I/O.

mod fair;
mod fence_gate;
mod fenced;
mod handle;
mod latch;
mod leased_semaphore;
mod multi;
mod mutex;
mod redlock;
mod rw;
mod semaphore;
mod simple;
mod spin;

pub use fair::Fair;
pub use fence_gate::{FenceGate, StoredFenceGate};
pub use fenced::Fenced;
pub use latch::Latch;
pub use leased_semaphore::LeasedSemaphore;
pub use multi::{MultiGuard, MultiLock};
pub use mutex::Mutex;
pub use redlock::RedLock;
pub(crate) use redlock::check as check_nodes;
pub use rw::Rw;
pub use semaphore::Semaphore;
pub use simple::Simple;
pub use spin::Spin;
