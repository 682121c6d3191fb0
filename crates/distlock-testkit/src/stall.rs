//! Time in which this machine stood still is nobody's fault: it is not counted.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use distlock::env::{Env, System};
use tokio::time::Instant;

/// Between two ticks. A tick that is late by no more than this is a timer's own business.
const TICK: Duration = Duration::from_millis(5);

/// Counts the time that passes while this process runs.
///
/// For limits that tell one cause of a delay from another: a thread that ticks all the time sums up by how much it was late,
/// as does a task beside the library's own, whose thread may stand still alone; the larger sum is taken off. What anybody
/// waits for in vain is counted in full.
#[derive(Debug)]
pub struct Stopwatch {
    since: Instant,
    /// How long it had stood still before; `None` in virtual time, which stands still with the machine.
    stalled: Option<[Duration; 2]>,
}

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Stopwatch {
        let stalled = Some(stalled());
        Stopwatch { since: Instant::now(), stalled }
    }

    /// One for a runtime with a paused clock.
    pub fn in_virtual_time() -> Stopwatch {
        Stopwatch { since: Instant::now(), stalled: None }
    }

    /// What has passed since the start, but for what this process did not see of it.
    pub fn elapsed(&self) -> Duration {
        self.since.elapsed().saturating_sub(self.stalled())
    }

    /// For how long this process was kept from running since the start.
    pub fn stalled(&self) -> Duration {
        let Some(before) = self.stalled else { return Duration::ZERO };
        let [thread, library] = stalled();
        thread.saturating_sub(before[0]).max(library.saturating_sub(before[1]))
    }
}

/// A thread of its own, and the library's.
fn stalled() -> [Duration; 2] {
    TICKS.each_ref().map(|ticks| ticks.stalled())
}

/// Both tick until the process ends.
static TICKS: LazyLock<[Arc<Ticks>; 2]> = LazyLock::new(|| {
    let [thread, library] = [Ticks::new(), Ticks::new()];
    let (ticking, beside) = (thread.clone(), library.clone());
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(TICK);
            ticking.tick();
        }
    });
    System.spawn_background(Box::pin(async move {
        loop {
            tokio::time::sleep(TICK).await;
            beside.tick();
        }
    }));
    [thread, library]
});

/// By how much ticks were late in all, and when the next one is due.
#[derive(Debug)]
struct Ticks(Mutex<(Duration, std::time::Instant)>);

impl Ticks {
    fn new() -> Arc<Ticks> {
        Arc::new(Ticks(Mutex::new((Duration::ZERO, std::time::Instant::now() + TICK))))
    }

    fn tick(&self) {
        let mut ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = std::time::Instant::now();
        let (stalled, due) = *ticks;
        *ticks = (stalled + late(due, now), now + TICK);
    }

    /// With what the tick that is due is late by now: it may be stuck beside whoever asks.
    fn stalled(&self) -> Duration {
        let ticks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ticks.0 + late(ticks.1, std::time::Instant::now())
    }
}

fn late(due: std::time::Instant, now: std::time::Instant) -> Duration {
    let late = now.saturating_duration_since(due);
    if late > TICK { late } else { Duration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_tick_that_is_late_counts_once_and_before_it_comes() {
        let due = std::time::Instant::now().checked_sub(MINUTE).expect("up for a minute");
        let ticks = Ticks(Mutex::new((Duration::ZERO, due)));
        let counted = |stalled: Duration| stalled >= MINUTE && stalled < MINUTE * 3 / 2;
        assert!(counted(ticks.stalled()), "it may never come");
        ticks.tick();
        assert!(counted(ticks.stalled()), "counted twice, or not at all");
    }

    #[test]
    fn what_timers_are_late_by_does_not_count() {
        let due = std::time::Instant::now();
        assert_eq!(late(due, due + TICK), Duration::ZERO);
        assert_eq!(late(due + TICK, due), Duration::ZERO);
        assert_eq!(late(due, due + TICK * 2), TICK * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn virtual_time_counts_in_full() {
        let watch = Stopwatch::in_virtual_time();
        tokio::time::sleep(MINUTE).await;
        assert!(watch.elapsed() >= MINUTE && watch.stalled() == Duration::ZERO);
    }
}
