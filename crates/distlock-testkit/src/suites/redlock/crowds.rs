//! What every lock of one owner at a time promises, to many at once.

use super::Alone;

crate::suites::exclusive::exclusive_crowds!(redlock);
