//! Numbers, owners and entries as bytes.
//!
//! Numbers are written seven bits a byte, low ones first. What is read was checked by its sum, but may be of a later version or
//! made by hand: it is an error, never a panic.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use uuid::Uuid;

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::PermitId;
use crate::store::machine::entry::AnyEntry;
use crate::store::machine::{exclusive, fair, fenced, latch, leased, permits, rw, simple};

/// Something that is kept as bytes.
pub(super) trait Coded: Sized {
    fn write(&self, out: &mut Vec<u8>);
    /// Takes itself off the front; `None` if that is not what stands there.
    fn read(from: &mut &[u8]) -> Option<Self>;
}

/// So many bytes off the front.
pub(super) fn take<'a>(from: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = from.split_at_checked(count)?;
    *from = rest;
    Some(taken)
}

impl Coded for u8 {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn read(from: &mut &[u8]) -> Option<u8> {
        take(from, 1).map(|taken| taken[0])
    }
}

impl Coded for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left > 0x7f {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }

    fn read(from: &mut &[u8]) -> Option<u64> {
        let mut value = 0_u64;
        for place in 0..10 {
            let byte = u8::read(from)?;
            let bits = u64::from(byte & 0x7f);
            // The tenth has room for one bit.
            if place == 9 && bits > 1 {
                return None;
            }
            value |= bits << (7 * place);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}

impl Coded for u32 {
    fn write(&self, out: &mut Vec<u8>) {
        u64::from(*self).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<u32> {
        u32::try_from(u64::read(from)?).ok()
    }
}

/// Small numbers of either sign are short.
impl Coded for i64 {
    fn write(&self, out: &mut Vec<u8>) {
        (((*self as u64) << 1) ^ ((*self >> 63) as u64)).write(out);
    }

    fn read(from: &mut &[u8]) -> Option<i64> {
        let bits = u64::read(from)?;
        Some((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }
}

impl Coded for Moment {
    fn write(&self, out: &mut Vec<u8>) {
        self.as_nanos().write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Moment> {
        u64::read(from).map(Moment::from_nanos)
    }
}

impl Coded for Uuid {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Uuid> {
        Uuid::from_slice(take(from, 16)?).ok()
    }
}

impl Coded for Owner {
    fn write(&self, out: &mut Vec<u8>) {
        let (client, number) = self.parts();
        out.extend_from_slice(&client);
        number.write(out);
    }

    fn read(from: &mut &[u8]) -> Option<Owner> {
        Some(Owner::from_parts(Uuid::read(from)?, u64::read(from)?))
    }
}

impl Coded for PermitId {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<PermitId> {
        take(from, 16)?.try_into().ok().map(PermitId::from_bytes)
    }
}

impl Coded for Arc<str> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn read(from: &mut &[u8]) -> Option<Arc<str>> {
        let len = usize::try_from(u64::read(from)?).ok()?;
        std::str::from_utf8(take(from, len)?).ok().map(Arc::from)
    }
}

impl<T: Coded> Coded for Option<T> {
    fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut &[u8]) -> Option<Option<T>> {
        match u8::read(from)? {
            0 => Some(None),
            1 => T::read(from).map(Some),
            _ => None,
        }
    }
}

impl<A: Coded, B: Coded> Coded for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut &[u8]) -> Option<(A, B)> {
        Some((A::read(from)?, B::read(from)?))
    }
}

impl<T: Coded> Coded for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|one| one.write(out));
    }

    fn read(from: &mut &[u8]) -> Option<Vec<T>> {
        let count = u64::read(from)?;
        // Each takes a byte at least: a number that was made up does not cost memory.
        if count > from.len() as u64 {
            return None;
        }
        (0..count).map(|_| T::read(from)).collect()
    }
}

impl<K: Coded + Eq + Hash + Copy, V: Coded + Copy> Coded for HashMap<K, V> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|(key, value)| (*key, *value).write(out));
    }

    fn read(from: &mut &[u8]) -> Option<HashMap<K, V>> {
        Vec::<(K, V)>::read(from).map(|all| all.into_iter().collect())
    }
}

impl<K: Coded + Ord + Copy, V: Coded + Copy> Coded for BTreeMap<K, V> {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u64).write(out);
        self.iter().for_each(|(key, value)| (*key, *value).write(out));
    }

    fn read(from: &mut &[u8]) -> Option<BTreeMap<K, V>> {
        Vec::<(K, V)>::read(from).map(|all| all.into_iter().collect())
    }
}

/// A struct as its fields one after the other.
macro_rules! coded {
    ($($name:ty: $($field:ident)*;)*) => {
        $(impl Coded for $name {
            fn write(&self, out: &mut Vec<u8>) {
                $(self.$field.write(out);)*
            }

            fn read(from: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: Coded::read(from)?,)* })
            }
        })*
    };
}

coded! {
    exclusive::TimedHold: owner depth expires;
    fair::FairEntry: held queue;
    fair::QueuePlace: owner until;
    rw::RwEntry: writer readers waiting;
    rw::WaitingWriter: owner until;
    permits::PermitsEntry: left out;
    leased::LeasedEntry: left out;
    latch::LatchEntry: count counted;
    fenced::GateEntry: highest;
}
pub(super) use coded;

impl Coded for simple::SimpleEntry {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }

    fn read(from: &mut &[u8]) -> Option<simple::SimpleEntry> {
        Coded::read(from).map(simple::SimpleEntry)
    }
}

fn numbered(number: u8, entry: &impl Coded, out: &mut Vec<u8>) {
    out.push(number);
    entry.write(out);
}

/// The machine's number, then its entry. The numbers are a contract between versions.
impl Coded for AnyEntry {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            AnyEntry::Hold(entry) => numbered(1, entry, out),
            AnyEntry::Rw(entry) => numbered(2, entry, out),
            AnyEntry::Simple(entry) => numbered(3, entry, out),
            AnyEntry::Permits(entry) => numbered(4, entry, out),
            AnyEntry::Leased(entry) => numbered(5, entry, out),
            AnyEntry::Latch(entry) => numbered(6, entry, out),
            AnyEntry::Gate(entry) => numbered(7, entry, out),
        }
    }

    fn read(from: &mut &[u8]) -> Option<AnyEntry> {
        Some(match u8::read(from)? {
            1 => AnyEntry::Hold(Coded::read(from)?),
            2 => AnyEntry::Rw(Coded::read(from)?),
            3 => AnyEntry::Simple(Coded::read(from)?),
            4 => AnyEntry::Permits(Coded::read(from)?),
            5 => AnyEntry::Leased(Coded::read(from)?),
            6 => AnyEntry::Latch(Coded::read(from)?),
            7 => AnyEntry::Gate(Coded::read(from)?),
            _ => return None,
        })
    }
}
