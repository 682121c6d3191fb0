//! distlock and Java's Redisson on the same names.

mod docs;
mod load;
mod pairs;
