//! What to do, with nothing left to decide: arguments resolved against the environment.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use distlock::doctor::{Acl, Channels};
use distlock::{Locks, Result};

use crate::args::{self, Args, Command, Kind};
use crate::exit::Failure;
use crate::print;

/// One run of this program.
#[derive(Debug)]
pub(crate) enum Plan {
    Run(Run),
    Ls(Ls),
    Show(Show),
    Unlock(Unlock),
    Latch(Latch),
    Doctor(Doctor),
    Demo(Demo),
}

/// Where the locks are: one place, but for a majority of several. A URL may hold a password: it is for connecting, not for
/// printing.
pub(crate) struct Store {
    urls: Vec<String>,
    prefix: Option<String>,
}

/// Which lock.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) kind: Kind,
    /// At least one; more only for a kind that takes several.
    pub(crate) names: Vec<String>,
    /// The reading half of a read-write lock.
    pub(crate) read: bool,
    /// How many permits there are in all, if nobody has set that.
    pub(crate) permits: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) watchdog: Option<Duration>,
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug)]
pub(crate) struct Ls {
    pub(crate) store: Store,
    pub(crate) names: String,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Show {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Unlock {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Latch {
    pub(crate) store: Store,
    pub(crate) name: String,
    /// The count that it gets; without one it is counted down.
    pub(crate) init: Option<u32>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Doctor {
    pub(crate) store: Store,
    /// The kinds that must work.
    pub(crate) kinds: Vec<distlock::store::Kind>,
    /// For which names to print rules, instead of looking.
    pub(crate) acl: Option<String>,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Demo {
    pub(crate) store: Store,
    pub(crate) lock: Choice,
    pub(crate) tasks: u32,
    pub(crate) stock: u32,
    pub(crate) json: bool,
}

impl Plan {
    pub(crate) fn new(args: Args) -> Result<Plan, Failure> {
        Ok(match args.command {
            Command::Run(run) => Plan::Run(Run::new(run)?),
            Command::Ls(ls) => Plan::Ls(Ls {
                store: Store::new(ls.store, Kind::Mutex)?,
                names: ls.names,
                json: ls.json,
            }),
            Command::Show(show) => Plan::Show(Show {
                store: Store::new(show.store, show.kind)?,
                lock: Choice::single(show.kind, show.name)?,
                json: show.json,
            }),
            Command::Unlock(unlock) if !unlock.force => {
                let (kind, name) = (unlock.kind.word(), print::name(&unlock.name));
                return Err(Failure::Usage(format!(
                    "`unlock` takes the lock away from its holder, who may be at work; see `distlock show --kind {kind} {name}`, and add --force if you mean it"
                )));
            }
            Command::Unlock(unlock) => Plan::Unlock(Unlock {
                store: Store::new(unlock.store, unlock.kind)?,
                lock: Choice::single(unlock.kind, unlock.name)?,
                json: unlock.json,
            }),
            Command::Latch(latch) => {
                let (latch, init) = match latch {
                    args::Latch::Init { latch, count } => (latch, Some(count)),
                    args::Latch::Down { latch } => (latch, None),
                };
                let store = Store::new(latch.store, Kind::Latch)?;
                Plan::Latch(Latch { store, name: latch.name, init, json: latch.json })
            }
            Command::Doctor(doctor) => Plan::Doctor(Doctor {
                // Any number of servers can be looked at.
                store: Store::new(doctor.store, Kind::Redlock)?,
                kinds: match doctor.kinds.is_empty() {
                    true => distlock::store::Kind::ALL.to_vec(),
                    false => doctor.kinds.into_iter().map(Kind::of_library).collect(),
                },
                acl: doctor.acl,
                json: doctor.json,
            }),
            Command::Demo(demo) => Plan::Demo(Demo {
                store: Store::new(demo.store, demo.kind)?,
                lock: Choice::demo(demo.kind)?,
                tasks: demo.tasks,
                stock: demo.stock,
                json: demo.json,
            }),
        })
    }
}

impl Run {
    fn new(run: args::Run) -> Result<Run, Failure> {
        let wrong = |text: &str| Err(Failure::Usage(text.to_owned()));
        if run.names.len() > 1 && run.kind != Kind::Multi {
            return wrong("several names: --kind multi takes all of these locks, or none");
        }
        if (run.read || run.write) && run.kind != Kind::Rw {
            return wrong("--read and --write are for --kind rw");
        }
        if run.permits.is_some() && !matches!(run.kind, Kind::Semaphore | Kind::LeasedSemaphore) {
            return wrong("--permits is for --kind semaphore and --kind leased_semaphore");
        }
        if run.lease.is_some() && run.kind == Kind::Latch {
            return wrong(
                "--lease is not for --kind latch: nothing is held while the command runs",
            );
        }
        Ok(Run {
            store: Store::new(run.store, run.kind)?,
            lock: Choice { kind: run.kind, names: run.names, read: run.read, permits: run.permits },
            wait: run.wait,
            lease: run.lease,
            watchdog: run.watchdog,
            command: run.command,
        })
    }
}

impl Choice {
    /// One lock to look at.
    fn single(kind: Kind, name: String) -> Result<Choice, Failure> {
        if kind == Kind::Multi {
            let text = "a multi lock is nothing but its mutexes: name one of them, without --kind";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(Choice { kind, names: vec![name], read: false, permits: None })
    }

    /// One lock to let a crowd loose on.
    fn demo(kind: Kind) -> Result<Choice, Failure> {
        let name = match kind {
            // A latch keeps nobody out.
            Kind::Latch => {
                let text = "a latch keeps nobody out: there is no demonstration of --kind latch";
                return Err(Failure::Usage(text.to_owned()));
            }
            // Its counter stays, so there should not be one for each demonstration.
            Kind::Fenced => "distlock-demo:fenced".to_owned(),
            _ => format!("distlock-demo:{}", std::process::id()),
        };
        let names = match kind {
            Kind::Multi => vec![format!("{name}:1"), format!("{name}:2")],
            _ => vec![name],
        };
        Ok(Choice { kind, names, read: false, permits: Some(1) })
    }
}

impl Store {
    fn new(args: args::Store, kind: Kind) -> Result<Store, Failure> {
        let urls = if args.url.is_empty() {
            let url = match env::var("DISTLOCK_URL") {
                Ok(url) if !url.is_empty() => url,
                Ok(_) | Err(env::VarError::NotPresent) => default_url()?,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failure::Usage("DISTLOCK_URL is not UTF-8".into()));
                }
            };
            match kind {
                Kind::Redlock => url.split_whitespace().map(str::to_owned).collect(),
                _ => vec![url],
            }
        } else {
            if args.url.iter().any(|url| has_password(url)) {
                print::complain(
                    "every user of this machine can read the password in --url; put the URL into DISTLOCK_URL",
                );
            }
            args.url
        };
        if urls.len() > 1 && kind != Kind::Redlock {
            let text = "several --url: only --kind redlock uses more than one store";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(Store { urls, prefix: args.prefix })
    }

    /// The scheme alone, or how many there are: safe to print.
    pub(crate) fn place(&self) -> String {
        match self.urls.as_slice() {
            [url] => scheme(url).to_owned(),
            urls => format!("a majority of {} stores", urls.len()),
        }
    }

    /// One `Locks` per URL.
    pub(crate) async fn connect(&self, watchdog: Option<Duration>) -> Result<Vec<Locks>> {
        let mut all = Vec::with_capacity(self.urls.len());
        for url in &self.urls {
            let mut builder = Locks::builder().url(url);
            if let Some(prefix) = &self.prefix {
                builder = builder.prefix(prefix);
            }
            if let Some(watchdog) = watchdog {
                builder = builder.watchdog(watchdog);
            }
            // Of several, a minority may be down.
            if self.urls.len() > 1 {
                builder = builder.lazy();
            }
            all.push(builder.connect().await?);
        }
        Ok(all)
    }

    /// The same without waiting for anybody to answer.
    pub(crate) async fn connect_lazily(&self) -> Result<Vec<Locks>> {
        let mut all = Vec::with_capacity(self.urls.len());
        for url in &self.urls {
            let builder =
                Locks::builder().url(url).prefix(self.prefix.as_deref().unwrap_or_default());
            all.push(builder.lazy().connect().await?);
        }
        Ok(all)
    }

    /// What a user of this store needs for locks whose names start with `prefix`.
    pub(crate) fn acl(&self, prefix: &str, kinds: &[distlock::store::Kind]) -> Acl {
        let acl = Acl::new(prefix).kinds(kinds);
        let Some(url) = self.urls.first() else { return acl };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let option = |word: &str| query.split('&').any(|option| option == word);
        // Behind the name of the primary, where there is one.
        let path = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        match scheme.split_once('+').map(|(_, kind)| kind) {
            Some("cluster") if option("pubsub=classic") => acl.cluster(Channels::Classic),
            Some("cluster") if option("pubsub=both") => acl.cluster(Channels::Both),
            Some("cluster") => acl.cluster(Channels::Sharded),
            Some("sentinel") => database(acl.moving(), parts.get(1)),
            Some("replicated") => database(acl.moving(), parts.first()),
            Some(_) => acl,
            None => database(acl, parts.first()),
        }
    }
}

/// In another database than 0, it has to be chosen.
fn database(acl: Acl, db: Option<&&str>) -> Acl {
    match db {
        None | Some(&("" | "0")) => acl,
        Some(_) => acl.database(),
    }
}

/// What is safe to print of a URL.
fn scheme(url: &str) -> &str {
    url.split(':').next().unwrap_or_default()
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("place", &self.place()).finish_non_exhaustive()
    }
}

fn has_password(url: &str) -> bool {
    let credentials = url.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    credentials.is_some_and(|(credentials, _)| credentials.contains(':'))
}

/// Files in the user's state directory: works on a machine that has nothing but this program.
fn default_url() -> Result<String, Failure> {
    let set = |key| env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    // A home that does not exist is what system accounts have; making one would surprise everybody.
    let home = || set("HOME").filter(|home| home.is_dir()).map(|home| home.join(".local/state"));
    let dir = match set("XDG_STATE_HOME").or_else(home) {
        Some(state) => state.join("distlock"),
        None => own_temporary_directory()?,
    };
    let dir = dir.into_os_string().into_string().map_err(|dir| {
        Failure::Usage(format!("the state directory {} is not UTF-8; use --url", dir.display()))
    })?;
    Ok(format!("file:{dir}"))
}

/// The last resort. Anybody can put something in our place in `/tmp`, so what stands there must be ours alone.
fn own_temporary_directory() -> Result<PathBuf, Failure> {
    let uid = rustix::process::geteuid().as_raw();
    let dir = env::temp_dir().join(format!("distlock-{uid}"));
    let cannot = |cause| Failure::System("make a directory for locks; use --url", cause);
    match DirBuilder::new().mode(0o700).create(&dir) {
        Err(cause) if cause.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(cannot(cause));
        }
        _ => {}
    }
    let meta = fs::symlink_metadata(&dir).map_err(cannot)?;
    if meta.is_dir() && meta.uid() == uid && meta.mode() & 0o022 == 0 {
        return Ok(dir);
    }
    let dir = dir.display();
    Err(Failure::Usage(format!("{dir} is not a directory of yours alone; remove it, or use --url")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_password_counts_as_one() {
        assert!(has_password("redis://user:pw@host"));
        assert!(has_password("rediss://:pw@host:1"));
        assert!(!has_password("redis://user@host:1"));
        assert!(!has_password("redis://host:1"));
        assert!(!has_password("file:/a@b:c"));
    }

    #[test]
    fn a_plan_does_not_show_its_url() {
        let store = Store { urls: vec!["redis://u:canary@h".into()], prefix: None };
        assert!(!format!("{store:?}").contains("canary"));
    }
}
