//! Whatever is written is read, whatever else is there is refused.

use std::collections::{BTreeMap, HashMap};

use proptest::collection::{btree_map, hash_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::super::code::Coded;
use super::super::record::{Ear, Page, Person, Record};
use super::*;
use crate::store::PermitId;
use crate::store::machine::{exclusive, fair, fenced, latch, leased, permits, rw, simple};

fn owner() -> impl Strategy<Value = Owner> {
    (any::<u128>(), any::<u64>()).prop_map(|(id, n)| Owner::from_parts(Uuid::from_u128(id), n))
}

fn moment() -> impl Strategy<Value = Moment> {
    any::<u64>().prop_map(Moment::from_nanos)
}

fn hold() -> impl Strategy<Value = exclusive::TimedHold> {
    (owner(), any::<u32>(), moment()).prop_map(|(owner, depth, expires)| exclusive::TimedHold {
        owner,
        depth,
        expires,
    })
}

fn entry() -> impl Strategy<Value = AnyEntry> {
    let place = (owner(), moment()).prop_map(|(owner, until)| fair::QueuePlace { owner, until });
    let waiting = (owner(), moment()).prop_map(|(owner, until)| rw::WaitingWriter { owner, until });
    let id = any::<[u8; 16]>().prop_map(PermitId::from_bytes);
    prop_oneof![
        (option::of(hold()), vec(place, 0..9))
            .prop_map(|(held, queue)| AnyEntry::Hold(fair::FairEntry { held, queue })),
        (option::of(hold()), vec(hold(), 0..9), option::of(waiting)).prop_map(
            |(writer, readers, waiting)| AnyEntry::Rw(rw::RwEntry { writer, readers, waiting })
        ),
        hold().prop_map(|hold| AnyEntry::Simple(simple::SimpleEntry(hold))),
        (any::<i64>(), hash_map(owner(), any::<u32>(), 0..9))
            .prop_map(|(left, out)| AnyEntry::Permits(permits::PermitsEntry { left, out })),
        (any::<i64>(), btree_map(id, moment(), 0..9))
            .prop_map(|(left, out)| AnyEntry::Leased(leased::LeasedEntry { left, out })),
        (option::of(any::<u32>()), hash_map(owner(), (any::<u32>(), moment()), 0..9))
            .prop_map(|(count, counted)| AnyEntry::Latch(latch::LatchEntry { count, counted })),
        any::<u64>().prop_map(|highest| AnyEntry::Gate(fenced::GateEntry { highest })),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let id = || any::<u128>().prop_map(Uuid::from_u128);
    let person = (owner(), id(), any::<u32>()).prop_map(|(owner, process, permits)| Person {
        owner,
        process,
        permits,
    });
    let ear = (id(), option::of(owner()), any::<u64>()).prop_map(|(process, waiter, calls)| Ear {
        process,
        waiter,
        calls,
    });
    let infos = vec(("[a-z:]{0,9}", ".{0,9}"), 0..3)
        .prop_map(|infos| infos.into_iter().map(|(key, text)| (key.into(), text.into())).collect());
    (option::of(entry()), vec(person, 0..4), infos, vec(ear, 0..4))
        .prop_map(|(entry, people, infos, ears)| Record { entry, people, infos, ears })
}

proptest! {
    #[test]
    fn what_was_written_is_read(written in record()) {
        let mut bytes = Vec::new();
        written.write(&mut bytes);
        let mut rest = &bytes[..];
        prop_assert_eq!(Record::read(&mut rest), Some(written));
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_page_has_what_was_put_there(
        records in vec(("[a-z]{0,3}", record()), 0..12),
        token in any::<u64>(),
    ) {
        let start = Moment::from_nanos(0);
        let (mut page, mut expected) = (Vec::new(), BTreeMap::new());
        for (name, mut record) in records {
            // Somebody listens: it does not run out by itself.
            record.ears.push(Ear { process: Uuid::nil(), waiter: None, calls: 0 });
            page = Page::read(&page).unwrap().with(token, &name, &record, start).unwrap();
            expected.insert(name, record);
        }
        let read = Page::read(&page).unwrap();
        prop_assert!(page.is_empty() || read.token == token);
        let found: HashMap<String, Record> = read
            .records()
            .map(|raw| raw.map(|raw| (raw.name.to_owned(), raw.record().unwrap())).unwrap())
            .collect();
        prop_assert_eq!(found.len(), expected.len());
        for (name, record) in expected {
            prop_assert_eq!(&found[&name], &record);
            prop_assert_eq!(read.find(&name).unwrap().unwrap().record().unwrap(), record);
        }
    }

    #[test]
    fn garbage_is_refused_and_costs_nothing(bytes in vec(any::<u8>(), 0..300)) {
        let _ = Record::read(&mut &bytes[..]);
        if let Ok(page) = Page::read(&bytes) {
            for raw in page.records().flatten() {
                let _ = raw.record();
            }
            let _ = page.after_boot();
        }
    }

    #[test]
    fn what_was_cut_off_is_refused(written in record(), cut in any::<prop::sample::Index>()) {
        let mut bytes = Vec::new();
        written.write(&mut bytes);
        bytes.truncate(cut.index(bytes.len()));
        prop_assert_eq!(Record::read(&mut &bytes[..]), None);
    }
}
