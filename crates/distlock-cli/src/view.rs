//! A lock as people and programs see it.

use std::time::{Duration, SystemTime};

use distlock::store::{Holder, Mode, Snapshot};
use serde_json::{Value, json};

use crate::args::Kind;
use crate::clock;
use crate::duration;
use crate::print::{self, Paint};

/// What a list can tell about the kind: `fair`, `fenced` and `spin` look like `mutex` while they are held.
pub(crate) fn kind_of(lock: &Snapshot) -> Kind {
    match lock.holders.first().map(|holder| holder.mode) {
        Some(Mode::Read | Mode::Write) => Kind::Rw,
        Some(Mode::Permits) if lock.ttl.is_some() => Kind::LeasedSemaphore,
        Some(Mode::Permits) => Kind::Semaphore,
        _ => Kind::Mutex,
    }
}

/// How it is held, where there is more than one way.
pub(crate) fn manner(holder: &Holder) -> &'static str {
    match holder.mode {
        Mode::Read => " read",
        Mode::Write => " write",
        _ => "",
    }
}

/// Who holds it: what the holder says of itself if it does, and its owner.
pub(crate) fn who(holder: &Holder) -> String {
    let owner = print::name(&holder.owner);
    match &holder.info {
        Some(info) => format!("{} ({owner})", print::name(&info.to_string())),
        None => owner,
    }
}

/// How often it is held, if more than once.
pub(crate) fn depth(holder: &Holder) -> String {
    match (holder.mode, holder.depth) {
        (_, 1) => String::new(),
        (Mode::Permits, many) => format!(" ({many} permits)"),
        (_, depth) => format!(" ({depth} deep)"),
    }
}

/// The holder in as few words as name it: what it says of itself, or its owner if it says nothing.
pub(crate) fn brief(holder: &Holder) -> String {
    match &holder.info {
        Some(info) => print::name(&info.to_string()),
        None => print::name(&holder.owner),
    }
}

/// How long it has held it at `now`, if it says when that began. Clocks of different machines are compared here: good for people.
pub(crate) fn held_for(holder: &Holder, now: SystemTime) -> Option<Duration> {
    holder.info.as_ref().map(|info| info.held_for(now))
}

/// How long it had waited, if it says so.
pub(crate) fn waited(holder: &Holder) -> Option<Duration> {
    holder.info.as_ref().map(|info| info.waited)
}

/// How many wait for it, as far as the store can tell.
pub(crate) fn waiters(lock: &Snapshot) -> Option<u32> {
    let queued = u32::try_from(lock.queue.len()).ok().filter(|queued| *queued > 0);
    lock.waiters.or(queued)
}

/// A lock as JSON; a stable schema. What only some kinds have is there for these only.
pub(crate) fn json_of(kind: Kind, lock: &Snapshot) -> Value {
    let holder = |holder: &Holder| {
        let info = holder.info.as_ref().map(|info| {
            json!({
                "host": info.host,
                "pid": info.pid,
                "service": info.service,
                "label": info.label,
                "acquired_at": clock::utc(info.acquired_at),
                "waited_ms": millis(info.waited),
            })
        });
        let mut shown = json!({ "owner": holder.owner, "depth": holder.depth, "info": info });
        if let Some(manner) = Some(manner(holder).trim()).filter(|manner| !manner.is_empty()) {
            shown["mode"] = json!(manner);
        }
        shown
    };
    let mut shown = json!({
        "name": &*lock.name,
        "kind": kind.word(),
        "held": lock.is_held(),
        "holders": lock.holders.iter().map(holder).collect::<Vec<_>>(),
        "ttl_ms": lock.ttl.map(millis),
        "waiters": waiters(lock),
    });
    match kind {
        Kind::Fair => shown["queue"] = json!(lock.queue),
        Kind::Semaphore | Kind::LeasedSemaphore => shown["available"] = json!(lock.count),
        Kind::Latch => {
            let count = lock.count.unwrap_or(0);
            shown["count"] = json!(count);
            shown["open"] = json!(count == 0);
        }
        _ => {}
    }
    shown
}

