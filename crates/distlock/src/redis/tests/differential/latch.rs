//! `latch`: to be written.
