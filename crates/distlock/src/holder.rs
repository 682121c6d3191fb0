//! The description of a holder that is stored beside its lock.

use std::fmt::{self, Write as _};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::env::{Env, Moment};

/// The longest service name, host name and label, in bytes. Room for a sentence; what is longer is cut, because it is kept in the
/// store for as long as the lock is held, and read by every client that asks.
const LONGEST: usize = 256;

/// The longest text that is read at all: every field at its longest, with every byte escaped, and room for fields to come.
const LONGEST_TEXT: usize = 4096;

/// Describes the holder of a lock: its host, process and program, and the label of the hold.
///
/// Stored beside the lock for as long as it is held, if [`Builder::holder_info`](crate::Builder::holder_info) is set; other
/// clients, Redisson among them, never read it. The holder writes it: use it to find the holder, not as proof.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// let locks = distlock::Locks::builder().url("memory:").holder_info("billing").connect().await?;
/// let guard = locks.mutex("orders:42").lock().label("ship order").await?;
///
/// let seen = locks.mutex("orders:42").inspect().await?;
/// let info = seen.holders[0].info.as_ref().unwrap();
/// assert_eq!((info.service.as_str(), info.label.as_deref()), ("billing", Some("ship order")));
/// assert_eq!(info.pid, std::process::id());
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The host name of the machine.
    pub host: String,
    /// The id of the process.
    pub pid: u32,
    /// The name of the program, as [`Builder::holder_info`](crate::Builder::holder_info) set it.
    pub service: String,
    /// The [label](crate::Acquire::label) of the hold, if it has one.
    pub label: Option<String>,
    /// When the holder acquired the lock, by its own clock.
    pub acquired_at: SystemTime,
    /// How long the holder had waited by then.
    pub waited: Duration,
}

impl HolderInfo {
    /// Returns the info as one line, which a store keeps, times in milliseconds:
    /// `host=web-3&pid=4711&service=billing&label=ship%20order&at=1765432100000&waited=12`.
    ///
    /// ```
    /// use distlock::HolderInfo;
    /// let info = HolderInfo::from_text("host=web-3&pid=4711&service=a%20b&at=5&waited=12&more=1").unwrap();
    /// assert_eq!(info.to_text(), "host=web-3&pid=4711&service=a%20b&at=5&waited=12");
    /// assert_eq!(HolderInfo::from_text("anything else"), None);
    /// ```
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(96);
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        text.push_str("host=");
        escape(&self.host, &mut text);
        let _ = write!(text, "&pid={}&service=", self.pid);
        escape(&self.service, &mut text);
        if let Some(label) = &self.label {
            text.push_str("&label=");
            escape(label, &mut text);
        }
        let at = self.acquired_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let _ = write!(text, "&at={}&waited={}", millis(at), millis(self.waited));
        text
    }

    /// Parses the result of [`to_text`](HolderInfo::to_text). Any client may have written it: unknown fields are skipped, long ones cut,
    /// characters that do not print replaced; a text that is no such line returns `None`.
    pub fn from_text(text: &str) -> Option<HolderInfo> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let (mut host, mut service, mut label) = (String::new(), String::new(), None);
        let (mut pid, mut at, mut waited) = (None, None, Duration::ZERO);
        for field in text.split('&') {
            let (key, value) = field.split_once('=')?;
            match key {
                "host" => host = unescape(value)?,
                "service" => service = unescape(value)?,
                "label" => label = Some(unescape(value)?),
                "pid" => pid = Some(value.parse().ok()?),
                "at" => at = UNIX_EPOCH.checked_add(Duration::from_millis(value.parse().ok()?)),
                "waited" => waited = Duration::from_millis(value.parse().ok()?),
                _ => {}
            }
        }
        Some(HolderInfo { host, pid: pid?, service, label, acquired_at: at?, waited })
    }

    /// Returns when the holder acquired the lock, as `2026-01-31T09:30:00Z`.
    ///
    /// ```
    /// let info = distlock::HolderInfo::from_text("pid=1&at=1769851800000").unwrap();
    /// assert_eq!(info.since(), "2026-01-31T09:30:00Z");
    /// ```
    pub fn since(&self) -> String {
        let secs = self.acquired_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (year, month, day) = date(secs / 86_400);
        let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Returns how long the holder has held the lock at `now`: zero if its clock is ahead.
    pub fn held_for(&self, now: SystemTime) -> Duration {
        now.duration_since(self.acquired_at).unwrap_or_default()
    }
}

/// Writes `billing on web-3, pid 4711, "ship order"`.
impl fmt::Display for HolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The fields are public, so they may hold anything by now.
        let said = |text: &str| if text.is_empty() { "?".to_owned() } else { printable(text) };
        write!(f, "{} on {}, pid {}", said(&self.service), said(&self.host), self.pid)?;
        match &self.label {
            Some(label) => write!(f, ", \"{}\"", printable(label)),
            None => Ok(()),
        }
    }
}

/// Year, month and day of so many days after 1970-01-01: Howard Hinnant's `civil_from_days`, in which years begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + 400 * era + u64::from(month <= 2), month, day)
}

