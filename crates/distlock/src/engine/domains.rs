//! What is kept apart for locks that do not fail together.

use std::array;

/// How many are kept apart. Where there are more servers than this some are kept together, and a server that is down may then hold up
/// some of the others' callers as well.
const APART: usize = 16;

/// One for each domain that [`Store::failure_domain`](crate::store::Store::failure_domain) tells apart.
#[derive(Debug)]
pub(super) struct PerDomain<T>([T; APART]);

impl<T> PerDomain<T> {
    pub(super) fn new(make: impl Fn() -> T) -> PerDomain<T> {
        PerDomain(array::from_fn(|_| make()))
    }

    pub(super) fn at(&self, domain: usize) -> &T {
        &self.0[domain % APART]
    }
}

impl<T: Default> Default for PerDomain<T> {
    fn default() -> PerDomain<T> {
        PerDomain::new(T::default)
    }
}
