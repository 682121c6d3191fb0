//! `simple`: to be written.
