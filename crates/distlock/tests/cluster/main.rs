//! Locks on a cluster: every kind keeps its promises with plain and with sharded channels, and servers may come, go and swap
//! their slots.
#![cfg(feature = "cluster")]

mod promises;
