//! What deny.toml allows. The file keeps the form of cargo-deny, which can read it too.

use std::collections::BTreeSet;

use toml::de::{DeTable, DeValue};

/// What is done about two versions of one crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allow,
    Warn,
    Deny,
}

/// What the file says.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) licences: BTreeSet<String>,
    pub(crate) banned: BTreeSet<String>,
    pub(crate) duplicates: Duplicates,
}

impl Policy {
    /// A key that is not known here is an error: it would be obeyed by cargo-deny and not by us.
    pub(crate) fn parse(text: &str) -> Result<Policy, String> {
        let file = DeTable::parse(text).map_err(|error| format!("deny.toml: {error}"))?;
        let mut policy = Policy {
            licences: BTreeSet::new(),
            banned: BTreeSet::new(),
            duplicates: Duplicates::Warn,
        };
        for (section, value) in file.get_ref() {
            let section = section.get_ref().as_ref();
            let table = value.get_ref().as_table().ok_or_else(|| unknown(section, ""))?;
            for (key, value) in table {
                let (key, value) = (key.get_ref().as_ref(), value.get_ref());
                policy.set(section, key, value).ok_or_else(|| unknown(section, key))?;
            }
        }
        Ok(policy)
    }

    /// `None` if it does not know what to do with that.
    fn set(&mut self, section: &str, key: &str, value: &DeValue<'_>) -> Option<()> {
        match (section, key, value.as_str()) {
            // All features are asked for. Licences that nothing needs do no harm. Sources are always checked.
            ("graph", "all-features", _) if value.as_bool() == Some(true) => {}
            ("licenses", "unused-allowed-license", _) => {}
            ("sources", "unknown-registry" | "unknown-git", Some("deny")) => {}
            ("licenses", "allow", _) => {
                let licences = value.as_array()?.iter();
                let licences =
                    licences.map(|licence| licence.get_ref().as_str().map(str::to_owned));
                self.licences = licences.collect::<Option<_>>()?;
            }
            ("bans", "multiple-versions", Some("allow")) => self.duplicates = Duplicates::Allow,
            ("bans", "multiple-versions", Some("warn")) => self.duplicates = Duplicates::Warn,
            ("bans", "multiple-versions", Some("deny")) => self.duplicates = Duplicates::Deny,
            ("bans", "deny", _) => {
                let banned = value.as_array()?.iter();
                self.banned =
                    banned.map(|entry| banned_name(entry.get_ref())).collect::<Option<_>>()?;
            }
            _ => return None,
        }
        Some(())
    }
}

/// `"name"` or `{ crate = "name" }`, of any version.
fn banned_name(entry: &DeValue<'_>) -> Option<String> {
    let name = match entry.as_table() {
        Some(table) if table.len() == 1 => table.get("crate")?.get_ref().as_str()?,
        Some(_) => return None,
        None => entry.as_str()?,
    };
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    is_plain.then(|| name.to_owned())
}

fn unknown(section: &str, key: &str) -> String {
    format!("deny.toml: [{section}] {key}: `cargo xtask deps` does not know this setting")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_projects_own_file_is_understood() {
        let policy = Policy::parse(include_str!("../../../deny.toml")).unwrap();
        assert!(policy.licences.contains("Apache-2.0 WITH LLVM-exception"));
        assert!(policy.banned.contains("openssl-sys"));
        assert_eq!(policy.duplicates, Duplicates::Warn);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for text in [
            "[licenses]\nexceptions = []",
            "[licenses]\nallow = [1]",
            "[bans]\nmultiple-versions = \"perhaps\"",
            "[bans]\ndeny = [{ crate = \"a\", wrappers = [\"b\"] }]",
            "[bans]\ndeny = [\"a@1\"]",
            "[sources]\nunknown-git = \"allow\"",
            "[advisories]\nignore = []",
            "licenses = 1",
            "[",
        ] {
            let error = Policy::parse(text).unwrap_err();
            assert!(error.starts_with("deny.toml: "), "{error}");
        }
        assert_eq!(
            Policy::parse("[bans]\ndeny = [\"a\"]").unwrap().banned,
            ["a".to_owned()].into()
        );
    }
}
