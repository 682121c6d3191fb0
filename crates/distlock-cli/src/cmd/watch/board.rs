//! What has been seen so far.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use distlock::store::Snapshot;
use serde_json::{Value, json};

use super::look::Sight;
use crate::args::Kind;
use crate::clock;
use crate::times::Times;
use crate::view;

/// How many waits are remembered: enough for a p99 of the last while, and little enough to watch for weeks.
const REMEMBERED: usize = 10_000;

/// The locks as they were seen last, and what was learned on the way.
pub(super) struct Board {
    place: String,
    pub(super) rows: Vec<Row>,
    /// When `rows` was seen; `None` if nothing has been yet.
    pub(super) seen_at: Option<Instant>,
    /// Why nothing has been seen since, if so.
    pub(super) trouble: Option<String>,
    /// Holds that were there when it was looked, each counted once.
    pub(super) holds: u64,
    inside: HashSet<(String, String)>,
    waits: VecDeque<Duration>,
}

/// One lock.
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) lock: Snapshot,
    /// The longest time to live that was seen since it was last free: what a full bar stands for.
    pub(super) longest: Duration,
}

impl Board {
    pub(super) fn new(place: String) -> Board {
        Board {
            place,
            rows: Vec::new(),
            seen_at: None,
            trouble: None,
            holds: 0,
            inside: HashSet::new(),
            waits: VecDeque::new(),
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn add(&mut self, sight: Sight) {
        let seen = match sight {
            Ok(seen) => seen,
            Err(trouble) => {
                self.trouble = Some(trouble);
                return;
            }
        };
        let longest: HashMap<_, _> =
            self.rows.drain(..).map(|row| (row.lock.name, row.longest)).collect();
        let mut inside = HashSet::new();
        for (kind, lock) in seen {
            for holder in &lock.holders {
                let hold = (lock.name.to_string(), holder.owner.clone());
                if !self.inside.contains(&hold) && inside.insert(hold.clone()) {
                    self.holds += 1;
                    if let Some(waited) = view::waited(holder) {
                        self.waits.push_back(waited);
                    }
                }
                inside.insert(hold);
            }
            let ttl = lock.ttl.unwrap_or_default();
            let before = longest.get(&lock.name).copied().unwrap_or_default();
            self.rows.push(Row { kind, lock, longest: ttl.max(before) });
        }
        let forgotten = self.waits.len().saturating_sub(REMEMBERED);
        self.waits.drain(..forgotten);
        self.inside = inside;
        self.seen_at = Some(Instant::now());
        self.trouble = None;
    }

    /// How long the holders had waited that said so.
    pub(super) fn waits(&self) -> Times {
        Times::from(self.waits.iter().copied().collect::<Vec<_>>())
    }

    /// One line for programs.
    pub(super) fn json(&self) -> Value {
        let waits = self.waits();
        let mut wait = waits.json();
        wait["samples"] = json!(waits.len());
        let locks: Vec<Value> =
            self.rows.iter().map(|row| view::json_of(row.kind, &row.lock)).collect();
        json!({
            "time": clock::utc(SystemTime::now()),
            "store": self.place,
            "error": self.trouble,
            "locks": self.trouble.is_none().then_some(locks),
            "holds_seen": self.holds,
            "wait_ms": wait,
        })
    }
}
