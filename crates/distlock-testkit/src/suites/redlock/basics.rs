//! What every lock of one owner at a time promises.

use super::Alone;

crate::suites::exclusive::exclusive_promises!(redlock, counts: true);
