//! What stands under a name, with whose it is and who listens; and the page that has all names of one state file.
//!
//! A page is a number, the last fencing token, and then record after record: its length, when nothing of it is left, its name, and
//! the rest. So a step decodes one record, and passes over the others or leaves out those that are over.

use std::collections::HashSet;
use std::sync::Arc;

use uuid::Uuid;

use crate::env::Moment;
use crate::holder::HolderInfo;
use crate::owner::Owner;
use crate::store::machine::entry::AnyEntry;
use crate::store::machine::{fair, latch, leased, permits, rw};
use crate::store::{Claim, Holder, PermitId, Snapshot};

use super::code::{Coded, coded, take};

/// What stands under one name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) entry: Option<AnyEntry>,
    /// Whose processes the owners in the entry are.
    pub(super) people: Vec<Person>,
    /// What holders say of themselves, by [`Holder::info_key`].
    pub(super) infos: Vec<(Arc<str>, Arc<str>)>,
    /// Who listens.
    pub(super) ears: Vec<Ear>,
}

/// An owner in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) owner: Owner,
    /// The process that it acts in.
    pub(super) process: Uuid,
    /// How many permits with ids it took.
    pub(super) permits: u32,
}

/// A process that listens to a name; or one of its waiters, in the queue of a fair lock, that listens for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ear {
    pub(super) process: Uuid,
    pub(super) waiter: Option<Owner>,
    /// How often it was called: one that missed a call sees that here.
    pub(super) calls: u64,
}

coded! {
    Record: entry people infos ears;
    Person: owner process permits;
    Ear: process waiter calls;
}

impl Record {
    fn is_empty(&self) -> bool {
        self.entry.is_none() && self.ears.is_empty()
    }

    /// Forgets those who are not in the entry any more, and remembers one who is.
    pub(super) fn settle(&mut self, person: Option<Person>) {
        if let Some(person) = person {
            self.people.retain(|known| known.owner != person.owner);
            self.people.push(person);
        }
        let Some(entry) = &self.entry else { return self.people.clear() };
        let inside = inside(entry);
        self.people.retain(|person| match entry {
            AnyEntry::Leased(entry) => {
                PermitId::of(person.owner, person.permits).any(|id| entry.out.contains_key(&id))
            }
            _ => inside.contains(&person.owner),
        });
    }

    /// Keeps what the claim says of its holder, if that holds now, and forgets whoever does not hold any more.
    pub(super) fn note(&mut self, claim: Option<&Claim>, now: Moment) {
        if let Some((claim, info)) = claim.and_then(|claim| Some((claim, claim.info.as_ref()?)))
            && claim.depth > 0
        {
            let key = Arc::from(claim.info_key());
            self.infos.retain(|(known, _)| *known != key);
            self.infos.push((key, Arc::from(info.to_text())));
        }
        if self.infos.is_empty() {
            return;
        }
        let holders = self.entry.as_ref().map(|entry| entry.view("", now).holders);
        let hold: HashSet<String> = holders.iter().flatten().map(Holder::info_key).collect();
        self.infos.retain(|(key, _)| hold.contains(&**key));
    }

    /// What stands there, with what is around it.
    pub(super) fn view(&self, name: &str, now: Moment) -> Snapshot {
        let live = self.entry.as_ref().filter(|entry| entry.is_live(now));
        let Some(entry) = live else { return Snapshot::free(name) };
        let mut seen = entry.view(name, now);
        for holder in &mut seen.holders {
            let key = holder.info_key();
            let text = self.infos.iter().find(|(known, _)| **known == *key).map(|(_, text)| text);
            holder.info = text.and_then(|text| HolderInfo::from_text(text));
        }
        seen.with_waiters(u32::try_from(self.ears.len()).ok())
    }

    /// The same after a boot. Nobody lives who held anything or waited; what was counted still counts.
    fn after_boot(self) -> Record {
        let entry = self.entry.and_then(|entry| match entry {
            AnyEntry::Hold(_) | AnyEntry::Rw(_) | AnyEntry::Simple(_) => None,
            AnyEntry::Permits(permits::PermitsEntry { left, out }) => {
                let back: i64 = out.values().map(|count| i64::from(*count)).sum();
                let left = left.saturating_add(back);
                Some(AnyEntry::Permits(permits::PermitsEntry { left, ..Default::default() }))
            }
            AnyEntry::Leased(leased::LeasedEntry { left, out }) => {
                let left = left.saturating_add(i64::try_from(out.len()).unwrap_or(i64::MAX));
                Some(AnyEntry::Leased(leased::LeasedEntry { left, ..Default::default() }))
            }
            AnyEntry::Latch(latch) => latch.count.map(|count| {
                AnyEntry::Latch(latch::LatchEntry { count: Some(count), ..Default::default() })
            }),
            AnyEntry::Gate(gate) => Some(AnyEntry::Gate(gate)),
        });
        Record { entry, ..Record::default() }
    }

