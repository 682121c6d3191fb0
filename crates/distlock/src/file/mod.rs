//! One machine, no server.
