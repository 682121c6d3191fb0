//! Locks in programs as people have them: services, databases, figures, logs, functions with `#[locked]`, and the examples.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod docs;
mod examples;
mod fenced_sql;
mod locked;
mod metrics;
mod service;
mod tracing;
mod web;
