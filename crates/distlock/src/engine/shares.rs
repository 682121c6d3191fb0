//! What is kept apart for locks that do not share their fate.

use std::array;

/// How many are kept apart. Where there are more servers than this some share one, and a server that is down may then hold up
/// some of the others' callers as well.
const APART: usize = 16;

/// One for each share that [`Store::failure_domain`](crate::store::Store::failure_domain) tells apart.
#[derive(Debug)]
pub(super) struct Shares<T>([T; APART]);

impl<T> Shares<T> {
    pub(super) fn new(make: impl Fn() -> T) -> Shares<T> {
        Shares(array::from_fn(|_| make()))
    }

    pub(super) fn at(&self, share: usize) -> &T {
        &self.0[share % APART]
    }
}

impl<T: Default> Default for Shares<T> {
    fn default() -> Shares<T> {
        Shares::new(T::default)
    }
}
