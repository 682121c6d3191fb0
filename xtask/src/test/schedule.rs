//! Runs jobs several at once.

use std::collections::HashSet;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::job::{Done, Job};

/// How often a job that waits for a slot looks whether the processors are idle. It is the time over which idleness is measured, too.
const LOOK: Duration = Duration::from_millis(100);
/// Which part of the processors' time must have been left over before a job beyond the usual number is started.
const LEFT_OVER: f64 = 0.3;

/// How many jobs run at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slots {
    /// As many always may.
    pub(crate) usual: usize,
    /// As many may while the tests leave processors idle, or to other programs: many tests wait for time to pass.
    pub(crate) most: usize,
}

impl Slots {
    pub(crate) fn exactly(count: usize) -> Slots {
        Slots { usual: count, most: count }
    }
}

/// Runs `jobs` in this order, as many at once as `slots` allow. `report` gets each as it ends, and `None` whenever `tick` has
/// passed without one.
pub(crate) fn run(
    jobs: &[Job],
    slots: Slots,
    tick: Duration,
    run: impl Fn(&Job) -> Done + Sync,
    mut report: impl FnMut(Option<Done>),
) {
    let gate = Gate::new(slots, jobs.len());
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..slots.most.min(jobs.len()) {
            let (sender, run, gate) = (sender.clone(), &run, &gate);
            scope.spawn(move || {
                while let Some(number) = gate.enter(processors) {
                    // The receiver stays until the last sender is gone.
                    let _ = sender.send(run(&jobs[number]));
                    gate.leave();
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

/// Hands out the numbers of the jobs, in order.
struct Gate {
    slots: Slots,
    jobs: usize,
    inside: Mutex<Inside>,
    left: Condvar,
}

struct Inside {
    next: usize,
    running: usize,
    /// What the processors had done at that moment.
    since: (Instant, Option<Processors>),
}

impl Gate {
    fn new(slots: Slots, jobs: usize) -> Gate {
        let inside = Inside { next: 0, running: 0, since: (Instant::now(), processors()) };
        Gate { slots, jobs, inside: Mutex::new(inside), left: Condvar::new() }
    }

    /// Waits for a slot; `None` when no job is left.
    fn enter(&self, processors: impl Fn() -> Option<Processors>) -> Option<usize> {
        let mut inside = self.lock();
        loop {
            if inside.next == self.jobs {
                return None;
            }
            let free = inside.running < self.slots.usual
                || inside.running < self.slots.most && inside.had_more(&processors);
            if free {
                inside.running += 1;
                inside.next += 1;
                return Some(inside.next - 1);
            }
            let waited = self.left.wait_timeout(inside, LOOK);
            inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn leave(&self) {
        self.lock().running -= 1;
        self.left.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    /// Whether the processors had time for more tests since the last measurement. One job enters per measurement, because only the
    /// next one shows what that job does.
    fn had_more(&mut self, processors: impl Fn() -> Option<Processors>) -> bool {
        let (at, before) = self.since;
        if at.elapsed() < LOOK {
            return false;
        }
        let now = processors();
        self.since = (Instant::now(), now);
        now.zip(before).is_some_and(|(now, before)| now.left_over_since(before) > LEFT_OVER)
    }
}

/// What the processors have done, in ticks, since the machine started.
#[derive(Clone, Copy, Debug)]
struct Processors {
    idle: u64,
    all: u64,
    /// What this process and its descendants used of it.
    own: u64,
}

impl Processors {
    /// The first line of `/proc/stat`: `cpu`, then the ticks in user mode, with low priority, in the kernel, idle, waiting for a
    /// disk, and others, of which those of guests are counted twice.
    fn parse(text: &str) -> Option<Processors> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().take(8).flat_map(str::parse).collect();
        Some(Processors { idle: *ticks.get(3)?, all: ticks.iter().sum(), own: 0 })
    }

    /// The part of their time that was idle, and half of what other programs used: a processor is shared with them, so the tests
    /// would have had as much if they had wanted it.
    fn left_over_since(self, before: Processors) -> f64 {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let own = self.own.saturating_sub(before.own);
        let others = all.saturating_sub(idle + own);
        (idle as f64 + others as f64 / 2.0) / all.max(1) as f64
    }
}

/// `None` where the system does not say it: then no job beyond the usual number is started.
fn processors() -> Option<Processors> {
    let all = Processors::parse(&std::fs::read_to_string("/proc/stat").ok()?)?;
    let stats = std::fs::read_dir("/proc").ok()?.flatten();
    let numbered = stats.filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
    });
    // One that has ended meanwhile is counted by its parent.
    let texts = numbered.flat_map(|entry| std::fs::read_to_string(entry.path().join("stat")));
    let processes: Vec<Process> = texts.filter_map(|text| Process::parse(&text)).collect();
    Some(Processors { own: ticks_of(std::process::id(), &processes), ..all })
}

/// A process, as `/proc/PID/stat` describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Those of its children that have ended and were waited for included.
    ticks: u64,
}

impl Process {
    /// The number, the name in parentheses, the state, the parent; the times are the 14th field to the 17th. The name may have
    /// spaces and parentheses of its own.
    fn parse(text: &str) -> Option<Process> {
        let (id, rest) = text.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let times = fields.get(11..15)?.iter().flat_map(|field| field.parse::<u64>());
        let parent = fields.get(1)?.parse().ok()?;
        Some(Process { id: id.parse().ok()?, parent, ticks: times.sum() })
    }
}

/// What `root` and its descendants have used.
fn ticks_of(root: u32, processes: &[Process]) -> u64 {
    let mut family = HashSet::from([root]);
    // A descendant may be listed before its parent.
    loop {
        let before = family.len();
        let children = processes.iter().filter(|process| family.contains(&process.parent));
        let children: Vec<u32> = children.map(|process| process.id).collect();
        family.extend(children);
        if family.len() == before {
            break;
        }
    }
    processes.iter().filter(|process| family.contains(&process.id)).map(|p| p.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::job::Work;

    fn jobs(count: usize) -> Vec<Job> {
        (0..count).map(|n| Job { name: n.to_string(), work: Work::One(n), seconds: 0.0 }).collect()
    }

    fn done(job: &Job) -> Done {
        Done { name: job.name.clone(), seconds: 0.0, results: Vec::new() }
    }

    #[test]
    fn as_many_run_at_once_as_there_are_slots() {
        let running = Mutex::new(0);
        let work = |job: &Job| {
            let now = {
                let mut running = running.lock().unwrap();
                *running += 1;
                *running
            };
            assert!(now <= 3);
            std::thread::sleep(Duration::from_millis(2));
            *running.lock().unwrap() -= 1;
            done(job)
        };
        let mut names = Vec::new();
        let tick = Duration::from_secs(60);
        run(&jobs(20), Slots::exactly(3), tick, work, |done| names.extend(done.map(|d| d.name)));
        names.sort_by_key(|name| name.parse::<usize>().unwrap());
        assert_eq!(names, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
    }

    #[test]
    fn one_slot_keeps_the_order() {
        let mut names = String::new();
        run(&jobs(5), Slots::exactly(1), Duration::from_secs(60), done, |done| {
            names.extend(done.map(|done| done.name));
        });
        assert_eq!(names, "01234");
    }

    #[test]
    fn idle_processors_get_more_jobs_one_per_measurement() {
        let gate = Gate::new(Slots { usual: 1, most: 2 }, 9);
        let at = |idle| move || Some(Processors { idle, all: 100, own: 100 - idle });
        let start = Processors { idle: 0, all: 0, own: 0 };
        gate.lock().since.1 = Some(start);
        assert_eq!(gate.enter(at(90)), Some(0));
        let mut inside = gate.lock();
        let before = Instant::now().checked_sub(LOOK).unwrap();
        assert!(!inside.had_more(at(90)), "measured over too short a time");
        inside.since = (before, Some(start));
        assert!(inside.had_more(at(90)));
        assert!(!inside.had_more(at(90)), "a second one on the same measurement");
        inside.since = (before, Some(start));
        assert!(!inside.had_more(at(10)));
        inside.since = (before, None);
        assert!(!inside.had_more(at(90)), "nothing is known");
    }

    #[test]
    fn the_ticks_of_the_processors_are_read() {
        let text = "cpu  10 20 30 400 50 6 7 8 900 1000\ncpu0 1 2 3 4\n";
        let read = Processors::parse(text).unwrap();
        assert_eq!((read.idle, read.all), (400, 531));
        assert!(Processors::parse("").is_none());
        let later = Processors { idle: 475, all: 631, own: 25 };
        assert!((later.left_over_since(read) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn tests_share_the_processors_with_other_programs() {
        let before = Processors { idle: 0, all: 0, own: 0 };
        let busy = |own| Processors { idle: 0, all: 100, own }.left_over_since(before);
        assert!(busy(20) > LEFT_OVER, "two other programs use what the tests would get");
        assert!(busy(50) < LEFT_OVER, "the tests use their share");
    }

    #[test]
    fn what_descendants_use_is_their_own_and_that_of_ended_children() {
        let text = "7 (a) b (c) S 5 7 7 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 99";
        assert_eq!(Process::parse(text), Some(Process { id: 7, parent: 5, ticks: 127 }));
        assert_eq!(Process::parse("7 (a"), None);
        let process = |id, parent, ticks| Process { id, parent, ticks };
        let all = [process(3, 2, 1), process(2, 1, 10), process(1, 0, 100), process(4, 0, 1000)];
        assert_eq!(ticks_of(1, &all), 111);
        let text = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert_eq!(Process::parse(&text).unwrap().id, std::process::id());
    }
}
