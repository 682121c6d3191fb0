//! Renewals: who is asked about, and what an answer in the worst moment does.

use std::future::Future;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Waker};

use super::*;
use crate::engine::State;

/// Timers are late by milliseconds, and so short a lease has few to spare.
#[tokio::test(start_paused = true)]
async fn a_lease_of_few_milliseconds_is_held_at_first() {
    let scene = Scene::new("short").await;
    let guard = scene.locks.mutex("k").lock().lease(Duration::from_millis(3)).await.unwrap();
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.state(), State::Held);
    timeout(LONG, guard.lost()).await.expect("it ends");
}
