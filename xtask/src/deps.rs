//! `cargo xtask deps`: where dependencies come from, under which licences, and which must not be there.

mod licences;
mod policy;

use std::collections::{BTreeMap, BTreeSet};
use std::process::{ExitCode, Stdio};

use serde_json::Value;

use crate::run::{cargo, root};
use policy::{Duplicates, Policy};

/// The default registry, as cargo names it.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every package that any feature, platform or test of the workspace needs.
pub(crate) fn deps(args: &[String]) -> Result<ExitCode, String> {
    if let Some(arg) = args.first() {
        return Err(format!("deps takes no arguments: {arg}"));
    }
    let file = root().join("deny.toml");
    let text = std::fs::read_to_string(&file);
    let text = text.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let policy = Policy::parse(&text)?;
    let packages = Package::all(&metadata()?)?;
    let findings = check(&packages, &policy);
    for warning in &findings.warnings {
        println!("warning: {warning}");
    }
    for error in &findings.errors {
        println!("error: {error}");
    }
    let (count, errors) = (packages.len(), findings.errors.len());
    println!("{count} packages, {errors} errors, {} warnings", findings.warnings.len());
    Ok(if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn metadata() -> Result<Value, String> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--all-features", "--locked"]);
    // What it says about itself goes to the terminal.
    command.stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// A package of the workspace, or one that it depends on.
struct Package {
    name: String,
    version: String,
    /// `None`: a directory.
    source: Option<String>,
    licence: Option<String>,
    is_member: bool,
}

impl Package {
    fn all(metadata: &Value) -> Result<Vec<Package>, String> {
        let list = |field: &str| {
            let list = metadata[field].as_array();
            list.ok_or_else(|| format!("cargo metadata has no {field}"))
        };
        let members = list("workspace_members")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let packages = list("packages")?.iter().map(|package| {
            Some(Package {
                name: text(&package["name"])?,
                version: text(&package["version"])?,
                source: text(&package["source"]),
                licence: text(&package["license"]),
                is_member: members.contains(&package["id"]),
            })
        });
        packages
            .collect::<Option<_>>()
            .ok_or_else(|| "cargo metadata: a package has no name".into())
    }

    fn title(&self) -> String {
        format!("{} {}", self.name, self.version)
    }
}

/// What is wrong, and what is worth a look.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

fn check(packages: &[Package], policy: &Policy) -> Findings {
    let mut findings = Findings::default();
    for package in packages {
        let problems = [
            source_problem(package),
            licence_problem(package, policy),
            policy.banned.contains(&package.name).then(|| "deny.toml bans it".to_owned()),
        ];
        let errors = problems.into_iter().flatten();
        findings.errors.extend(errors.map(|problem| format!("{}: {problem}", package.title())));
    }
    let duplicates = duplicates(packages);
    match policy.duplicates {
        Duplicates::Allow => {}
        Duplicates::Warn => findings.warnings.extend(duplicates),
        Duplicates::Deny => findings.errors.extend(duplicates),
    }
    findings
}

fn source_problem(package: &Package) -> Option<String> {
    match package.source.as_deref() {
        Some(REGISTRY) => None,
        None if package.is_member => None,
        None => Some("comes from a directory outside the workspace".into()),
        Some(source) if source.starts_with("git+") => {
            Some("comes from a git repository; only the default registry is allowed".into())
        }
        Some(_) => Some("comes from another registry than the default one".into()),
    }
}

fn licence_problem(package: &Package, policy: &Policy) -> Option<String> {
    let Some(licence) = &package.licence else {
        return Some("has no licence expression; a licence file alone cannot be checked".into());
    };
    match licences::is_satisfied(licence, &policy.licences) {
        Ok(true) => None,
        Ok(false) => Some(format!("deny.toml does not allow its licence: {licence}")),
        Err(why) => Some(format!("cannot read its licence, {licence:?}: {why}")),
    }
}

/// A line for each crate that is there in more than one version.
fn duplicates(packages: &[Package]) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let several = versions.into_iter().filter(|(_, versions)| versions.len() > 1);
    several
        .map(|(name, versions)| {
            let versions: Vec<&str> = versions.into_iter().collect();
            format!("{name}: {} versions: {}", versions.len(), versions.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn findings(packages: Value) -> Findings {
        let policy = Policy::parse(
            "[licenses]\nallow = [\"MIT\"]\n[bans]\nmultiple-versions = \"warn\"\n\
             deny = [{ crate = \"native-tls\" }]",
        );
        let metadata = json!({ "packages": packages, "workspace_members": ["own"] });
        check(&Package::all(&metadata).unwrap(), &policy.unwrap())
    }

    fn package(name: &str, version: &str, source: Option<&str>, licence: Option<&str>) -> Value {
        json!({ "id": name, "name": name, "version": version, "source": source, "license": licence })
    }

    #[test]
    fn members_and_the_default_registry_are_fine() {
        let found = findings(json!([
            package("own", "0.1.0", None, Some("MIT")),
            package("serde", "1.0.0", Some(REGISTRY), Some("MIT OR GPL-3.0")),
        ]));
        assert!(found.errors.is_empty() && found.warnings.is_empty(), "{found:?}");
    }

    #[test]
    fn other_sources_are_errors() {
        for source in
            [None, Some("git+https://example.org/x#1"), Some("registry+https://example.org")]
        {
            let found = findings(json!([package("x", "1.0.0", source, Some("MIT"))]));
            assert_eq!(found.errors.len(), 1, "{source:?}: {found:?}");
            assert!(found.errors[0].starts_with("x 1.0.0: comes from "), "{found:?}");
        }
    }

    #[test]
    fn licences_that_are_missing_unknown_or_not_allowed_are_errors() {
        for licence in [None, Some("GPL-3.0"), Some("MIT OR"), Some("MIT AND GPL-3.0")] {
            let found = findings(json!([package("x", "1.0.0", Some(REGISTRY), licence)]));
            assert_eq!(found.errors.len(), 1, "{licence:?}: {found:?}");
        }
    }

    #[test]
    fn banned_crates_are_errors_and_duplicates_are_warnings() {
        let mit = |name, version| package(name, version, Some(REGISTRY), Some("MIT"));
        let found =
            findings(json!([mit("native-tls", "0.2.0"), mit("a", "1.0.0"), mit("a", "2.0.0")]));
        assert_eq!(found.errors, ["native-tls 0.2.0: deny.toml bans it"]);
        assert_eq!(found.warnings, ["a: 2 versions: 1.0.0, 2.0.0"]);
    }
}
