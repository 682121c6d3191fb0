//! One kind a file: the handle and its documentation; no algorithm, no I/O.

mod mutex;

pub use mutex::Mutex;
