//! What a state file says, as text that an operator can read.
//!
//! ```text
//! distlock 1
//! name orders:42
//! kind exclusive
//! owner 5f4c2c0e-3a1b-4a35-9a37-0d2f6f9f7c11:7
//! depth 1
//! expires 8412345678901
//! boot 1b9f6a52-8d1f-4c33-9a57-6d4b1c7d0f10
//! end
//! ```
//! `expires` counts nanoseconds on the clock that runs since boot, so it means something only in the boot that wrote
//! it. The last line shows that nothing was cut off.

use crate::env::Moment;
use crate::owner::Owner;
use crate::store::state::exclusive::Entry;

use super::name::{escape, unescape};

/// No state file is larger: the longest name, every byte of it escaped, and half a kilobyte for the rest.
pub(super) const LARGEST: usize = 3 * crate::config::NAME_BYTES + 512;

/// A state file, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) entry: Entry,
    pub(super) boot: String,
}

/// The text of a state file.
pub(super) fn write(name: &str, entry: &Entry, boot: &str) -> String {
    // Control characters would break lines or terminals; everything else stays readable.
    let name = escape(name, |b| !b.is_ascii_control());
    let Entry { owner, depth, expires } = entry;
    let expires = expires.as_nanos();
    format!(
        "distlock 1\nname {name}\nkind exclusive\nowner {owner}\ndepth {depth}\nexpires {expires}\nboot {boot}\nend\n"
    )
}

/// Reads what [`write`] wrote, or says in a few words what is wrong with it.
pub(super) fn read(text: &[u8]) -> Result<Record, &'static str> {
    let text = std::str::from_utf8(text).map_err(|_| "it is not text")?;
    let mut lines = text.split_terminator('\n');
    let mut field = |key: &str, wrong: &'static str| {
        let value = lines.next().and_then(|line| line.strip_prefix(key)?.strip_prefix(' '));
        value.ok_or(wrong)
    };

    match field("distlock", "it is not a distlock state file")? {
        "1" => {}
        _ => return Err("it was written by another version of distlock"),
    }
    let name = unescape(field("name", "its name is missing")?).ok_or("its name cannot be read")?;
    match field("kind", "its kind is missing")? {
        "exclusive" => {}
        _ => return Err("it is another kind of lock"),
    }
    let owner: Owner =
        field("owner", "its owner is missing")?.parse().map_err(|_| "its owner cannot be read")?;
    let depth = field("depth", "its depth is missing")?;
    let depth = depth.parse().ok().filter(|d| *d > 0).ok_or("its depth cannot be read")?;
    let expires = field("expires", "its expiry is missing")?;
    let expires = expires.parse().map_err(|_| "its expiry cannot be read")?;
    let boot = field("boot", "its boot is missing")?.to_owned();
    if lines.next() != Some("end") || lines.next().is_some() || !text.ends_with('\n') {
        return Err("its end is missing");
    }
    Ok(Record { name, entry: Entry { owner, depth, expires: Moment::from_nanos(expires) }, boot })
}
