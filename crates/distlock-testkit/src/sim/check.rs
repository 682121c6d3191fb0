//! What must never be seen.
//!
//! A hold is judged from the moment at which the library returns its guard until the program ends it, and only while the guard believes
//! in it (`!guard.is_lost()`). Since a guard never comes back from lost, it is enough to look when a hold begins.
//!
//! Left out is what docs/guarantees.md leaves out: a hold that the server granted before it lost data of that name (failover with a
//! lost tail, restart without data) or was told to free it (`force_unlock`). Such a hold is judged neither against others nor when it is
//! unlocked. Holds that were granted after that are. A hold that was handed over in memory, and of which the server does not know yet,
//! is as old as the hold of the same process from which it came. A guard may believe in a hold that the server lost for one lease
//! more, not longer.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};

use distlock::Owner;

use super::guards::AnyGuard;
use super::plan::Millis;
use super::server::Server;

/// How a hold excludes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    Alone,
    WithReaders,
    /// So many permits, of so many.
    Permits(u32, u32),
}

/// A hold that begins.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub(super) process: usize,
    pub(super) name: Arc<str>,
    pub(super) share: Share,
    pub(super) stay: Owner,
    pub(super) guard: Weak<AnyGuard>,
    /// Which of the guard's locks.
    pub(super) member: usize,
    pub(super) token: Option<u64>,
    /// When it was asked for: by the clock, and in the order of events.
    pub(super) asked: Asked,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    at: Millis,
    order: u64,
}

#[derive(Debug)]
struct Held {
    begun: Begun,
    /// When the server granted it, as far as was known when it began.
    since: Millis,
    /// Another owner held it before this hold was ended.
    overlapped: bool,
}

/// How a hold ended, as far as the program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was not asked.
    Unknown,
    /// `unlock` said that it was held until then.
    HeldUntilThen,
    /// Anything else.
    Failed,
}

/// The ledger of holds.
#[derive(Debug, Default)]
pub(super) struct Checker {
    held: BTreeMap<u64, Held>,
    order: u64,
    /// The process of each hold so far.
    processes: HashMap<Owner, usize>,
    /// By process and name: when the server granted the hold that ended last.
    handed_over: BTreeMap<(usize, Arc<str>), Millis>,
    /// By name: the tokens, with the order in which they were returned.
    tokens: BTreeMap<Arc<str>, Vec<(u64, u64)>>,
    /// By name of a latch: how many count-downs were begun, and how many returned.
    counted: BTreeMap<String, (u32, u32)>,
    pub(super) violations: Vec<String>,
    pub(super) granted: u64,
}

impl Begun {
    fn is_believed(&self) -> bool {
        self.guard.upgrade().is_some_and(|guard| guard.is_lost(self.member) == Some(false))
    }

    /// When the server granted this hold or a later level of it; `None` if it was handed over and the server does not know yet.
    fn granted(&self, server: &Server) -> Option<Millis> {
        let (first, last) = server.granted(&self.name, self.stay)?;
        (last >= self.asked.at).then_some(first)
    }

    /// Whether the server lost it, as documented.
    fn is_excused(&self, server: &Server, since: Millis) -> bool {
        server.lost_since(&self.name, self.granted(server).unwrap_or(since))
    }

    fn excludes(&self, other: &Begun) -> bool {
        self.name == other.name
            && self.stay != other.stay
            && !matches!((self.share, other.share), (Share::WithReaders, Share::WithReaders))
    }
}

impl fmt::Display for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p{} with {:?} of {}, asked for at {} ms",
            self.process, self.share, self.name, self.asked.at
        )
    }
}

impl Checker {
    pub(super) fn ask(&mut self, at: Millis) -> Asked {
        self.order += 1;
        Asked { at, order: self.order }
    }

    pub(super) fn violation(&mut self, at: Millis, text: impl fmt::Display) {
        self.violations.push(format!("at {at} ms: {text}"));
    }

    /// A guard was returned to the program. Returns the number of the hold.
    pub(super) fn begin(
        &mut self,
        server: &Server,
        begun: Begun,
        is_dead: impl Fn(usize) -> bool,
        now: Millis,
    ) -> u64 {
        self.order += 1;
        self.granted += 1;
        let number = self.order;
        let before = self.handed_over.get(&(begun.process, begun.name.clone())).copied();
        let since = begun.granted(server).or(before).unwrap_or(begun.asked.at);
        if begun.is_believed() && !begun.is_excused(server, since) {
            self.judge(server, &begun, is_dead, now);
        }
        if let Some(token) = begun.token {
            self.judge_token(&begun, token, now);
        }
        self.processes.insert(begun.stay, begun.process);
        self.held.insert(number, Held { begun, since, overlapped: false });
        number
    }

