//! `leased`: to be written.