/// A lock as JSON of which nobody knows how it is now: the same fields, with nothing in them but what it is called.
pub(crate) fn json_unseen(kind: Kind, lock: &Snapshot) -> Value {
    let mut shown = json_of(kind, lock);
    for (key, value) in shown.as_object_mut().into_iter().flatten() {
        if key != "name" && key != "kind" {
            *value = Value::Null;
        }
    }
    shown
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// Whether one could go in, and how it stands in a word or two.
pub(crate) fn state(kind: Kind, lock: &Snapshot) -> (bool, String) {
    match (kind, lock.count) {
        (kind, None) if kind.has_permits() => {
            (false, "how many permits there are has not been set".into())
        }
        (kind, Some(1)) if kind.has_permits() => (true, "1 permit left".into()),
        (kind, Some(left)) if kind.has_permits() && left > 0 => {
            (true, format!("{left} permits left"))
        }
        (kind, Some(_)) if kind.has_permits() => (false, "no permit left".into()),
        (Kind::Latch, None | Some(0)) => (true, "open".into()),
        (Kind::Latch, Some(count)) => (false, format!("opens after {count} more")),
        _ if lock.is_held() => (false, "held".into()),
        _ => (true, "free".into()),
    }
}

/// A lock in some lines for people.
pub(crate) fn text_of(kind: Kind, lock: &Snapshot, paint: Paint) -> String {
    let (free, state) = state(kind, lock);
    let state = if free { paint.good(&state) } else { paint.bad(&state) };
    let mut rows = vec![
        vec!["name".to_owned(), print::name(&lock.name)],
        vec!["kind".to_owned(), kind.word().to_owned()],
        vec!["state".to_owned(), state],
    ];
    for holder in &lock.holders {
        let how = match holder.mode {
            Mode::Read => " (reads)",
            Mode::Write => " (writes)",
            _ => "",
        };
        let line = print::name(&holder.owner) + how + &depth(holder);
        rows.push(vec!["holder".to_owned(), line]);
        if let Some(info) = &holder.info {
            let since = clock::utc(info.acquired_at);
            let held = duration::show(info.held_for(SystemTime::now()));
            let waited = duration::show(info.waited);
            rows.push(vec![String::new(), print::name(&info.to_string())]);
            rows.push(vec![
                String::new(),
                format!("since {since}, for {held}; had waited {waited}"),
            ]);
        }
    }
    for waiter in &lock.queue {
        rows.push(vec!["waits".to_owned(), print::name(waiter)]);
    }
    if lock.queue.is_empty()
        && let Some(count) = lock.waiters
    {
        rows.push(vec!["waiting".to_owned(), count.to_string()]);
    }
    if let Some(ttl) = lock.ttl {
        rows.push(vec!["ttl".to_owned(), format!("{} unless renewed", duration::show(ttl))]);
    }
    print::table(&rows)
}

/// What a run waits for; `None` if it need not wait any more.
pub(crate) fn why_wait(kind: Kind, lock: &Snapshot) -> Option<String> {
    let name = print::name(&lock.name);
    match (kind, lock.count) {
        (Kind::Latch, None | Some(0)) => None,
        (Kind::Latch, Some(count)) => {
            Some(format!("waiting for the latch {name}, which opens after {count} more"))
        }
        (Kind::Semaphore | Kind::LeasedSemaphore, Some(left)) if left > 0 => None,
        (Kind::Semaphore | Kind::LeasedSemaphore, _) => {
            Some(format!("waiting for a permit of {name}: none is left"))
        }
        _ => {
            let holder = lock.holders.first()?;
            let since = match (&holder.info, held_for(holder, SystemTime::now())) {
                (Some(info), Some(held)) => {
                    let (since, held) = (clock::utc(info.acquired_at), duration::show(held));
                    format!(" since {since}, for {held}")
                }
                _ => String::new(),
            };
            Some(format!("waiting for the lock {name}, held by {}{since}", who(holder)))
        }
    }
}

/// What a lock that was freed by force was before.
pub(crate) fn freed(kind: Kind, before: &Snapshot, freed: bool) -> String {
    let name = print::name(&before.name);
    match (kind, freed) {
        (Kind::Latch, true) => format!("{name} is open"),
        (Kind::Latch, false) => format!("{name} was open"),
        (Kind::Semaphore | Kind::LeasedSemaphore, false) => {
            format!("no permit of {name} was held")
        }
        (_, false) => format!("{name} was free"),
        (kind, true) => {
            let owners: Vec<_> = before.holders.iter().map(who).collect();
            let from = match owners.len() {
                0 => String::new(),
                _ => format!(" by {}", owners.join(", ")),
            };
            match kind {
                Kind::Semaphore | Kind::LeasedSemaphore => {
                    format!("{name} has its permits back; they were held{from}")
                }
                _ => format!("{name} is free; it was held{from}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_waits_learns_what_for() {
        let (free, held) = (Snapshot::free("x"), held());
        assert_eq!(why_wait(Kind::Mutex, &free), None);
        let why = why_wait(Kind::Fair, &held).expect("somebody is inside");
        assert!(why.contains("held by somebody"), "{why}");

        let counted = |count| Snapshot::free("x").with_count(Some(count));
        let why = why_wait(Kind::Latch, &counted(2)).expect("it is shut");
        assert!(why.contains("opens after 2 more"), "{why}");
        assert_eq!(why_wait(Kind::Latch, &counted(0)), None);
        assert_eq!(why_wait(Kind::Semaphore, &counted(1)), None);
        assert!(why_wait(Kind::LeasedSemaphore, &counted(0)).is_some());
    }

    #[test]
    fn what_was_freed_is_told() {
        assert_eq!(freed(Kind::Rw, &held(), true), "x is free; it was held by somebody");
        assert_eq!(freed(Kind::Simple, &Snapshot::free("x"), false), "x was free");
        assert_eq!(freed(Kind::Latch, &Snapshot::free("x"), true), "x is open");
        let permits = freed(Kind::Semaphore, &held(), true);
        assert_eq!(permits, "x has its permits back; they were held by somebody");
    }

    fn held() -> Snapshot {
        Snapshot::held("x", vec![Holder::new("somebody", 1)], std::time::Duration::from_secs(1))
    }
}
