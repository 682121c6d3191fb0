//! What to do, with nothing left to decide: arguments resolved against the environment.

use std::env;
use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::PathBuf;
use std::time::Duration;

use distlock::{Locks, Result};

use crate::args::{self, Args, Command};
use crate::exit::Failure;
use crate::print;

/// One run of this program.
#[derive(Debug)]
pub(crate) enum Plan {
    Run(Run),
    Ls(Ls),
    Show(Show),
    Unlock(Unlock),
    Demo(Demo),
}

/// Where the locks are. The URL may hold a password: it is for connecting, not for printing.
pub(crate) struct Store {
    url: String,
    prefix: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) store: Store,
    pub(crate) name: String,
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
    pub(crate) name: String,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Unlock {
    pub(crate) store: Store,
    pub(crate) name: String,
    pub(crate) json: bool,
}

#[derive(Debug)]
pub(crate) struct Demo {
    pub(crate) store: Store,
    pub(crate) tasks: u32,
    pub(crate) stock: u32,
    pub(crate) json: bool,
}

impl Plan {
    pub(crate) fn new(args: Args) -> Result<Plan, Failure> {
        Ok(match args.command {
            Command::Run(run) => {
                let args::Kind::Mutex = run.kind;
                Plan::Run(Run {
                    store: Store::new(run.store)?,
                    name: run.name,
                    wait: run.wait,
                    lease: run.lease,
                    watchdog: run.watchdog,
                    command: run.command,
                })
            }
            Command::Ls(ls) => {
                Plan::Ls(Ls { store: Store::new(ls.store)?, names: ls.names, json: ls.json })
            }
            Command::Show(show) => Plan::Show(Show {
                store: Store::new(show.store)?,
                name: show.name,
                json: show.json,
            }),
            Command::Unlock(unlock) if !unlock.force => {
                let name = print::name(&unlock.name);
                return Err(Failure::Usage(format!(
                    "`unlock` takes the lock away from its holder, who may be at work; see `distlock show {name}`, and add --force if you mean it"
                )));
            }
            Command::Unlock(unlock) => Plan::Unlock(Unlock {
                store: Store::new(unlock.store)?,
                name: unlock.name,
                json: unlock.json,
            }),
            Command::Demo(demo) => Plan::Demo(Demo {
                store: Store::new(demo.store)?,
                tasks: demo.tasks,
                stock: demo.stock,
                json: demo.json,
            }),
        })
    }
}

impl Store {
    fn new(args: args::Store) -> Result<Store, Failure> {
        let url = match args.url {
            Some(url) => {
                if has_password(&url) {
                    print::complain(
                        "every user of this machine can read the password in --url; put the URL into DISTLOCK_URL",
                    );
                }
                url
            }
            None => match env::var("DISTLOCK_URL") {
                Ok(url) if !url.is_empty() => url,
                Ok(_) | Err(env::VarError::NotPresent) => default_url()?,
                Err(env::VarError::NotUnicode(_)) => {
                    return Err(Failure::Usage("DISTLOCK_URL is not UTF-8".into()));
                }
            },
        };
        Ok(Store { url, prefix: args.prefix })
    }

    /// The scheme alone: safe to print.
    pub(crate) fn scheme(&self) -> &str {
        self.url.split(':').next().unwrap_or_default()
    }

    pub(crate) async fn connect(&self, watchdog: Option<Duration>) -> Result<Locks> {
        let mut builder = Locks::builder().url(&self.url);
        if let Some(prefix) = &self.prefix {
            builder = builder.prefix(prefix);
        }
        if let Some(watchdog) = watchdog {
            builder = builder.watchdog(watchdog);
        }
        builder.connect().await
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("scheme", &self.scheme()).finish_non_exhaustive()
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
        let store = Store { url: "redis://u:canary@h".into(), prefix: None };
        assert!(!format!("{store:?}").contains("canary"));
    }
}