    /// When nothing of it is left.
    fn until(&self) -> Moment {
        if !self.ears.is_empty() {
            return Moment::NEVER;
        }
        let last = match &self.entry {
            None => None,
            Some(AnyEntry::Hold(fair::FairEntry { held, queue })) => {
                let places = queue.iter().map(|place| place.until);
                places.chain(held.as_ref().map(|held| held.expires)).max()
            }
            Some(AnyEntry::Rw(rw::RwEntry { writer, readers, waiting })) => {
                let holds = writer.iter().chain(readers).map(|hold| hold.expires);
                holds.chain(waiting.as_ref().map(|waiting| waiting.until)).max()
            }
            Some(AnyEntry::Simple(simple)) => Some(simple.0.expires),
            Some(AnyEntry::Latch(latch::LatchEntry { count: None, counted })) => {
                counted.values().map(|(_, until)| *until).max()
            }
            Some(_) => Some(Moment::NEVER),
        };
        last.unwrap_or_else(|| Moment::from_nanos(0))
    }
}

/// The owners that an entry names. Those of permits with ids are not in it.
fn inside(entry: &AnyEntry) -> HashSet<Owner> {
    match entry {
        AnyEntry::Hold(fair::FairEntry { held, queue }) => {
            let places = queue.iter().map(|place| place.owner);
            places.chain(held.as_ref().map(|held| held.owner)).collect()
        }
        AnyEntry::Rw(rw::RwEntry { writer, readers, waiting }) => {
            let holds = writer.iter().chain(readers).map(|hold| hold.owner);
            holds.chain(waiting.as_ref().map(|waiting| waiting.owner)).collect()
        }
        AnyEntry::Simple(simple) => HashSet::from([simple.0.owner]),
        AnyEntry::Permits(permits) => permits.out.keys().copied().collect(),
        AnyEntry::Leased(_) | AnyEntry::Latch(_) | AnyEntry::Gate(_) => HashSet::new(),
    }
}

/// Why a page cannot be read.
pub(super) type Wrong = &'static str;

const GARBLED: Wrong = "its content is not valid";

/// All records of one state file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    /// The last fencing token.
    pub(super) token: u64,
    records: &'a [u8],
}

/// One record in a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) name: &'a str,
    until: Moment,
    body: &'a [u8],
    whole: &'a [u8],
}

impl Raw<'_> {
    pub(super) fn record(&self) -> Result<Record, Wrong> {
        let mut body = self.body;
        Record::read(&mut body).filter(|_| body.is_empty()).ok_or(GARBLED)
    }

    /// Whether this process is in it.
    pub(super) fn mentions(&self, process: Uuid) -> bool {
        self.body.windows(16).any(|bytes| bytes == process.as_bytes())
    }
}

impl<'a> Page<'a> {
    pub(super) fn read(mut bytes: &'a [u8]) -> Result<Page<'a>, Wrong> {
        if bytes.is_empty() {
            return Ok(Page { token: 0, records: bytes });
        }
        let token = u64::read(&mut bytes).ok_or(GARBLED)?;
        Ok(Page { token, records: bytes })
    }

    pub(super) fn records(&self) -> impl Iterator<Item = Result<Raw<'a>, Wrong>> + use<'a> {
        let mut rest = self.records;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let raw = raw(&mut rest);
            if raw.is_none() {
                rest = &[];
            }
            Some(raw.ok_or(GARBLED))
        })
    }

    pub(super) fn find(&self, name: &str) -> Result<Option<Raw<'a>>, Wrong> {
        for raw in self.records() {
            let raw = raw?;
            if raw.name == name {
                return Ok(Some(raw));
            }
        }
        Ok(None)
    }

    /// The page with another record under `name`, without those that are over.
    pub(super) fn with(
        &self,
        token: u64,
        name: &str,
        record: &Record,
        now: Moment,
    ) -> Result<Vec<u8>, Wrong> {
        let mut out = begun(token, self.records.len() + 256);
        for raw in self.records() {
            let raw = raw?;
            if raw.name != name && raw.until > now {
                out.extend_from_slice(raw.whole);
            }
        }
        append(name, record, &mut out);
        Ok(out)
    }

    /// The page with every record changed.
    pub(super) fn changed(
        &self,
        mut change: impl FnMut(&str, Record) -> Record,
    ) -> Result<Vec<u8>, Wrong> {
        let mut out = begun(self.token, self.records.len());
        for raw in self.records() {
            let raw = raw?;
            append(raw.name, &change(raw.name, raw.record()?), &mut out);
        }
        Ok(out)
    }

    /// The page of an earlier boot, in this one.
    pub(super) fn after_boot(&self) -> Result<Vec<u8>, Wrong> {
        self.changed(|_, record| record.after_boot())
    }
}

/// Whether a page has neither records nor a token.
pub(super) fn is_blank(page: &[u8]) -> bool {
    Page::read(page).is_ok_and(|page| page.token == 0 && page.records.is_empty())
}

fn begun(token: u64, room: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(room + 10);
    token.write(&mut out);
    out
}

fn raw<'a>(rest: &mut &'a [u8]) -> Option<Raw<'a>> {
    let all = *rest;
    let len = u32::from_le_bytes(take(rest, 4)?.try_into().ok()?) as usize;
    let mut body = take(rest, len)?;
    let until = Moment::from_nanos(u64::from_le_bytes(take(&mut body, 8)?.try_into().ok()?));
    let name = usize::try_from(u64::read(&mut body)?).ok()?;
    let name = std::str::from_utf8(take(&mut body, name)?).ok()?;
    Some(Raw { name, until, body, whole: &all[..4 + len] })
}

fn append(name: &str, record: &Record, out: &mut Vec<u8>) {
    if record.is_empty() {
        return;
    }
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&record.until().as_nanos().to_le_bytes());
    (name.len() as u64).write(out);
    out.extend_from_slice(name.as_bytes());
    record.write(out);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}
