//! Which state file has a name. This is a contract between processes: two versions of the library that disagree about it would
//! not exclude each other.

/// How many state files a directory has at most: few enough to leave lying about, many enough that two busy names seldom
/// share one.
pub(super) const STRIPES: usize = 64;

/// There are sets of them, a bit each.
const _: () = assert!(STRIPES <= u64::BITS as usize);

/// A name, numbered: the file that has it, and what stands for it in calls between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) hash: u128,
    pub(super) stripe: usize,
}

impl Place {
    pub(super) fn of(name: &str) -> Place {
        Place::from_hash(fnv1a(name.as_bytes()))
    }

    pub(super) fn from_hash(hash: u128) -> Place {
        // The upper half is folded in because the lowest bits of FNV mix worst.
        let stripe = ((hash ^ (hash >> 64)) % STRIPES as u128) as usize;
        Place { hash, stripe }
    }
}

/// FNV-1a, 128 bits. Not meant to withstand an attacker: names that share a number only wake each other.
fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_a_contract_between_versions() {
        let long = "x".repeat(300);
        for (name, stripe) in [("hello", 60), ("orders:42/é", 58), (long.as_str(), 28)] {
            assert_eq!(Place::of(name).stripe, stripe);
        }
        assert_eq!(Place::of(&long).hash, 0x0ca8_7c95_ae29_6061_5dec_db05_0f1a_92bd);
    }
}
