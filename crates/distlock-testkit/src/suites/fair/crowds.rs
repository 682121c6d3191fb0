//! Many at once, and those who leave.

crate::suites::exclusive::exclusive_crowds!(fair);
