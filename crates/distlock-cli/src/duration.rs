//! Durations as people write them.

use std::time::Duration;

/// Reads `10s`, `500ms`, `1h30m`, `1.5m`; a number without a unit is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    const EXPECTED: &str =
        "expected a number of seconds, or numbers with units: 500ms, 10s, 2m, 1h30m";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(EXPECTED.to_owned());
    }
    let mut total = Duration::ZERO;
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let number: f64 = number.parse().map_err(|_| EXPECTED.to_owned())?;
        parts += 1;
        let seconds = match unit {
            "ms" => 0.001,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            // In `1h30` it is not clear what the 30 are.
            "" if parts == 1 && tail.is_empty() => 1.0,
            "" => return Err(EXPECTED.to_owned()),
            other => {
                return Err(format!("{other:?} is not a unit; the units are ms, s, m, h and d"));
            }
        };
        let part = Duration::try_from_secs_f64(number * seconds).ok();
        total = part.and_then(|part| total.checked_add(part)).ok_or("too long")?;
        rest = tail;
    }
    Ok(total)
}

/// Like [`parse`], for durations that make no sense at zero.
pub(crate) fn parse_nonzero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => {
            Err("it would end before it began; leave the option out for no limit".into())
        }
        duration => Ok(duration),
    }
}

/// A duration for people: two or three digits, the unit that fits.
pub(crate) fn show(d: Duration) -> String {
    let seconds = d.as_secs();
    match seconds {
        0 if d < Duration::from_millis(1) => format!("{} µs", d.as_micros()),
        0 if d < Duration::from_millis(10) => format!("{:.1} ms", d.as_secs_f64() * 1e3),
        0 => format!("{} ms", d.as_millis()),
        1..60 => format!("{:.1} s", d.as_secs_f64()),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86400 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86400, seconds / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_mean_what_they_say() {
        let good = [
            ("0", 0),
            ("10", 10_000),
            ("1.5", 1_500),
            ("10s", 10_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1m0.5s", 60_500),
            ("1d", 86_400_000),
            (" 3s ", 3_000),
        ];
        for (text, millis) in good {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", " ", "s", "-1s", "1x", "1h30", "1.2.3s", "1 s", "1e3", "inf", "NaN", "١s"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse(&format!("{}d", u64::MAX)), Err("too long".to_owned()));
        for text in ["0", "0s", "0ms0s", "0.0"] {
            assert!(parse_nonzero(text).is_err(), "{text}");
        }
    }
}
