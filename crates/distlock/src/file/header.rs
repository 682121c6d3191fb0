//! The first bytes of a state file, which say where its page is.

use uuid::Uuid;

use super::record::Wrong;

const MAGIC: &[u8; 8] = b"distlock";

/// Version 1 was a text file for each lock.
const VERSION: u32 = 2;

/// Nothing is broken: it is not ours to change.
pub(super) const OTHER_VERSION: Wrong = "it was written by another version of distlock";

/// How long it is.
pub(super) const HEADER: usize = 64;

/// The capacity of a new file's slots: all of it is one page of memory.
const LEAST: usize = (4096 - HEADER) / 2;

/// Where the slots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) base: usize,
    /// 0 if there are none yet.
    pub(super) capacity: usize,
}

impl Room {
    pub(super) fn end(self) -> usize {
        self.base + 2 * self.capacity
    }

    /// The same unless it is too small, or far too large.
    pub(super) fn for_page(self, length: usize) -> Room {
        let least = Room { base: HEADER, capacity: LEAST };
        if length > self.capacity {
            let capacity = (length * 2).next_power_of_two();
            // Not over the page that counts, nor over where it goes back to.
            let base = self.end().max(least.end());
            return if length <= LEAST { least } else { Room { base, capacity } };
        }
        if length <= LEAST / 2 && self.base >= least.end() { least } else { self }
    }
}

pub(super) struct Header {
    pub(super) room: Room,
    pub(super) generation: u64,
    pub(super) length: u32,
    pub(super) sum: u64,
    pub(super) boot: Uuid,
}

impl Header {
    /// `None` for a file that was made and never written to.
    pub(super) fn read(start: &[u8]) -> Result<Option<Header>, Wrong> {
        if start.iter().take(HEADER).all(|byte| *byte == 0) {
            return Ok(None);
        }
        let Some(bytes) = start.get(..HEADER).filter(|bytes| bytes.starts_with(MAGIC)) else {
            return Err("it is not a distlock state file");
        };
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let short =
            |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        // Looked at first: the rest of another version's header may mean anything.
        if short(8) != VERSION {
            return Err(OTHER_VERSION);
        }
        if long(56) != sum(&bytes[..56]) {
            return Err("its header is damaged");
        }
        let boot = Uuid::from_slice(&bytes[40..56]).unwrap_or_default();
        let room = Room { base: short(28) as usize, capacity: short(12) as usize };
        let (generation, length, sum) = (long(16), short(24), long(32));
        if length as usize > room.capacity || room.base < HEADER {
            return Err("its header is damaged");
        }
        Ok(Some(Header { room, generation, length, sum, boot }))
    }

    pub(super) fn bytes(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.room.capacity as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&self.generation.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.length.to_le_bytes());
        bytes[28..32].copy_from_slice(&(self.room.base as u32).to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sum.to_le_bytes());
        bytes[40..56].copy_from_slice(self.boot.as_bytes());
        let own = sum(&bytes[..56]);
        bytes[56..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Where its page begins.
    pub(super) fn slot(&self) -> usize {
        self.room.base + (self.generation & 1) as usize * self.room.capacity
    }
}

/// A checksum. Each step is a bijection, so a change within eight bytes never goes unseen.
pub(super) fn sum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |sum: u64, word: u64| {
        let sum = (sum ^ word).wrapping_mul(PRIME);
        sum ^ (sum >> 29)
    };
    let mut words = bytes.chunks_exact(8);
    let mut all = mix(PRIME, bytes.len() as u64);
    for word in &mut words {
        all = mix(all, u64::from_le_bytes(word.try_into().unwrap_or_default()));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(all, u64::from_le_bytes(last))
}
