//! `permits`: to be written.
