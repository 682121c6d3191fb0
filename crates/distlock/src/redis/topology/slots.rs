//! Which of a cluster's 16384 slots a key lives in.

use crate::error::{Error, ErrorKind, Result};

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16384;

/// CRC-16 with the polynomial 0x1021, most significant bit first, from 0.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of a key or a sharded channel.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// What counts of a key that brings a tag: what is between the first `{` and the first `}` after it, if anything is.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let inside = &key[open + 1..];
    let close = inside.iter().position(|byte| *byte == b'}')?;
    (close > 0).then(|| &inside[..close])
}

/// The slot of everything that belongs to the lock `name`.
///
/// A name without braces becomes the tag of every key and channel derived from it, and one with a tag hands that on. Any
/// other is refused: what is derived from it would be in another slot, and so on another server.
pub(crate) fn of_name(name: &str) -> Result<u16> {
    let plain = !name.contains(['{', '}']);
    if plain || tag(name.as_bytes()).is_some() {
        return Ok(slot(name.as_bytes()));
    }
    Err(Error::new(
        ErrorKind::InvalidName,
        "the braces of this name would put its keys on different servers of the cluster: use none, or one {tag} with \
         something in it",
    ))
}

/// The same for a latch. Redisson puts the whole name between braces to make its channel, so that a brace in the name ends
/// up in another slot; its own latches fail with such names as well.
pub(crate) fn of_latch(name: &str) -> Result<u16> {
    if name.contains(['{', '}']) {
        return Err(Error::new(
            ErrorKind::InvalidName,
            "the name of a latch on a cluster must have no braces: its channel would be on another server",
        ));
    }
    Ok(slot(name.as_bytes()))
}

/// Refuses keys of a command that are in another slot than the lock under whose guard it is to run.
pub(crate) fn check_keys(name: &str, keys: &[Vec<u8>]) -> Result<()> {
    let home = slot(name.as_bytes());
    match keys.iter().find(|key| slot(key) != home) {
        None => Ok(()),
        Some(key) => Err(Error::new(
            ErrorKind::Config,
            format!(
                "the key {:?} is in another slot of the cluster than the lock: give both the same {{tag}}",
                String::from_utf8_lossy(key)
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::wire;

    #[test]
    fn the_sum_is_that_of_the_specification() {
        let table: [(&[u8], u16); 4] =
            [(b"", 0), (b"123456789", 0x31C3), (b"A", 0x58E5), (b"foo", 0xAF96)];
        for (bytes, sum) in table {
            assert_eq!(crc16(bytes), sum, "{bytes:?}");
        }
    }

    /// As `CLUSTER KEYSLOT` of a server answers.
    #[test]
    fn slots_are_those_of_a_server() {
        let table = [
            ("", 0),
            ("foo", 12182),
            ("bar", 5061),
            ("hello", 866),
            ("123456789", 12739),
            ("{user1000}.following", 3443),
            ("{user1000}.followers", 3443),
            ("user1000", 3443),
            ("foo{bar}{zap}", 5061),
            ("foo{{bar}}zap", 4015),
            ("{bar", 4015),
            ("foo{}{bar}", 8363),
            ("{}", 15257),
        ];
        for (key, expected) in table {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
    }

    #[test]
    fn whatever_belongs_to_a_lock_shares_its_slot() {
        let owner: crate::Owner = "3f2504e0-4f89-41d3-9a0c-0305e82c3301:17".parse().unwrap();
        for name in ["L", "a:b", "{t}", "x{t}y", "}{t}", "x{t}y{}", "{{t}}", "naïve"] {
            let home = of_name(name).unwrap();
            let derived = [
                wire::channel(name).to_string(),
                wire::waiter_channel(name, owner),
                wire::queue(name).to_string(),
                wire::timeouts(name).to_string(),
                wire::token(name).to_string(),
                wire::rw_channel(name).to_string(),
                format!("{}{owner}:rwlock_timeout:1", wire::read_holds(name)),
                wire::waiting_writer(name).to_string(),
                wire::permits_channel(name).to_string(),
                wire::permits_out(name).to_string(),
                wire::leases(name).to_string(),
                wire::counted(name, owner),
                wire::fence(name).to_string(),
            ];
            for key in derived {
                assert_eq!(slot(key.as_bytes()), home, "{key}");
            }
        }
        assert_eq!(slot(wire::latch_channel("L").as_bytes()), of_latch("L").unwrap());
    }

    #[test]
    fn names_that_would_be_split_are_refused() {
        for name in ["a{b", "a}b", "{}", "x{}y", "{", "}", "x{}{t}", "}{"] {
            let split = slot(name.as_bytes()) != slot(wire::channel(name).to_string().as_bytes());
            assert!(split, "{name} is not split");
            assert_eq!(of_name(name).unwrap_err().kind(), ErrorKind::InvalidName, "{name}");
        }
        for name in ["x{t}y", "{L}", "a}b"] {
            assert_ne!(slot(name.as_bytes()), slot(wire::latch_channel(name).as_bytes()), "{name}");
            assert_eq!(of_latch(name).unwrap_err().kind(), ErrorKind::InvalidName, "{name}");
        }
    }
}
