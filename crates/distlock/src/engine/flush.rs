//! A short wait for releases that are under way, when the last `Locks` of an engine is dropped.
//!
//! A guard that is dropped cannot wait for its release. A program that returns from `main` right after that would end before the
//! release is sent, and the lock would stay until its lease ends. So the drop of the last `Locks` waits, where that is safe.

use std::sync::{Arc, mpsc};

use tokio::runtime::{Handle, RuntimeFlavor};

use super::Engine;
use super::lane::Until;
use super::lanes::LaneRef;
use crate::locks::config;

/// Waits until the stores have the releases of these engines that are under way, but no longer than [`config::FLUSH`], and not at
/// all where the calling thread must not be blocked.
pub(crate) fn flush(engines: &[Arc<Engine>]) {
    let Some(first) = engines.first() else { return };
    if !may_block() || engines.iter().any(|engine| !engine.env.has_background_thread()) {
        return;
    }
    let lanes = engines.iter().flat_map(|engine| engine.lanes.all());
    let releasing: Vec<LaneRef> = lanes.filter(is_released_elsewhere).collect();
    if releasing.is_empty() {
        return;
    }
    let (done, all_done) = mpsc::sync_channel::<()>(1);
    first.env.spawn_background(Box::pin(async move {
        for lane in &releasing {
            lane.until(Until::ToldAll).await;
        }
        drop(done);
    }));
    // Ends with an error in either case: nothing is ever sent.
    let _ = all_done.recv_timeout(config::FLUSH);
}

/// Not within a task: the thread may be the one that drives the connection, or that other tasks need. A thread without a runtime may
/// block, and so may the one that called `Runtime::block_on`: there the program is about to end, or its author lets it block.
fn may_block() -> bool {
    tokio::task::try_id().is_none()
}

/// Whether a release of this lane is under way, or follows the step that is under way, and does not need the calling thread. One
/// that its caller has polled on a runtime without threads waits for a connection that only the calling thread drives.
fn is_released_elsewhere(lane: &LaneRef) -> bool {
    let one_thread =
        || Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::CurrentThread);
    lane.read(|lane| lane.is_letting_go()) && !(lane.is_told_by_a_caller() && one_thread())
}
