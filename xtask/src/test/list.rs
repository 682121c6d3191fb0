//! The tests of each executable, as it lists them.

use std::process::{Command, Stdio};

use super::programs::{Executable, Kind};

/// One test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    /// Its executable's number.
    pub(crate) executable: usize,
    pub(crate) kind: Kind,
    /// Its name in its executable: `late::kernel::a_late_release_frees_nothing`.
    pub(crate) path: String,
    /// Its name in reports and in the file of times: unique in the workspace.
    pub(crate) name: String,
    /// Marked `#[ignore]`.
    pub(crate) is_ignored: bool,
}

impl Test {
    /// Its name in the rules of the matrix: `executable::path`.
    pub(crate) fn in_matrix(&self) -> &str {
        self.name.split_once('/').map_or(&self.name, |(_, rest)| rest)
    }
}

/// Asks every executable. `command` makes the command for one of them, with the environment of tests.
pub(crate) fn list(
    executables: &[Executable],
    command: impl Fn(&Executable) -> Command,
) -> Result<Vec<Test>, String> {
    let mut tests = Vec::new();
    for (number, executable) in executables.iter().enumerate() {
        let names = |more: &[&str]| {
            let mut command = command(executable);
            command.args(["--list", "--format", "terse"]).args(more);
            ask(command)
        };
        let ignored = names(&["--ignored"])?;
        for path in names(&[])? {
            tests.push(Test {
                executable: number,
                kind: executable.kind,
                name: format!("{}/{}::{path}", executable.package, executable.target),
                is_ignored: ignored.contains(&path),
                path,
            });
        }
    }
    Ok(tests)
}

fn ask(mut command: Command) -> Result<Vec<String>, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} cannot list its tests: {}\n{errors}", output.status));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// `name: test`, a line each. Benchmarks are listed too, and do not count.
fn parse(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tests_are_names() {
        let output = "late::kernel: test\nfast: benchmark\na::b: test\n\n2 tests, 1 benchmark\n";
        assert_eq!(parse(output), ["late::kernel", "a::b"]);
    }

    #[test]
    fn ignored_tests_are_known_by_the_second_list() {
        let executable = Executable {
            package: "kit".into(),
            package_dir: "/".into(),
            kind: Kind::Integration,
            is_library: false,
            target: "it".into(),
            path: "/bin/false".into(),
        };
        let script = "echo 'b: test'; case \"$*\" in *--ignored*) ;; *) echo 'a: test';; esac";
        let tests = list(&[executable], |_| {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]);
            command
        });
        let tests = tests.unwrap();
        let found: Vec<_> = tests.iter().map(|t| (t.name.as_str(), t.is_ignored)).collect();
        assert_eq!(found, [("kit/it::b", true), ("kit/it::a", false)]);
        assert_eq!(tests[1].in_matrix(), "it::a");
    }
}
