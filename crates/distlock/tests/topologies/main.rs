//! Clusters, servers behind sentinels, and TLS: what is particular to each, and what becomes of locks when they change.

mod cluster;
mod sentinel;
mod tls;
