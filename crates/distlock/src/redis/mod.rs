//! Many machines: Redis and Valkey.