    fn judge(
        &mut self,
        server: &Server,
        begun: &Begun,
        is_dead: impl Fn(usize) -> bool,
        now: Millis,
    ) {
        let mut permits = match begun.share {
            Share::Permits(count, _) => count,
            _ => 0,
        };
        let others = self.held.values_mut().filter(|held| held.begun.excludes(begun));
        let others = others.filter(|held| !is_dead(held.begun.process));
        let mut found = Vec::new();
        for other in others.filter(|held| !held.begun.is_excused(server, held.since)) {
            let believed = other.begun.is_believed();
            match (begun.share, other.begun.share) {
                (Share::Permits(_, most), Share::Permits(count, _)) => {
                    permits += if believed { count } else { 0 };
                    if permits > most {
                        found.push(format!(
                            "{permits} of {most} permits of {} are held",
                            begun.name
                        ));
                    }
                }
                _ => {
                    other.overlapped = true;
                    if believed {
                        found.push(format!("two holders: {begun}, and {}", other.begun));
                    }
                }
            }
        }
        found.into_iter().for_each(|text| self.violation(now, text));
    }

    fn judge_token(&mut self, begun: &Begun, token: u64, now: Millis) {
        let order = self.order;
        let tokens = self.tokens.entry(begun.name.clone()).or_default();
        let before = tokens.iter().filter(|(returned, _)| *returned < begun.asked.order);
        let highest = before.map(|(_, token)| *token).max();
        let repeats = tokens.iter().any(|(_, earlier)| *earlier == token);
        tokens.push((order, token));
        if repeats || highest.is_some_and(|highest| highest >= token) {
            let text = format!("token {token} of {} after {highest:?}", begun.name);
            self.violation(now, text);
        }
    }

    /// The program is about to end a hold: it is judged no more. Returns what `unlock` may say.
    ///
    /// A guard that believes in its hold must be right, but for `lease` after the server lost it.
    pub(super) fn end(
        &mut self,
        server: &Server,
        number: u64,
        lease: Millis,
        now: Millis,
    ) -> Option<Ended> {
        let Held { begun, since, overlapped } = self.held.remove(&number)?;
        let excused = begun.is_excused(server, since);
        let since = begun.granted(server).unwrap_or(since);
        self.handed_over.insert((begun.process, begun.name.clone()), since);
        let lost = !begun.is_believed();
        let counts = matches!(begun.share, Share::Permits(..));
        let known = begun.granted(server).is_some();
        let lately = server.lost_since(&begun.name, now.saturating_sub(lease));
        // While a hand-over within the process is on its way, the server still has the hold before.
        let of_process = |stay: &Owner| self.processes.get(stay) == Some(&begun.process);
        let has = |stay: &Owner| *stay == begun.stay || of_process(stay);
        let holds = || server.holders(&begun.name, now).iter().any(has);
        if !lost && !counts && known && !lately && !holds() {
            let text = format!("the guard does not know that its hold is gone: {begun}");
            self.violation(now, text);
        }
        Some(Ended { text: begun.to_string(), was_over: (lost || overlapped) && !excused })
    }

    pub(super) fn ended(&mut self, ended: &Ended, ending: Ending, now: Millis) {
        if ended.was_over && ending == Ending::HeldUntilThen {
            let text = format!("unlock returned Ok although the hold was lost: {}", ended.text);
            self.violation(now, text);
        }
    }
}

impl Checker {
    pub(super) fn count_down(&mut self, latch: &str) {
        self.counted.entry(latch.to_owned()).or_default().0 += 1;
    }

    pub(super) fn counted_down(&mut self, latch: &str) {
        self.counted.entry(latch.to_owned()).or_default().1 += 1;
    }

    fn counts(&self, latch: &str) -> (u32, u32) {
        self.counted.get(latch).copied().unwrap_or_default()
    }

    /// A wait for a latch of `count` has ended.
    pub(super) fn opened(&mut self, server: &Server, latch: &str, count: u32, now: Millis) {
        let (begun, _) = self.counts(latch);
        if begun < count && !server.ever_lost(latch) {
            let text = format!("{latch} of {count} is open after {begun} count-downs");
            self.violation(now, text);
        }
    }

    /// What a latch of `count` has left in the end, without faults.
    pub(super) fn latch_left(
        &mut self,
        server: &Server,
        latch: &str,
        count: u32,
        left: u32,
        now: Millis,
    ) {
        let (begun, returned) = self.counts(latch);
        let range = count.saturating_sub(begun)..=count.saturating_sub(returned);
        if !range.contains(&left) && !server.ever_lost(latch) {
            let text = format!("{latch} has {left} left, not {range:?}");
            self.violation(now, text);
        }
    }
}

/// A hold that was ended.
#[derive(Debug)]
pub(super) struct Ended {
    text: String,
    was_over: bool,
}
