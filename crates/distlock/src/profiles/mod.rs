//! Named [`Locks`], chosen by a file and the environment instead of by the code that uses them.

mod file;
mod settings;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::OnceCell;

use self::settings::{Settings, Source};
use crate::engine;
use crate::env::{BoxFuture, System};
use crate::error::{Error, ErrorKind, Result};
use crate::locks::Builder;
use crate::locks::Locks;
use crate::runtime::join::join_all;

/// The file that is looked for where the program is started.
const FILE: &str = "locks.toml";
/// Names another file.
const FILE_VARIABLE: &str = "DISTLOCK_CONFIG";
/// The name of the default profile if nothing sets it and there is not just one.
const DEFAULT: &str = "default";

/// Named [`Locks`]: `locks.toml` and the environment set which store serves them, and how. The code that uses them
/// does not depend on the store.
///
/// ```toml
/// default = "main"                      # for #[locked] without `profile`, and for DISTLOCK_URL; not needed with a single profile
///
/// [profile.main]
/// url = "redis://127.0.0.1:6379"
/// prefix = "shop:"
///
/// [profile.billing]
/// url = "redis+sentinel://s1,s2,s3/mymaster"
/// watchdog = "10s"
/// acks = 1
/// ```
///
/// # Every key
/// | key | unless set | why |
/// |---|---|---|
/// | `url` | none: a profile needs one | where the locks are, see [`Builder::url`] |
/// | `prefix` | nothing | starts every name, so that programs which share a store do not share names |
/// | `watchdog` | `30s` | as Redisson: long enough for a pause of the program, short enough to wait for one that crashed |
/// | `fair_patience` | `300s` | as Redisson: waiters of both share a queue, so their places should last equally long |
/// | `wait_by` | `"notify"` | `"spin"` polls instead, where Pub/Sub is forbidden, see [`Builder::wait_by`] |
/// | `mutex_as` | `"mutex"` | the kind that serves a mutex: `"simple"` is the format of hand-written `SET NX PX` locks, `"fair"` keeps the order of arrival; see [`Builder::mutex_as`] |
/// | `acks` | none | how many replicas must acknowledge an acquire; a hand-over inside a process needs none, see [`Durability`](crate::Durability) |
/// | `lazy` | `false` | a wrong address should be reported when the program starts; `true` lets the server start later |
/// | `holder_info` | off | the name of the program, which is stored with each hold, at the cost of a write, see [`Builder::holder_info`] |
/// | `slow_hold` | off | warns of holds that take longer; what is long depends on the program, see [`Builder::slow_hold`] |
///
/// Durations are `500ms`, `10s`, `1h30m`. A mistake (an unknown key, a URL of no store, a duration that is too short, a
/// default that does not exist) is an error when the file is read. A store that does not reply is reported when its locks are first
/// used, or by [`check`](Profiles::check) for all profiles at once.
///
/// # The environment
/// `DISTLOCK_URL` is the URL of the default profile, `DISTLOCK_BILLING_URL` that of `billing`, `DISTLOCK_BILLING_WATCHDOG` its
/// watchdog timeout, and so on for every key: names in capitals, with `_` for everything that is neither letter nor digit. The
/// environment overrides the file, and a URL there is enough for a profile to exist. `DISTLOCK_CONFIG` names another file.
///
/// # Use
/// ```
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # rt.block_on(async {
/// use distlock::Profiles;
///
/// let profiles = Profiles::parse("[profile.billing]\nurl = 'memory:'\nprefix = 'bill:'")?;
/// profiles.check().await?; // connects to all of them: a wrong address or password is an error when the program starts
/// let locks = profiles.locks("billing").await?; // without `check` it connects here
/// assert_eq!(locks.mutex("42").lock().await?.name(), "bill:42");
///
/// profiles.install()?; // for Profiles::get and #[locked]
/// let same = Profiles::get("billing").await?;
/// # Ok::<(), distlock::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Profiles(Arc<Inner>);

struct Inner {
    default: String,
    profiles: BTreeMap<String, Settings>,
    /// Of profiles that only the environment knows.
    source: Source,
    /// Every call for a profile returns the same `Locks`: hold counts are kept per `Locks`.
    connected: Mutex<BTreeMap<String, Arc<OnceCell<Locks>>>>,
}

static INSTALLED: OnceLock<Profiles> = OnceLock::new();

