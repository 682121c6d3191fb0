//! The directory in which a user's programs keep what outlives them. Shared with the command-line tool, so that both mean the same locks by
//! `file:`.

use std::ffi::OsString;
use std::path::PathBuf;

/// The user's state directory: `$XDG_STATE_HOME`, or `~/.local/state`. `None` without either: a home that does not exist, as system accounts
/// have it, is not made.
pub fn find() -> Option<PathBuf> {
    find_by(|variable| std::env::var_os(variable))
}

/// The directory that the URL `file:` names: `distlock` in the user's [state directory](find).
pub fn for_locks() -> Option<PathBuf> {
    find().map(|state| state.join("distlock"))
}

fn find_by(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |key| variable(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || set("HOME").filter(|home| home.is_dir()).map(|home| home.join(".local/state"));
    set("XDG_STATE_HOME").or_else(home)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_directory_comes_before_the_home_which_must_exist() {
        let find = |state: Option<&str>, home: Option<&str>| {
            let found = find_by(|variable| match variable {
                "XDG_STATE_HOME" => state.map(OsString::from),
                _ => home.map(OsString::from),
            });
            found.map(|path| path.display().to_string())
        };
        assert_eq!(find(Some("/state"), Some("/")).as_deref(), Some("/state"));
        assert_eq!(find(None, Some("/")).as_deref(), Some("/.local/state"));
        assert_eq!(find(Some(""), Some("/")).as_deref(), Some("/.local/state"));
        assert_eq!(find(Some("relative"), Some("/no/such/home")), None);
        assert_eq!(find(None, None), None);
    }
}
