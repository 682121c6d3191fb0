//! `fenced`: to be written.
