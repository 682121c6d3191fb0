//! `rw`: to be written.
