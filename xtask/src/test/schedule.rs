//! Runs jobs several at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::job::{Done, Job};

/// Runs `jobs` in this order, `slots` of them at once. `report` gets each as it ends, and `None` whenever `tick` has passed
/// without one.
pub(crate) fn run(
    jobs: &[Job],
    slots: usize,
    tick: Duration,
    run: impl Fn(&Job) -> Done + Sync,
    mut report: impl FnMut(Option<Done>),
) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..slots.min(jobs.len()) {
            let (sender, run, next) = (sender.clone(), &run, &next);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The receiver stays until the last sender is gone.
                    let _ = sender.send(run(job));
                }
            });
        }
        drop(sender);
        loop {
            match receiver.recv_timeout(tick) {
                Ok(done) => report(Some(done)),
                Err(RecvTimeoutError::Timeout) => report(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::test::job::Work;

    #[test]
    fn as_many_run_at_once_as_there_are_slots() {
        let jobs: Vec<Job> = (0..20)
            .map(|n| Job { name: n.to_string(), work: Work::One(n), seconds: 0.0 })
            .collect();
        let running = Mutex::new((0, 0));
        let work = |job: &Job| {
            let now = {
                let mut running = running.lock().unwrap();
                running.0 += 1;
                running.1 = running.1.max(running.0);
                running.0
            };
            assert!(now <= 3);
            std::thread::sleep(Duration::from_millis(2));
            running.lock().unwrap().0 -= 1;
            Done { name: job.name.clone(), seconds: 0.0, results: Vec::new() }
        };
        let mut names = Vec::new();
        run(&jobs, 3, Duration::from_secs(60), work, |done| names.extend(done.map(|d| d.name)));
        names.sort_by_key(|name| name.parse::<usize>().unwrap());
        assert_eq!(names, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn one_slot_keeps_the_order() {
        let jobs: Vec<Job> =
            (0..5).map(|n| Job { name: n.to_string(), work: Work::One(n), seconds: 0.0 }).collect();
        let mut names = String::new();
        let work = |job: &Job| Done { name: job.name.clone(), seconds: 0.0, results: Vec::new() };
        run(&jobs, 1, Duration::from_secs(60), work, |done| {
            names.extend(done.map(|done| done.name));
        });
        assert_eq!(names, "01234");
    }
}
