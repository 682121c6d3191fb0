//! The command line of `cargo xtask test`.

/// What `cargo xtask test` accepts, for people to read.
pub(crate) const HELP: &str = "\
cargo xtask test [--all] [--list] [--no-retry] [SELECTION] [NAME...] [-- OPTIONS]

  --all               run tiers 1 and 2; without it, tier 1
  --list              print which test runs where and in which tier, and run nothing
  --no-retry          do not run failed tests again

SELECTION goes to cargo: -p/--package CRATE, --exclude CRATE, --test NAME, --lib, --bin NAME,
--bins, --doc, -F/--features LIST, --release, --profile NAME, --manifest-path PATH, -j/--jobs N,
--locked, --offline. NAME is a part of a test's name. A selection or a NAME runs tests of all tiers.

OPTIONS: --nocapture, --exact, --skip PART, --ignored, --include-ignored, --test-threads N
";

/// Go to cargo with a value; those of the first list select what runs.
const SELECT_WITH_VALUE: [&str; 6] =
    ["-p", "--package", "--exclude", "--test", "--bin", "--manifest-path"];
const BUILD_WITH_VALUE: [&str; 5] = ["-F", "--features", "--profile", "-j", "--jobs"];
/// Go to cargo as they are.
const SELECT: [&str; 3] = ["--lib", "--bins", "--doc"];
const BUILD: [&str; 3] = ["--release", "--locked", "--offline"];

/// Which tests marked `#[ignore]` run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ignored {
    /// None of them: they count as skipped.
    #[default]
    Skip,
    /// They alone.
    Only,
    /// They and the others.
    Include,
}

/// The arguments, sorted by what they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) all: bool,
    pub(crate) list: bool,
    pub(crate) no_retry: bool,
    /// For cargo: which packages and targets.
    pub(crate) selection: Vec<String>,
    /// For cargo: how to build.
    pub(crate) building: Vec<String>,
    /// A test runs if its name has one of these parts, or if there are none.
    pub(crate) names: Vec<String>,
    pub(crate) exact: bool,
    pub(crate) skip: Vec<String>,
    pub(crate) nocapture: bool,
    pub(crate) ignored: Ignored,
    pub(crate) threads: Option<usize>,
}

impl Options {
    pub(crate) fn parse(args: &[String]) -> Result<Options, String> {
        let mut options = Options::default();
        let mut args = args.iter().map(String::as_str);
        while let Some(arg) = args.next() {
            match arg {
                "--" => {
                    options.parse_test_options(args)?;
                    break;
                }
                "--all" => options.all = true,
                "--list" => options.list = true,
                "--no-retry" => options.no_retry = true,
                _ if SELECT.contains(&arg) => options.selection.push(arg.into()),
                _ if BUILD.contains(&arg) => options.building.push(arg.into()),
                _ if takes_value(arg, &SELECT_WITH_VALUE) => {
                    with_value(&mut options.selection, arg, &mut args)?;
                }
                _ if takes_value(arg, &BUILD_WITH_VALUE) => {
                    with_value(&mut options.building, arg, &mut args)?;
                }
                _ if arg.starts_with('-') => return Err(unknown(arg)),
                name => options.names.push(name.into()),
            }
        }
        Ok(options)
    }

