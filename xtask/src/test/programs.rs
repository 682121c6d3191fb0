//! Builds the executables of the tests, and the programs that tests start.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::options::Options;
use crate::run::cargo;

/// Its programs are the workers, rivals and servers which tests start.
const TESTKIT: &str = "distlock-testkit";

/// What a target is, as far as it matters for running its tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Unit tests of a library or of a program: many and short.
    Unit,
    /// The tests of a file or directory in `tests/`.
    Integration,
}

/// An executable with tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) package: String,
    /// Where cargo runs the package's tests.
    pub(crate) package_dir: PathBuf,
    pub(crate) kind: Kind,
    /// Whether these are the unit tests of a library: only libraries have documentation tests.
    pub(crate) is_library: bool,
    pub(crate) target: String,
    pub(crate) path: PathBuf,
}

/// What a build made.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    pub(crate) executables: Vec<Executable>,
    /// Where cargo puts programs: `target/debug`.
    pub(crate) dir: Option<PathBuf>,
    /// Whether a selected target depends on the testkit.
    needs_testkit: bool,
    has_testkit_programs: bool,
}

impl Programs {
    /// Builds what `options` select.
    pub(crate) fn build(options: &Options) -> Result<Programs, String> {
        let mut programs = Programs::default();
        let mut command = cargo();
        command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
        command.args(options.scope()).arg("--all-features");
        command.args(&options.selection).args(&options.building);
        programs.read(command)?;
        if programs.needs_testkit && !programs.has_testkit_programs {
            let mut command = cargo();
            command.args(["build", "--quiet", "--package", TESTKIT, "--bins", "--all-features"]);
            command.arg("--message-format=json-render-diagnostics").args(&options.building);
            programs.read(command)?;
        }
        programs.executables.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
        Ok(programs)
    }

    /// A program that was built with the tests.
    pub(crate) fn find(&self, name: &str) -> Option<PathBuf> {
        Some(self.dir.as_ref()?.join(name)).filter(|path| path.is_file())
    }

    /// Runs cargo and takes in what it made. Its progress and errors go to the terminal.
    fn read(&mut self, mut command: Command) -> Result<(), String> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot run cargo: {error}"))?;
        let messages = child.stdout.take().ok_or("the output of cargo is not piped")?;
        for line in BufReader::new(messages).lines() {
            let line = line.map_err(|error| format!("cannot read from cargo: {error}"))?;
            // Build scripts may print lines of their own.
            if let Ok(message) = serde_json::from_str(&line) {
                self.take_in(&message);
            }
        }
        let status = child.wait().map_err(|error| format!("cannot wait for cargo: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("cargo could not build the tests: {status}")),
        }
    }

    fn take_in(&mut self, message: &Value) {
        if message["reason"] != "compiler-artifact" {
            return;
        }
        let package = message["package_id"].as_str().map(package_name).unwrap_or_default();
        let kinds = message["target"]["kind"].as_array().map_or(&[][..], Vec::as_slice);
        let is_kind = |kind: &str| kinds.iter().any(|other| other == kind);
        self.needs_testkit |= package == TESTKIT;
        let Some(path) = message["executable"].as_str().map(PathBuf::from) else { return };
        if message["profile"]["test"] != true {
            if is_kind("bin") {
                self.has_testkit_programs |= package == TESTKIT;
                self.dir = path.parent().map(Path::to_owned);
            }
            return;
        }
        // Executables of tests are in `target/debug/deps`.
        if self.dir.is_none() {
            self.dir = path.parent().and_then(Path::parent).map(Path::to_owned);
        }
        let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
        self.executables.push(Executable {
            package: package.to_owned(),
            package_dir: manifest.parent().unwrap_or(Path::new("")).to_owned(),
            is_library: is_kind("lib") || is_kind("proc-macro"),
            kind: if is_kind("test") { Kind::Integration } else { Kind::Unit },
            target: message["target"]["name"].as_str().unwrap_or_default().to_owned(),
            path,
        });
    }
}

/// The name in a package id: `path+file:///a/distlock#0.1.0` or `path+file:///a/b#distlock@0.1.0`.
fn package_name(id: &str) -> &str {
    let (source, fragment) = id.split_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name,
        None => source.rsplit('/').next().unwrap_or(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(messages: &str) -> Programs {
        let mut programs = Programs::default();
        for line in messages.lines() {
            programs.take_in(&serde_json::from_str(line).unwrap());
        }
        programs
    }

    #[test]
    fn executables_are_found_among_the_messages() {
        let programs = read(concat!(
            r#"{"reason":"compiler-message","message":{}}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"registry+https://x/y#serde@1.0.0","manifest_path":"/r/serde/Cargo.toml","target":{"kind":["lib"],"name":"serde"},"profile":{"test":false},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/distlock#0.1.0","manifest_path":"/w/crates/distlock/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"test":true},"executable":"/w/target/debug/deps/it-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/cli#distlock-cli@0.1.0","manifest_path":"/w/crates/cli/Cargo.toml","target":{"kind":["bin"],"name":"distlock"},"profile":{"test":true},"executable":"/w/target/debug/deps/distlock-2"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        ));
        let [it, cli] = &programs.executables[..] else { panic!("{programs:?}") };
        assert_eq!((it.package.as_str(), it.target.as_str()), ("distlock", "it"));
        assert_eq!((it.kind, cli.kind), (Kind::Integration, Kind::Unit));
        assert_eq!(it.package_dir, Path::new("/w/crates/distlock"));
        assert_eq!(cli.package, "distlock-cli");
        assert!(!it.is_library && !cli.is_library);
        assert_eq!(programs.dir.as_deref(), Some(Path::new("/w/target/debug")));
        assert!(!programs.needs_testkit);
    }

    #[test]
    fn the_testkits_programs_are_noticed() {
        let library = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/distlock-testkit#0.1.0","manifest_path":"/w/crates/distlock-testkit/Cargo.toml","target":{"kind":["lib"],"name":"distlock_testkit"},"profile":{"test":false},"executable":null}"#;
        let program = r#"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/distlock-testkit#0.1.0","manifest_path":"/w/crates/distlock-testkit/Cargo.toml","target":{"kind":["bin"],"name":"worker"},"profile":{"test":false},"executable":"/w/target/debug/worker"}"#;
        let alone = read(library);
        assert!(alone.needs_testkit && !alone.has_testkit_programs);
        let both = read(&format!("{library}\n{program}"));
        assert!(both.needs_testkit && both.has_testkit_programs);
    }
}