/// A text that can be shown on a terminal and in a log as it is: short, and without anything that moves the cursor, begins a
/// new line or turns the writing around.
fn printable(text: &str) -> String {
    let shown = |c: char| match c {
        _ if c.is_control() => char::REPLACEMENT_CHARACTER,
        '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' => char::REPLACEMENT_CHARACTER,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let mut kept = String::with_capacity(text.len().min(LONGEST));
    for c in text.chars().map(shown) {
        if kept.len() + c.len_utf8() > LONGEST {
            while kept.len() + '…'.len_utf8() > LONGEST {
                kept.pop();
            }
            kept.push('…');
            break;
        }
        kept.push(c);
    }
    kept
}

fn escape(text: &str, to: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' => {
                to.push(char::from(byte));
            }
            _ => {
                let _ = write!(to, "%{byte:02X}");
            }
        }
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
                digit(rest.next()?)? * 16 + digit(rest.next()?)?
            }
            byte => byte,
        });
    }
    Some(printable(&String::from_utf8_lossy(&bytes)))
}

/// Who asks for a lock, and what for: what a hold says of its holder once it is won. Behind one pointer, because a hundred
/// thousand may wait.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    service: Arc<str>,
    label: Option<Box<str>>,
    /// Since when it waits.
    pub(crate) called: Moment,
}

impl Asker {
    pub(crate) fn new(service: &Arc<str>, label: Option<&str>, called: Moment) -> Arc<Asker> {
        let label = label.map(|label| printable(label).into_boxed_str());
        Arc::new(Asker { service: service.clone(), label, called })
    }

    /// The info if it acquires the lock now.
    pub(crate) fn info(&self, env: &dyn Env) -> Arc<HolderInfo> {
        let at = env.time_of_day().duration_since(UNIX_EPOCH).unwrap_or_default();
        Arc::new(HolderInfo {
            host: host().to_owned(),
            pid: std::process::id(),
            service: self.service.to_string(),
            label: self.label.as_ref().map(ToString::to_string),
            acquired_at: UNIX_EPOCH + in_millis(at),
            waited: in_millis(env.now().since(self.called)),
        })
    }
}

/// A name for a service that can be kept and shown.
pub(crate) fn service(name: &str) -> Arc<str> {
    printable(name).into()
}

/// As a store keeps it, so that what is read equals what was written.
fn in_millis(d: Duration) -> Duration {
    Duration::from_millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// The host name of this machine. Queried once: it is in every acquisition, and hardly ever changes.
fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| printable(&node_name()))
}

#[cfg(unix)]
fn node_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn node_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(label: &str) -> HolderInfo {
        let called = Moment::from_origin(Duration::ZERO);
        let asker = Asker::new(&service("billing"), Some(label), called);
        HolderInfo::clone(&asker.info(&crate::env::System))
    }

    #[test]
    fn what_was_written_is_read() {
        for label in ["", "ship order", "a=b&c=%zz", "größer → 東京", "{tag}", "\"quoted\""] {
            let written = info(label);
            let read = HolderInfo::from_text(&written.to_text());
            assert_eq!(read.as_ref(), Some(&written), "{label:?}");
            assert_eq!(read.and_then(|info| info.label).as_deref(), Some(label));
        }
    }

    #[test]
    fn nothing_that_moves_a_cursor_is_shown_and_nothing_long_is_kept() {
        let hostile = "a\nb\r\u{1b}[2J\0\u{7f}\u{9b}\u{202e}c";
        let long = "{x}é\n".repeat(2_000);
        for label in [hostile, &long] {
            let ours = info(label);
            // As another client may have written it: nothing replaced, nothing cut.
            let mut foreign = "host=h&pid=1&service=s&at=1&waited=1&label=".to_owned();
            escape(label, &mut foreign);
            let theirs = HolderInfo::from_text(&foreign);
            assert_eq!(theirs.is_none(), foreign.len() > LONGEST_TEXT);
            let changed = HolderInfo { label: Some(label.to_owned()), ..ours.clone() };
            for info in [Some(ours), theirs, Some(changed)].into_iter().flatten() {
                let shown = info.to_string();
                assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}'), "{shown:?}");
                assert!(shown.len() < 3 * LONGEST, "{}", shown.len());
            }
        }
        assert!(info(&long).to_text().len() <= LONGEST_TEXT);
        assert!(
            info(&long).label.is_some_and(|label| label.len() <= LONGEST && label.ends_with('…'))
        );
    }

    #[test]
    fn garbage_is_nothing_and_what_is_new_is_skipped() {
        for garbage in
            ["", "x", "=", "host=h", "pid=1", "pid=-1&at=1", "pid=1&at=x", "pid=1&at=1&label=%f"]
        {
            assert_eq!(HolderInfo::from_text(garbage), None, "{garbage:?}");
        }
        assert_eq!(HolderInfo::from_text("pid=1&at=18446744073709551616"), None);
        assert_eq!(
            HolderInfo::from_text(&format!("pid=1&at=1&new={}", "x".repeat(LONGEST_TEXT))),
            None
        );
        let newer = HolderInfo::from_text("pid=1&at=1&new=%zz&host=h").map(|info| info.host);
        assert_eq!(newer.as_deref(), Some("h"));
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let days = [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_454, (2026, 1, 1)),
        ];
        for (day, expected) in days {
            assert_eq!(date(day), expected, "{day}");
        }
    }

    #[test]
    fn a_clock_that_is_ahead_has_held_for_no_time() {
        let info = info("x");
        assert_eq!(info.held_for(UNIX_EPOCH), Duration::ZERO);
        let later = info.acquired_at + Duration::from_secs(2);
        assert_eq!(info.held_for(later), Duration::from_secs(2));
    }
}
