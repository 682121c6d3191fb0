//! A job of a fleet runs once per tick, whatever clocks and nodes do.
mod fleet;
mod nesting;
mod servers;
mod virtual_time;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use distlock::Tick;

/// What ran, and on which node.
#[derive(Clone, Debug, Default)]
struct Runs(Arc<Mutex<Vec<(SystemTime, usize)>>>);

impl Runs {
    fn note(&self, tick: &Tick, node: usize) {
        self.0.lock().unwrap().push((tick.at(), node));
    }

    fn all(&self) -> Vec<(SystemTime, usize)> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Which nodes ran each tick.
    fn by_tick(&self) -> BTreeMap<SystemTime, Vec<usize>> {
        let mut ticks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (at, node) in self.all() {
            ticks.entry(at).or_default().push(node);
        }
        ticks
    }

    /// Each of these exactly once.
    fn assert_each_once(&self, ticks: &[SystemTime]) {
        let ran = self.by_tick();
        for (at, nodes) in &ran {
            assert_eq!(nodes.len(), 1, "{at:?} ran on {nodes:?}");
        }
        assert_eq!(
            ran.keys().copied().collect::<Vec<_>>(),
            ticks,
            "ticks were left out, or others run"
        );
    }
}
