//! Many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Field, Process, ms, secs};
use crate::suites::{Section, everybody};

/// What a machine that does other things may take for some visits more.
const LONG: Duration = Duration::from_secs(30);

async fn visit(process: Process, section: Arc<Section>, backwards: bool) {
    let lock = match backwards {
        true => process.some((0..process.names.len()).rev()),
        false => process.all(),
    };
    let guard = lock.lock().await.expect("all get free");
    section.visit().await;
    guard.unlock().await.expect("all were held");
}

/// Ten tasks of one process all get in, one at a time, each once.
pub async fn ten_tasks_of_one_process_never_meet(field: Field) {
    let here = field.process().await;
    let section = Section::new();
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        tasks.spawn(visit(here.clone(), section.clone(), false));
    }
    everybody(tasks).await;
    assert_eq!(section.entries(), 10);
}

/// The same for ten processes, half of which name the members the other way round.
pub async fn ten_processes_never_meet_in_whatever_order_they_name_them(field: Field) {
    let section = Section::new();
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        tasks.spawn(visit(field.process().await, section.clone(), n % 2 == 1));
    }
    everybody(tasks).await;
    assert_eq!(section.entries(), 10);
}

/// R#467, R#1160, R#4050: A, B against B, A neither deadlocks nor starves one of them.
pub async fn two_that_name_them_the_other_way_round_both_get_on(field: Field) {
    both_get_on_for(field, secs(2)).await;
}

/// The same for as long as it takes to believe it.
pub async fn two_that_name_them_the_other_way_round_get_on_for_ten_seconds(field: Field) {
    both_get_on_for(field, secs(10)).await;
}

async fn both_get_on_for(field: Field, time: Duration) {
    let section = Section::new();
    let processes = [field.process().await, field.process().await];
    let since = Arc::new(field.stopwatch());
    let mut tasks = JoinSet::new();
    let counts: Arc<[AtomicU64; 2]> = Arc::default();
    // Each goes on until both have been in so often: whoever starves has somebody in its way.
    let enough = 3 * time.as_secs();
    for (at, process) in processes.into_iter().enumerate() {
        let (section, since, counts) = (section.clone(), since.clone(), counts.clone());
        tasks.spawn(async move {
            let few = |count: &AtomicU64| count.load(Ordering::Relaxed) < enough;
            while since.elapsed() < time || counts.iter().any(few) {
                assert!(since.elapsed() < time + LONG, "somebody starved: {counts:?}");
                visit(process.clone(), section.clone(), at == 1).await;
                counts[at].fetch_add(1, Ordering::Relaxed);
                // Time passes also where it is virtual.
                tokio::time::sleep(ms(1)).await;
            }
        });
    }
    everybody(tasks).await;
    let counts: Vec<u64> = counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    assert_eq!(section.entries(), counts.iter().sum::<u64>());
}

/// Overlapping pairs: everybody shares a member with everybody else, and all get on.
pub async fn overlapping_pairs_all_get_on(field: Field) {
    let sections: Vec<Arc<Section>> = (0..field.size()).map(|_| Section::new()).collect();
    let mut tasks = JoinSet::new();
    let mut expected = vec![0; field.size()];
    for first in 0..field.size() {
        let second = (first + 1) % field.size();
        for at in [first, second] {
            expected[at] += 5;
        }
        let (process, sections) = (field.process().await, sections.clone());
        tasks.spawn(async move {
            for _ in 0..5 {
                let guard = process.some([first, second]).lock().await.expect("both get free");
                sections[first].enter();
                sections[second].enter();
                tokio::task::yield_now().await;
                sections[second].leave();
                sections[first].leave();
                guard.unlock().await.expect("both were held");
            }
        });
    }
    everybody(tasks).await;
    let entries: Vec<u64> = sections.iter().map(|section| section.entries()).collect();
    assert_eq!(entries, expected);
}

/// Those who want one member and those who want all exclude each other, and nobody is left out.
pub async fn those_who_want_one_and_those_who_want_all_all_get_on(field: Field) {
    let sections: Vec<Arc<Section>> = (0..field.size()).map(|_| Section::new()).collect();
    let mut tasks = JoinSet::new();
    let rounds = 8;
    for (at, section) in sections.iter().enumerate() {
        let (process, section) = (field.process().await, section.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                let guard = process.member(at).lock().await.expect("it gets free");
                section.visit().await;
                guard.unlock().await.expect("it was held");
            }
        });
    }
    for _ in 0..2 {
        let (process, sections) = (field.process().await, sections.clone());
        tasks.spawn(async move {
            for _ in 0..rounds {
                let guard = process.all().lock().await.expect("all get free");
                sections.iter().for_each(|section| section.enter());
                tokio::task::yield_now().await;
                sections.iter().for_each(|section| section.leave());
                guard.unlock().await.expect("all were held");
            }
        });
    }
    everybody(tasks).await;
    for section in &sections {
        assert_eq!(section.entries(), 3 * rounds);
    }
}
