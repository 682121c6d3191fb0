//! Lock names as file names.
//!
//! Two names never share a file: the encoding is injective, and where a name is too long for one, the hash that
//! stands for its tail is backed by the full name inside the file. All of this is a contract between processes: two
//! versions of the library that disagree about it would not exclude each other.

use std::fmt::Write;

/// How many lock files guard the state files of one directory: few enough to leave lying about, many enough that
/// two busy names seldom share one.
const STRIPES: u128 = 64;

/// The longest encoded name that is a file name as it is. File names end at 255 bytes on common file systems.
const LONGEST_PLAIN: usize = 200;

/// How much of a longer one stays readable in front of its hash.
const PREFIX: usize = 160;

/// Where the state of one name is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file that holds the state.
    pub(super) file: String,
    /// Which lock file guards it.
    pub(super) stripe: u8,
}

impl Place {
    pub(super) fn of(name: &str) -> Place {
        let hash = fnv1a(name.as_bytes());
        // The upper half is folded in because the lowest bits of FNV mix worst.
        let stripe = ((hash ^ (hash >> 64)) % STRIPES) as u8;
        Place { file: file_name(name, hash), stripe }
    }

    /// The lock file. Names that begin with a dot are ours: an encoded lock name never does.
    pub(super) fn lock_file(&self) -> String {
        format!(".lock-{:02}", self.stripe)
    }

    /// The file by which those who listen are known.
    pub(super) fn presence_file(&self) -> String {
        format!(".wait-{:02}", self.stripe)
    }

    /// Where the next state is prepared. One per lock file, so a writer that is killed leaves at most this one behind,
    /// and the next writer replaces it.
    pub(super) fn draft_file(&self) -> String {
        format!(".next-{:02}", self.stripe)
    }
}

fn file_name(name: &str, hash: u128) -> String {
    let mut plain = escape(name, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'));
    if plain.starts_with('.') {
        plain.replace_range(..1, "%2E");
    }
    if plain.len() <= LONGEST_PLAIN {
        return plain;
    }
    // `%-` cannot come from an escape, so a shortened name never equals a plain one.
    let mut end = PREFIX;
    while plain[end - 2..end].contains('%') {
        end -= 1; // do not cut an escape in two
    }
    format!("{}%-{hash:032x}", &plain[..end])
}

/// Replaces every byte that is not `safe`, and `%` itself, by `%XX`. `safe` must refuse bytes above 127 unless it
/// accepts all of them.
pub(super) fn escape(text: &str, safe: impl Fn(u8) -> bool) -> String {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if byte != b'%' && safe(byte) {
            out.push(byte);
        } else {
            let mut hex = String::with_capacity(3);
            write!(hex, "%{byte:02X}").expect("BUG: writing to a string cannot fail");
            out.extend_from_slice(hex.as_bytes());
        }
    }
    String::from_utf8(out).expect("BUG: whole characters are kept or escaped")
}

/// The inverse of [`escape`]; `None` for text that it cannot have written.
pub(super) fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            out.push(byte);
            rest = tail;
            continue;
        }
        let hex = std::str::from_utf8(tail.get(..2)?).ok()?;
        out.push(u8::from_str_radix(hex, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(out).ok()
}

/// FNV-1a, 128 bits. Not meant to withstand an attacker: names that collide are refused, not confused.
fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::env::Moment;
    use crate::file::record;
    use crate::store::state::exclusive::Entry;

    fn entry() -> Entry {
        let owner = "5f4c2c0e-3a1b-4a35-9a37-0d2f6f9f7c11:7".parse().unwrap();
        Entry { owner, depth: 3, expires: Moment::from_nanos(7) }
    }

    #[test]
    fn names_become_distinct_safe_file_names_and_survive_the_record() {
        let long = "x".repeat(4096);
        let longer = format!("{}y", "x".repeat(4095));
        #[rustfmt::skip]
        let mut names: Vec<String> = [
            "a", "A", "a/b", "a%2Fb", "a%2fb", "..", ".", ".a", "%2Ea", "%2E.", "a.b", "a b", "a\0b",
            "a%00b", "a\nb", "ä", "a\u{308}", "日本", "%", "%%", "%25", "-", "_", "{a}", "\u{1f512}",
            ".lock-00", ".wait-00", "a\r\nname b",
        ]
        .map(String::from)
        .into();
        names.extend([long, longer, "ä".repeat(2048), format!("{}日", "x".repeat(158))]);
        // Around the length where the hash sets in, with an escape across the cut.
        names.extend((150..210).map(|n| format!("{}/{}", "x".repeat(n), "z".repeat(60))));
        names.extend((190..210).map(|n| "x".repeat(n)));
        let shortened: Vec<String> = names.iter().map(|name| Place::of(name).file).collect();
        names.extend(shortened); // a file name is a name, too

        let names: HashSet<String> = names.into_iter().collect();
        let files: HashSet<String> = names.iter().map(|name| Place::of(name).file).collect();
        assert_eq!(files.len(), names.len());
        for file in &files {
            let safe = |c: char| c.is_ascii_alphanumeric() || "_-.%".contains(c);
            assert!(
                file.len() <= 200 && !file.starts_with('.') && file.chars().all(safe),
                "{file}"
            );
        }
        for name in &names {
            let text = record::write(name, &entry(), "boot");
            assert_eq!(text.lines().count(), 8);
            let read = record::read(text.as_bytes()).unwrap();
            assert_eq!((&read.name, &read.entry), (name, &entry()));
        }
    }

    #[test]
    fn places_are_a_contract_between_versions() {
        let place = |file: &str, stripe| Place { file: file.to_owned(), stripe };
        assert_eq!(Place::of("hello"), place("hello", 60));
        assert_eq!(Place::of("orders:42/é"), place("orders%3A42%2F%C3%A9", 58));
        let long = format!("{}%-0ca87c95ae2960615decdb050f1a92bd", "x".repeat(160));
        assert_eq!(Place::of(&"x".repeat(300)), place(&long, 28));
    }
}
