//! `fair`: to be written.
