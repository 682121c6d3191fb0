//! distlock and Java's Redisson on the same names.

mod load;
mod pairs;
