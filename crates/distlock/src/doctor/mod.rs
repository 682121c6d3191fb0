//! Whether the place where locks are kept is fit for them: [`Locks::doctor`](crate::Locks::doctor) looks, and its [`Report`] says
//! what was seen, what it means for locks and what to change. `distlock doctor` prints the same.
//!
//! [`mod@crate::operations`] lists what is checked, the settings of a server and the permissions that a user needs.

mod checkup;

#[cfg(feature = "redis")]
pub use crate::redis::{Acl, Channels};
pub use checkup::{Checkup, Examine};

use std::fmt;

/// What the doctor found, the worst first.
///
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::doctor::Level;
///
/// let report = distlock::Locks::memory().doctor().await;
/// assert!(report.worst() < Level::Warning);
/// for finding in report.findings() {
///     println!("{finding}");
/// }
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    findings: Vec<Finding>,
}

/// One thing that was looked at.
///
/// ```
/// use distlock::doctor::{Finding, Level};
///
/// fn ticket(finding: &Finding) -> Option<String> {
///     let Finding { level, subject, place, change, .. } = finding;
///     (*level >= Level::Warning).then(|| format!("{subject} at {place}: {change}"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is about: a word for programs, which stays the same.
    pub subject: &'static str,
    /// Where it was seen, without a password.
    pub place: String,
    /// What was seen.
    pub says: String,
    /// What that means for locks; empty where nothing is wrong.
    pub means: String,
    /// What to change; empty where nothing is.
    pub change: String,
}

/// How bad a finding is. Later ones are worse.
///
/// ```
/// use distlock::doctor::Level;
/// assert!(Level::Ok < Level::Note && Level::Warning < Level::Fault);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Level {
    /// As it should be.
    Ok,
    /// Something to know, or something that could not be looked at.
    Note,
    /// Locks work, but not in every situation that is to be expected.
    Warning,
    /// Locks do not work, or may be lost at any time.
    Fault,
}

impl Report {
    pub(crate) fn new(mut findings: Vec<Finding>) -> Report {
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
        Report { findings }
    }

    /// Everything that was looked at, the worst first.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How bad the worst finding is.
    pub fn worst(&self) -> Level {
        self.findings.first().map_or(Level::Ok, |finding| finding.level)
    }

    /// Whether any server replied. If none did, the findings say only that.
    pub fn is_reached(&self) -> bool {
        self.findings.iter().any(|finding| finding.subject != REACHABLE)
    }
}

/// The subject of what says whether a server can be reached.
pub(crate) const REACHABLE: &str = "reachable";

/// Every finding in a paragraph of its own.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.iter().try_for_each(|finding| writeln!(f, "{finding}"))
    }
}

impl Finding {
    /// A finding without a meaning and an advice: for stores of one's own.
    pub fn new(
        level: Level,
        subject: &'static str,
        place: impl Into<String>,
        says: impl Into<String>,
    ) -> Finding {
        let (place, says) = (place.into(), says.into());
        Finding { level, subject, place, says, means: String::new(), change: String::new() }
    }

    /// The same with what it means for locks.
    #[must_use]
    pub fn means(mut self, means: impl Into<String>) -> Finding {
        self.means = means.into();
        self
    }

    /// The same with what to change.
    #[must_use]
    pub fn change(mut self, change: impl Into<String>) -> Finding {
        self.change = change.into();
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { level, subject, place, says, means, change } = self;
        write!(f, "{level:<7} {subject} ({place}): {says}")?;
        for more in [means, change].into_iter().filter(|more| !more.is_empty()) {
            write!(f, "\n        {more}")?;
        }
        Ok(())
    }
}

impl Level {
    /// A word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Fault => "fault",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
