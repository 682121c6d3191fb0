//! Durations as people write them.

use std::time::Duration;

use distlock::duration;

/// See [`parse_interval`].
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// See [`parse_interval`].
const LONGEST_INTERVAL: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads `10s`, `500ms`, `1h30m`, `1.5m`; a number without a unit is in seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    duration::parse(text.trim()).ok_or_else(|| duration::EXPECTED.to_owned())
}

/// Like [`parse`], for durations that make no sense at zero.
pub(crate) fn parse_nonzero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("must be greater than 0; omit the option for no limit".into()),
        duration => Ok(duration),
    }
}

/// Like [`parse`], for how often a store is asked: not so often that asking is all it does, nor so rarely that clocks end before.
pub(crate) fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        interval if interval < SHORTEST_INTERVAL => Err("must be at least 50ms".into()),
        interval if interval > LONGEST_INTERVAL => Err("must be at most 365d".into()),
        interval => Ok(interval),
    }
}

/// A duration for people: two or three digits, the unit that fits.
pub(crate) fn show(d: Duration) -> String {
    let seconds = d.as_secs();
    match seconds {
        0 if d.is_zero() => "0 s".to_owned(),
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
        assert!(parse(&format!("{}d", u64::MAX)).is_err());
        for text in ["0", "0s", "0ms0s", "0.0"] {
            assert!(parse_nonzero(text).is_err(), "{text}");
        }
        for (text, good) in [
            ("49ms", false),
            ("50ms", true),
            ("365d", true),
            ("366d", false),
            ("200000000000000000m", false),
        ] {
            assert_eq!(parse_interval(text).is_ok(), good, "{text}");
        }
    }
}
