//! What every lock of one owner at a time promises.

crate::suites::exclusive::exclusive_promises!(fair, counts: true);
