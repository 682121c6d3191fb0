//! The error of an acquire that waited its whole time.

use std::sync::Arc;
use std::time::SystemTime;

use crate::engine::{Ask, Engine, Wait};
use crate::error::{Error, ErrorKind};
use crate::locks::config;
use crate::runtime::duration::rounded;
use crate::runtime::timeout::timeout;
use crate::store::{ClaimKind, Holder, Snapshot};

/// Returns the error of an acquire that waited its whole time: it names the holder, if the store returns it in time.
pub(crate) async fn timeout_error(engine: Arc<Engine>, name: Arc<str>, ask: Ask) -> Error {
    let (waited, ended) = match ask.wait {
        Wait::For(wait) => {
            let wait = rounded(wait);
            (format!("after {wait:?}"), format!("until the wait of {wait:?} ended"))
        }
        _ => ("at the only attempt".to_owned(), "at the only attempt".to_owned()),
    };
    let is_latch = matches!(ask.what, ClaimKind::LatchOpen);
    let (still, asked) = match is_latch {
        true => ("not open", "its count"),
        false => ("still busy", "the holder"),
    };
    let asking = engine.inspect(ask.what, &name);
    let Some(seen) = timeout(&*engine.env, config::REPLY_TIMEOUT, asking).await else {
        let limit = config::REPLY_TIMEOUT;
        let text = format!(
            "{still} {waited}, and the store did not reply within {limit:?} when asked for {asked}"
        );
        return Error::new(ErrorKind::Unavailable, text).about(ask.kind, &name);
    };
    let mut left = None;
    let holder = match seen {
        Ok(seen) => {
            left = seen.ttl;
            obstacle(ask.what, &seen, engine.env.time_of_day())
        }
        Err(e) if e.is_retryable() => return e.about(ask.kind, &name),
        Err(_) => Some(format!("the store refused to return {asked}")),
    };
    let text = match holder {
        Some(holder) => format!("{still} {waited}; {holder}"),
        None if is_latch => format!("was not open {ended}; it has been opened since"),
        None => format!("was busy {ended}; it has become free since"),
    };
    Error::new(ErrorKind::WaitTimeout, text).about(ask.kind, &name).free_in(left)
}

/// Returns what keeps the lock busy, in words; `None` if it is free now.
fn obstacle(what: ClaimKind, seen: &Snapshot, now: SystemTime) -> Option<String> {
    // One holder of several: rather one with information about itself.
    let described = seen.holders.iter().find(|holder| holder.info.is_some());
    let holder = described.or(seen.holders.first());
    let more = match seen.holders.len() {
        0 | 1 => String::new(),
        several => format!(", and {} more", several - 1),
    };
    let who = |holder: &Holder| {
        // Another client may have written it: it must not be able to forge a log line.
        let owner = holder.owner.escape_debug();
        match &holder.info {
            None => format!("owner {owner}"),
            Some(info) => {
                let held = rounded(info.held_for(now));
                format!("{info} (since {}, {held:?}; owner {owner})", info.since())
            }
        }
    };
    // The watchdog of a holder without a lease of its own renews it.
    let for_so_long = match seen.ttl {
        Some(ttl) => format!("for another {:?} unless renewed", rounded(ttl)),
        None => "until it releases them".to_owned(),
    };
    Some(match (what, seen.count, holder) {
        (ClaimKind::LatchOpen, Some(count), _) if count > 0 => format!("its count is {count}"),
        (ClaimKind::LatchOpen, ..) => return None,
        (ClaimKind::Permits { .. } | ClaimKind::LeasedPermits { .. }, None, _) => {
            "the number of permits is not set: call init, or use with_permits".to_owned()
        }
        (
            ClaimKind::Permits { count, .. } | ClaimKind::LeasedPermits { count, .. },
            Some(left),
            first,
        ) => {
            let out = first.map_or(String::new(), |first| {
                format!("; {} has {} {for_so_long}{more}", who(first), first.depth)
            });
            format!("{count} wanted, {left} left{out}")
        }
        (_, _, Some(first)) => format!("held by {} {for_so_long}{more}", who(first)),
        (_, _, None) => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::holder::HolderInfo;

    #[test]
    fn text_from_the_store_cannot_forge_a_log_line() {
        for info in [None, HolderInfo::from_text("pid=1&at=1769851800000")] {
            let holder = Holder::new("x\n\u{1b}[2J", 1).with_info(info);
            let seen = Snapshot::held("k", vec![holder], Duration::from_secs(1));
            let said =
                obstacle(ClaimKind::Exclusive, &seen, SystemTime::now()).expect("it is held");
            assert!(said.contains("owner x\\n\\u{1b}[2J"), "{said:?}");
            assert!(!said.contains(char::is_control), "{said:?}");
        }
    }
}
