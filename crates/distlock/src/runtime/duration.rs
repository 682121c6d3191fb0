//! Durations in words, as in `locks.toml`, in `#[locked]` and on the command line.

use std::time::Duration;

/// The error text for everything else.
pub const EXPECTED: &str = "expected a number of seconds, or numbers with the units ms, s, m, h and d: 500ms, 10s, 2m, 1h30m";

const SECOND: u128 = 1_000_000_000;

/// Reads `10s`, `500ms`, `1h30m`, `1.5m`; a number without a unit is in seconds. `None` for anything else, and for what is
/// longer than a [`Duration`] can be. Can be called when a program is built.
pub const fn parse(text: &str) -> Option<Duration> {
    let bytes = text.as_bytes();
    let (mut at, mut total) = (0, 0u128);
    while at < bytes.len() {
        let start = at;
        let Some((number, scale, after)) = number(bytes, at) else { return None };
        let (unit, after) = match unit(bytes, after) {
            Some(found) => found,
            // In `1h30` it is not clear what the 30 are.
            None if start == 0 && after == bytes.len() => (SECOND, after),
            None => return None,
        };
        let Some(part) = number.checked_mul(unit) else { return None };
        total += part / scale;
        at = after;
    }
    let (seconds, nanos) = (total / SECOND, (total % SECOND) as u32);
    if bytes.is_empty() || seconds > u64::MAX as u128 {
        return None;
    }
    Some(Duration::new(seconds as u64, nanos))
}

/// A time for messages: in tenths of a second, below one second in milliseconds; rounded up.
pub(crate) fn rounded(time: Duration) -> Duration {
    let step = if time >= Duration::from_secs(1) { 100 } else { 1 };
    Duration::from_millis(u64::try_from(time.as_millis().div_ceil(step) * step).unwrap_or(u64::MAX))
}

/// The digits from `at` on as a number, what it must be divided by for its point, and what comes after.
const fn number(bytes: &[u8], mut at: usize) -> Option<(u128, u128, usize)> {
    let (mut number, mut scale, mut digits, mut point) = (0u128, 1u128, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            digit @ b'0'..=b'9' => {
                number = number * 10 + (digit - b'0') as u128;
                if point {
                    scale *= 10;
                }
                digits += 1;
            }
            b'.' if !point => point = true,
            _ => break,
        }
        // More digits than a real duration has; the product with the unit must not overflow.
        if digits > 18 {
            return None;
        }
        at += 1;
    }
    if digits == 0 { None } else { Some((number, scale, at)) }
}

/// The unit from `at` on in nanoseconds, and what comes after.
const fn unit(bytes: &[u8], at: usize) -> Option<(u128, usize)> {
    let second = if at + 1 < bytes.len() { bytes[at + 1] } else { b' ' };
    if at >= bytes.len() {
        return None;
    }
    match (bytes[at], second) {
        (b'm', b's') => Some((1_000_000, at + 2)),
        (b'm', b'i') if at + 2 < bytes.len() && bytes[at + 2] == b'n' => {
            Some((60 * SECOND, at + 3))
        }
        (b'm', _) => Some((60 * SECOND, at + 1)),
        (b's', _) => Some((SECOND, at + 1)),
        (b'h', _) => Some((3600 * SECOND, at + 1)),
        (b'd', _) => Some((86_400 * SECOND, at + 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        for (text, ms) in [
            ("10s", 10_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("1.5m", 90_000),
            ("2min", 120_000),
            ("3", 3_000),
            ("0.25", 250),
            ("1d", 86_400_000),
            ("0s", 0),
            (".5s", 500),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_not() {
        for text in [
            "",
            "s",
            "10x",
            "1h30",
            "-1s",
            "1..5s",
            "10 s",
            "1s ",
            "9999999999999999999s",
            "999999999999999999d",
            "1e3",
            "ms",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
