//! The audit log: who took which lock away from whom, written before it is done.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

use distlock::store::Snapshot;
use serde_json::{Value, json};

use crate::args::Kind;
use crate::clock;
use crate::plan::Store;
use crate::print;
use crate::view;

/// One thing that is about to be done: two lines in the log, one before and one after, with the same time and process.
#[derive(Debug)]
pub(crate) struct Entry {
    said: Value,
    /// The holders, for people.
    from: String,
}

impl Entry {
    pub(crate) fn new(store: &Store, kind: Kind, before: &Snapshot, reason: Option<&str>) -> Entry {
        let name = rustix::system::uname();
        let said = json!({
            "time": clock::utc(SystemTime::now()),
            "user": user(),
            "uid": rustix::process::getuid().as_raw(),
            "sudo_user": std::env::var("SUDO_USER").ok(),
            "host": name.nodename().to_string_lossy(),
            "pid": std::process::id(),
            "store": store.place(),
            "address": store.addresses().join(" "),
            "lock": &*before.name,
            "kind": kind.word(),
            "former_holders": view::json_of(kind, before)["holders"].take(),
            "reason": reason,
        });
        let from: Vec<String> = before.holders.iter().map(view::who).collect();
        let from = if from.is_empty() { "no holder".to_owned() } else { from.join(", ") };
        Entry { said, from }
    }

    /// What it says, in one line for people. All of it is quoted as names are.
    pub(crate) fn line(&self) -> String {
        let text = |key: &str| match &self.said[key] {
            Value::String(text) => print::name(text),
            other => other.to_string(),
        };
        let reason = match &self.said["reason"] {
            Value::Null => "no reason given".to_owned(),
            _ => text("reason"),
        };
        let [time, user, host, kind, lock, address] =
            ["time", "user", "host", "kind", "lock", "address"].map(text);
        let from = &self.from;
        format!(
            "audit: {time} {user}@{host} takes {kind} {lock} in {address} from {from}: {reason}"
        )
    }

    /// Writes what is going to be done. If this fails, it must not be done.
    pub(crate) fn begin(&self, log: &Path) -> io::Result<()> {
        self.write(log, json!("begin"), Value::Null)
    }

    /// Writes the outcome: whether anything was freed, or the error.
    pub(crate) fn end(&self, log: &Path, freed: &Result<bool, distlock::Error>) -> io::Result<()> {
        let outcome = match freed {
            Ok(freed) => json!({ "freed": freed }),
            Err(error) => json!({ "error": print::redact(&error.to_string()) }),
        };
        self.write(log, json!("end"), outcome)
    }

    fn write(&self, log: &Path, step: Value, outcome: Value) -> io::Result<()> {
        let mut said = self.said.clone();
        said["step"] = step;
        said["outcome"] = outcome;
        if let Some(dir) = log.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        // Appended in one write, so that lines of several processes do not mix.
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
        file.write_all(format!("{said}\n").as_bytes())?;
        match file.sync_data() {
            // A pipe or a terminal has nowhere to sync to.
            Err(cause) if cause.kind() == io::ErrorKind::InvalidInput => Ok(()),
            done => done,
        }
    }
}

/// The user's name as the system knows it: every user can set the environment.
fn user() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    name.unwrap_or(uid)
}
