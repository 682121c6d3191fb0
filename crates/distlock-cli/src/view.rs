//! Locks as they are printed, for people and for programs.

use std::time::{Duration, SystemTime};

use distlock::store::{Holder, Mode, Snapshot};
use serde_json::{Value, json};

use crate::args::Kind;
use crate::clock;
use crate::duration;
use crate::find;
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

/// The holder: what it stored about itself, if it did, and its owner id.
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

/// The holder in few words: what it stored about itself, or else its owner id.
pub(crate) fn brief(holder: &Holder) -> String {
    match &holder.info {
        Some(info) => print::name(&info.to_string()),
        None => print::name(&holder.owner),
    }
}

/// How long it has held the lock at `now`, if it stored when that began. This compares the clocks of two machines: good for people.
pub(crate) fn held_for(holder: &Holder, now: SystemTime) -> Option<Duration> {
    holder.info.as_ref().map(|info| info.held_for(now))
}

/// How long it had waited, if it stored that.
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

/// A lock as JSON whose state cannot be read: the same fields, null but for the name and the kind.
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

/// Whether a caller could acquire it now, and its state in a word or two.
pub(crate) fn state(kind: Kind, lock: &Snapshot) -> (bool, String) {
    match (kind, lock.count) {
        (kind, None) if kind.has_permits() => (false, "the number of permits is not set".into()),
        (kind, Some(1)) if kind.has_permits() => (true, "1 permit free".into()),
        (kind, Some(left)) if kind.has_permits() && left > 0 => {
            (true, format!("{left} permits free"))
        }
        (kind, Some(_)) if kind.has_permits() => (false, "no permit free".into()),
        (Kind::Latch, None | Some(0)) => (true, "open".into()),
        (Kind::Latch, Some(1)) => (false, "opens after 1 more count-down".into()),
        (Kind::Latch, Some(count)) => (false, format!("opens after {count} more count-downs")),
        _ if lock.is_held() => (false, "held".into()),
        _ => (true, "free".into()),
    }
}

/// A lock in some lines for people, for a terminal of so many columns. The ids of owners come last: they are long, and the rest says
/// more.
pub(crate) fn text_of(kind: Kind, lock: &Snapshot, paint: Paint, columns: Option<usize>) -> String {
    let (free, state) = state(kind, lock);
    let state = if free { paint.good(&state) } else { paint.bad(&state) };
    lines(lock, kind.word().to_owned(), state, columns)
}

/// The same of a number that can be a semaphore or a latch.
pub(crate) fn text_of_number(kinds: &[Kind], lock: &Snapshot, columns: Option<usize>) -> String {
    let kind = format!("{}: a number does not tell, add --kind", find::either(kinds));
    let number = lock.count.unwrap_or(0);
    lines(lock, kind, format!("the number is {number}; no permit is taken"), columns)
}

fn lines(lock: &Snapshot, kind: String, state: String, columns: Option<usize>) -> String {
    let row = |label: &str, text: String| [label.to_owned(), text];
    let mut rows =
        vec![row("name", print::name(&lock.name)), row("kind", kind), row("state", state)];
    for holder in &lock.holders {
        let how = match holder.mode {
            Mode::Read => " (reads)",
            Mode::Write => " (writes)",
            _ => "",
        };
        let suffix = how.to_owned() + &depth(holder);
        let Some(info) = &holder.info else {
            rows.push(row("holder", print::name(&holder.owner) + &suffix));
            continue;
        };
        let since = clock::utc(info.acquired_at);
        let held = duration::show(info.held_for(SystemTime::now()));
        let waited = duration::show(info.waited);
        rows.push(row("holder", print::name(&info.to_string()) + &suffix));
        rows.push(row("", format!("since {since}, for {held}; had waited {waited}")));
        rows.push(row("", format!("id {}", print::name(&holder.owner))));
    }
    for waiter in &lock.queue {
        rows.push(row("waits", print::name(waiter)));
    }
    if lock.queue.is_empty()
        && let Some(count) = lock.waiters
    {
        rows.push(row("waiting", count.to_string()));
    }
    if let Some(ttl) = lock.ttl {
        rows.push(row("ttl", format!("{} unless renewed", duration::show(ttl))));
    }
    print::pairs(&rows, columns)
}

/// What a run waits for; `None` if it need not wait any more.
pub(crate) fn why_wait(kind: Kind, lock: &Snapshot) -> Option<String> {
    let name = print::name(&lock.name);
    match (kind, lock.count) {
        (Kind::Latch, None | Some(0)) => None,
        (Kind::Latch, Some(count)) => {
            Some(format!("waiting for the latch {name}, whose count is {count}"))
        }
        (Kind::Semaphore | Kind::LeasedSemaphore, Some(left)) if left > 0 => None,
        (Kind::Semaphore | Kind::LeasedSemaphore, _) => {
            Some(format!("waiting for a permit of {name}: all are taken"))
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

/// What `unlock` did.
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

/// How many permits are taken, as far as their holders are stored.
pub(crate) fn taken(lock: &Snapshot) -> i64 {
    lock.holders.iter().map(|holder| i64::from(holder.depth)).sum()
}

/// How many permits a semaphore has in all; `None` if that is not set.
pub(crate) fn permits(lock: &Snapshot) -> Option<i64> {
    lock.count.map(|free| free + taken(lock))
}

/// For how long the commands of former holders may still run, in words.
pub(crate) fn runs_on(kind: Kind, before: &Snapshot) -> Option<String> {
    if before.holders.is_empty() {
        return None;
    }
    Some(match (kind, before.ttl) {
        (Kind::Semaphore, _) | (_, None) => {
            "permits without a lease cannot be lost: the commands that held them run to their end"
                .to_owned()
        }
        (_, Some(ttl)) => format!(
            "its command may still run for at most {}: `distlock run` stops it at its next renewal, due after a third of its --watchdog (10 s by default), unless --on-lost is warn",
            duration::show(ttl)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_told_what_it_waits_for() {
        let (free, held) = (Snapshot::free("x"), held());
        assert_eq!(why_wait(Kind::Mutex, &free), None);
        let why = why_wait(Kind::Fair, &held).expect("it is held");
        assert!(why.contains("held by its-owner"), "{why}");

        let counted = |count| Snapshot::free("x").with_count(Some(count));
        let why = why_wait(Kind::Latch, &counted(2)).expect("it is shut");
        assert!(why.contains("whose count is 2"), "{why}");
        assert_eq!(why_wait(Kind::Latch, &counted(0)), None);
        assert_eq!(why_wait(Kind::Semaphore, &counted(1)), None);
        assert!(why_wait(Kind::LeasedSemaphore, &counted(0)).is_some());
    }

    #[test]
    fn what_unlock_freed_is_printed() {
        assert_eq!(freed(Kind::Rw, &held(), true), "x is free; it was held by its-owner");
        assert_eq!(freed(Kind::Simple, &Snapshot::free("x"), false), "x was free");
        assert_eq!(freed(Kind::Latch, &Snapshot::free("x"), true), "x is open");
        let permits = freed(Kind::Semaphore, &held(), true);
        assert_eq!(permits, "x has its permits back; they were held by its-owner");
    }

    fn held() -> Snapshot {
        Snapshot::held("x", vec![Holder::new("its-owner", 1)], std::time::Duration::from_secs(1))
    }
}