    /// The options which libtest has, after `--`.
    fn parse_test_options<'a>(
        &mut self,
        mut args: impl Iterator<Item = &'a str>,
    ) -> Result<(), String> {
        while let Some(arg) = args.next() {
            let (option, mut value) = match arg.split_once('=') {
                Some((option, value)) if arg.starts_with("--") => (option, Some(value)),
                _ => (arg, None),
            };
            let mut value = || value.take().or_else(|| args.next()).ok_or_else(|| no_value(option));
            match option {
                "--nocapture" | "--no-capture" => self.nocapture = true,
                "--exact" => self.exact = true,
                "--ignored" => self.ignored = Ignored::Only,
                "--include-ignored" => self.ignored = Ignored::Include,
                "--skip" => self.skip.push(value()?.into()),
                "--test-threads" => {
                    let value = value()?;
                    let threads = value.parse().ok().filter(|&threads: &usize| threads > 0);
                    let threads = threads.ok_or_else(|| {
                        format!("--test-threads must be a number greater than 0: {value}")
                    })?;
                    self.threads = Some(threads);
                }
                _ if option.starts_with('-') => return Err(unknown(arg)),
                name => self.names.push(name.into()),
            }
        }
        Ok(())
    }

    /// Whether the caller named tests or a part of the workspace: then the tiers do not matter.
    pub(crate) fn is_part(&self) -> bool {
        !self.selection.is_empty() || !self.names.is_empty()
    }

    /// Whether every test of the workspace is listed, so that rules without a test are stale.
    pub(crate) fn lists_everything(&self) -> bool {
        self.selection.is_empty()
    }

    /// `--workspace`, unless packages are named.
    pub(crate) fn scope(&self) -> Option<&'static str> {
        let names_a_package = |arg: &String| {
            ["-p", "--package", "--manifest-path"].iter().any(|option| is_option(arg, option))
        };
        (!self.selection.iter().any(names_a_package)).then_some("--workspace")
    }

    /// Whether executables of tests are built: not if the caller asked for documentation alone.
    pub(crate) fn has_executables(&self) -> bool {
        !self.selection.iter().any(|arg| arg == "--doc")
    }

    /// Whether documentation tests run. They compile for long and have no names worth filtering by, so a NAME leaves them out
    /// unless `--doc` asks for them.
    pub(crate) fn has_doc_tests(&self) -> bool {
        if !self.has_executables() {
            return true;
        }
        let targets = ["--lib", "--bin", "--bins", "--test"];
        let names_a_target = |arg: &String| targets.iter().any(|option| is_option(arg, option));
        self.names.is_empty()
            && self.ignored != Ignored::Only
            && !self.selection.iter().any(names_a_target)
    }

    /// Whether the filters let a test run: `path` is its name in its executable, `name` its name in reports.
    pub(crate) fn lets_run(&self, path: &str, name: &str) -> bool {
        let matches = |filter: &String| match self.exact {
            true => path == filter || name == filter,
            // With `::` it may be copied from a report.
            false => path.contains(filter) || (filter.contains("::") && name.contains(filter)),
        };
        (self.names.is_empty() || self.names.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

fn takes_value(arg: &str, options: &[&str]) -> bool {
    options.iter().any(|option| is_option(arg, option))
}

/// `--test`, `--test=NAME`, `-pNAME`.
fn is_option(arg: &str, option: &str) -> bool {
    match arg.strip_prefix(option) {
        Some(rest) => rest.is_empty() || rest.starts_with('=') || !option.starts_with("--"),
        None => false,
    }
}

fn with_value<'a>(
    to: &mut Vec<String>,
    arg: &str,
    args: &mut impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    let has_value = arg.contains('=') || (!arg.starts_with("--") && arg.len() > 2);
    to.push(arg.into());
    if !has_value {
        to.push(args.next().ok_or_else(|| no_value(arg))?.into());
    }
    Ok(())
}

fn no_value(option: &str) -> String {
    format!("{option} needs a value\n\n{HELP}")
}

fn unknown(option: &str) -> String {
    format!("unknown option of `test`: {option}\n\n{HELP}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<Options, String> {
        Options::parse(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_sorted_by_what_they_are_for() {
        let options = parse(
            "--all --no-retry -p distlock --test it --release --features=tls late fair:: \
             -- --nocapture --skip slow --test-threads=3 --include-ignored share",
        )
        .unwrap();
        assert!(options.all && options.no_retry && options.nocapture && !options.list);
        assert_eq!(options.selection, ["-p", "distlock", "--test", "it"]);
        assert_eq!(options.building, ["--release", "--features=tls"]);
        assert_eq!(options.names, ["late", "fair::", "share"]);
        assert_eq!(options.skip, ["slow"]);
        assert_eq!(options.threads, Some(3));
        assert_eq!(options.ignored, Ignored::Include);
    }

    #[test]
    fn what_is_unknown_is_an_error_that_helps() {
        for args in ["--tests-please", "-x", "-- --shuffle", "--test", "-- --test-threads 0"] {
            let error = parse(args).unwrap_err();
            assert!(error.contains("--test"), "{error}");
        }
    }

    #[test]
    fn the_workspace_unless_a_package_is_named() {
        assert_eq!(parse("").unwrap().scope(), Some("--workspace"));
        assert_eq!(parse("--test mutex -- --skip -p").unwrap().scope(), Some("--workspace"));
        assert_eq!(parse("-p distlock").unwrap().scope(), None);
        assert_eq!(parse("-pdistlock").unwrap().scope(), None);
        assert_eq!(parse("--package=distlock").unwrap().scope(), None);
    }

    #[test]
    fn a_part_has_no_tiers() {
        assert!(!parse("--all -- --nocapture").unwrap().is_part());
        assert!(!parse("--release").unwrap().is_part());
        assert!(parse("late").unwrap().is_part());
        assert!(parse("--lib").unwrap().is_part());
        assert!(parse("late").unwrap().lists_everything());
        assert!(!parse("--lib").unwrap().lists_everything());
    }

    #[test]
    fn doc_tests_run_with_whole_packages() {
        assert!(parse("").unwrap().has_doc_tests());
        assert!(parse("-p distlock").unwrap().has_doc_tests());
        assert!(parse("--doc Guard").unwrap().has_doc_tests());
        for args in ["--lib", "--test it", "--test=it", "--bin distlock", "late", "-- --ignored"] {
            assert!(!parse(args).unwrap().has_doc_tests(), "{args}");
        }
    }

    #[test]
    fn names_are_parts_and_any_will_do() {
        let lets_run =
            |args, path: &str| parse(args).unwrap().lets_run(path, &format!("distlock/it::{path}"));
        assert!(lets_run("", "late::kernel"));
        assert!(lets_run("kern fair", "late::kernel"));
        assert!(!lets_run("fair", "late::kernel"));
        // `it` alone is no filter for everything in the executable `it`.
        assert!(!lets_run("it", "late::kernel"));
        assert!(lets_run("it::late", "late::kernel"));
        assert!(!lets_run("late -- --skip kernel", "late::kernel"));
        assert!(!lets_run("late -- --exact", "late::kernel"));
        assert!(lets_run("late::kernel -- --exact", "late::kernel"));
    }
}