impl Profiles {
    /// Reads `locks.toml` in the current directory, or the file that `DISTLOCK_CONFIG` names, and the environment. Without a file
    /// it reads the environment alone.
    ///
    /// # Errors
    /// `Config`, naming file, line and key, or the variable.
    pub fn load() -> Result<Profiles> {
        let variables = Source::environment();
        match variables.get(FILE_VARIABLE)? {
            Some(path) => Profiles::read(Path::new(&path), variables),
            None if Path::new(FILE).exists() => Profiles::read(Path::new(FILE), variables),
            None => Profiles::over(file::File::default(), variables),
        }
    }

    /// Reads the profiles of this file, and the environment.
    ///
    /// # Errors
    /// As [`load`](Profiles::load).
    pub fn from_file(path: impl AsRef<Path>) -> Result<Profiles> {
        Profiles::read(path.as_ref(), Source::environment())
    }

    /// Parses the profiles in this text; ignores the environment.
    ///
    /// # Errors
    /// `Config`, naming line and key.
    pub fn parse(text: &str) -> Result<Profiles> {
        Profiles::over(file::parse(text, FILE)?, Source::default())
    }

    fn read(path: &Path, source: Source) -> Result<Profiles> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|why| config(format!("{shown} cannot be read: {why}")))?;
        Profiles::over(file::parse(&text, &shown)?, source)
    }

    fn over(file: file::File, source: Source) -> Result<Profiles> {
        let default = match (&file.default, &file.profiles[..]) {
            (Some((named, _)), _) => named.clone(),
            (None, [(only, _)]) => only.clone(), // a single profile is the default
            _ => DEFAULT.to_owned(),
        };
        let mut profiles = BTreeMap::new();
        for (name, mut settings) in file.profiles {
            settings.overridden(&name, name == default, &source)?;
            profiles.insert(name, settings);
        }
        if !profiles.contains_key(&default) {
            let mut settings = Settings::default();
            settings.overridden(&default, true, &source)?;
            if settings.url.is_some() {
                profiles.insert(default.clone(), settings);
            } else if let Some((_, place)) = file.default {
                return Err(place.error(&unknown(&default, true, &profiles)));
            }
        }
        let connected = Mutex::default();
        Ok(Profiles(Arc::new(Inner { default, profiles, source, connected })))
    }

    /// Makes these the profiles that [`Profiles::get`] and `#[locked]` use.
    ///
    /// # Errors
    /// `Config` if profiles were installed or used before: code that has its locks from them would not use the new ones.
    pub fn install(self) -> Result<()> {
        INSTALLED.set(self).map_err(|_| {
            config("profiles were installed or used before: install them once, where the program starts".to_owned())
        })
    }

    /// Returns the locks of a profile of those that were [installed](Profiles::install); if none were, of those that
    /// [`load`](Profiles::load) finds. The first call for a profile connects.
    ///
    /// # Errors
    /// `Config` for a profile that does not exist or cannot be used, `Unavailable` if no server replies; then the next call tries
    /// again.
    pub async fn get(name: &str) -> Result<Locks> {
        Profiles::installed()?.locks(name).await
    }

    /// [`get`](Profiles::get) for programs without a runtime.
    pub fn get_blocking(name: &str) -> Result<Locks> {
        Profiles::installed()?.locks_blocking(name)
    }

    pub(crate) fn installed() -> Result<&'static Profiles> {
        if let Some(installed) = INSTALLED.get() {
            return Ok(installed);
        }
        let loaded = Profiles::load()?;
        Ok(INSTALLED.get_or_init(|| loaded))
    }

    /// Returns the locks of a profile. The first call connects.
    ///
    /// # Errors
    /// As [`get`](Profiles::get).
    pub async fn locks(&self, name: &str) -> Result<Locks> {
        let connected = || self.0.connected.lock().unwrap_or_else(PoisonError::into_inner);
        let known = connected().get(name).and_then(|once| once.get().cloned());
        if let Some(locks) = known {
            return Ok(locks);
        }
        let builder = self.builder(name)?;
        let once = connected().entry(name.to_owned()).or_default().clone();
        let connect =
            || async { builder.connect().await.map_err(|e| e.at(&format!("profile {name:?}"))) };
        once.get_or_try_init(connect).await.cloned()
    }

    /// Connects to the stores of all profiles, at the same time. Call it where the program starts: otherwise an unreachable server or a
    /// wrong password is reported when the profile is first used.
    ///
    /// Of a profile with `lazy = true` only the settings are checked: its server may start later. Profiles that are only in the environment
    /// are not in [`names`](Profiles::names), except for the default one: name them with [`check_named`](Profiles::check_named).
    ///
    /// ```
    /// # distlock::block_on(async {
    /// use distlock::Profiles;
    ///
    /// let profiles = Profiles::parse("[profile.main]\nurl = 'memory:'\n[profile.billing]\nurl = 'redis://127.0.0.1:1'")?;
    /// let error = profiles.check().await.unwrap_err();
    /// assert!(error.to_string().starts_with("profile \"billing\": cannot connect to 127.0.0.1:1"));
    /// # Ok::<(), distlock::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// One error that names every profile that cannot be used, with the reason of each. It is [retryable](Error::is_retryable) if all of them
    /// are. `Config` if there is no profile at all.
    pub async fn check(&self) -> Result<()> {
        if self.0.profiles.is_empty() {
            return Err(config(unknown(self.default_name(), true, &self.0.profiles)));
        }
        self.check_named(self.names()).await
    }

    /// [`check`](Profiles::check) of the profiles with these names.
    ///
    /// # Errors
    /// As [`check`](Profiles::check); also for a name that no profile has.
    pub async fn check_named<N: AsRef<str>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<()> {
        let names: Vec<String> = names.into_iter().map(|name| name.as_ref().to_owned()).collect();
        let connect = |name: &String| -> BoxFuture<'static, Option<Error>> {
            let (profiles, name) = (self.clone(), name.clone());
            Box::pin(async move {
                let connected = profiles.locks(&name).await;
                connected.err().map(|e| e.at(&format!("profile {name:?}")))
            })
        };
        let failed: Vec<Error> =
            join_all(names.iter().map(connect).collect()).await.into_iter().flatten().collect();
        let [first, rest @ ..] = &failed[..] else { return Ok(()) };
        if rest.is_empty() {
            return Err(first.clone());
        }
        // An error that no retry helps takes precedence.
        let worst = failed.iter().find(|e| !e.is_retryable()).unwrap_or(first);
        let each: Vec<String> = failed.iter().map(Error::to_string).collect();
        let (some, all) = (failed.len(), names.len());
        let text = format!("{some} of {all} profiles cannot be used: {}", each.join("; "));
        Err(Error::new(worst.kind(), text))
    }

    /// [`check`](Profiles::check) for programs without a runtime.
    pub fn check_blocking(&self) -> Result<()> {
        let profiles = self.clone();
        engine::block_on(&System, Box::pin(async move { profiles.check().await }))
    }

    /// [`locks`](Profiles::locks) for programs without a runtime.
    pub fn locks_blocking(&self, name: &str) -> Result<Locks> {
        let (profiles, name) = (self.clone(), name.to_owned());
        engine::block_on(&System, Box::pin(async move { profiles.locks(&name).await }))
    }

    /// Returns a builder with the settings of the profile, to change them before connecting: to set an observer, for instance. Its
    /// `Locks` is another one than that of [`locks`](Profiles::locks).
    ///
    /// # Errors
    /// `Config` for a profile that does not exist, or has no URL.
    pub fn builder(&self, name: &str) -> Result<Builder> {
        let inner = &self.0;
        match inner.profiles.get(name) {
            Some(settings) => settings.builder(name),
            None => {
                let mut settings = Settings::default();
                settings.overridden(name, false, &inner.source)?;
                if settings.url.is_none() {
                    let is_default = name == inner.default;
                    return Err(config(unknown(name, is_default, &inner.profiles)));
                }
                settings.builder(name)
            }
        }
    }

    /// Returns the name of the default profile, which is used where none is named.
    pub fn default_name(&self) -> &str {
        &self.0.default
    }

    /// Returns the names of all profiles of the file, and of the default one of the environment.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.profiles.keys().map(String::as_str)
    }
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs may carry passwords.
        let names: Vec<&str> = self.names().collect();
        f.debug_struct("Profiles")
            .field("default", &self.0.default)
            .field("names", &names)
            .finish_non_exhaustive()
    }
}

/// Which profiles exist, and how to define this one.
fn unknown(name: &str, is_default: bool, profiles: &BTreeMap<String, Settings>) -> String {
    let known: Vec<&str> = profiles.keys().map(String::as_str).collect();
    let variable = match is_default {
        true => "DISTLOCK_URL".to_owned(),
        false => settings::variable(name, "url"),
    };
    let there = match known.is_empty() {
        true => "no profiles are defined (locks.toml is read from the current directory, or DISTLOCK_CONFIG names the file)".to_owned(),
        false => format!("the profiles are {}", known.join(", ")),
    };
    format!(
        "no profile {name:?}: {there}; write [profile.{name}] with a url in locks.toml, or set {variable}"
    )
}

fn config(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}
