//! One service on four stores, unchanged; and what is wrong in a file is said with its place.

use std::io::Write;

use distlock::{ErrorKind, Locks, Profiles, Result, locked};
use distlock_testkit::{Flavor, Server};

/// Does not know where its locks are.
struct Till {
    balance: std::sync::Mutex<i64>,
}

impl Till {
    #[locked("till", profile = profile)]
    async fn pay(&self, profile: &str, amount: i64) -> Result<()> {
        // Wrong, if two do it at once.
        let before = *self.balance.lock().expect("no panic");
        tokio::task::yield_now().await;
        *self.balance.lock().expect("no panic") = before + amount;
        Ok(())
    }
}

/// One test: what is installed is of the whole process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_runs_on_four_stores_unchanged() {
    if Flavor::Redis.program().is_none() {
        return eprintln!("SKIPPED: no server");
    }
    // Those who poll have one of their own, which shows that nobody listens there.
    let (server, polled) = (Server::redis().await, Server::redis().await);
    let dir = server.dir().join("locks");
    let (url, spin, dir) = (server.url(), polled.url(), dir.display());
    let text = format!(
        "default = 'memory'\n\
         [profile.memory]\nurl = 'memory:till'\n\
         [profile.file]\nurl = 'file:{dir}'\n\
         [profile.spin]\nurl = '{spin}'\nwait_by = 'spin'\nprefix = 'spin:'\n\
         [profile.simple]\nurl = '{url}'\nmutex_as = 'simple'\nprefix = 'simple:'\n\
         [profile.redis]\nurl = '{url}'\nwatchdog = '10s'\nprefix = 'app:'\n"
    );
    let path = server.dir().join("locks.toml");
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    let profiles = Profiles::from_file(&path).unwrap();
    assert_eq!(profiles.names().collect::<Vec<_>>(), ["file", "memory", "redis", "simple", "spin"]);
    profiles.install().unwrap();
    assert_eq!(Profiles::parse("").unwrap().install().unwrap_err().kind(), ErrorKind::Config);

    for profile in ["memory", "file", "simple", "spin", "redis"] {
        let till = std::sync::Arc::new(Till { balance: std::sync::Mutex::new(0) });
        let mut payments = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let till = till.clone();
            payments.spawn(async move { till.pay(profile, 3).await });
        }
        while let Some(paid) = payments.join_next().await {
            paid.unwrap().unwrap();
        }
        assert_eq!(*till.balance.lock().unwrap(), 150, "{profile}");
    }
    // The prefix is the profile's, and whoever asks for the profile gets the same locks.
    let guard = Profiles::get("redis").await.unwrap().mutex("k").lock().await.unwrap();
    assert_eq!(guard.name(), "app:k");
    guard.unlock().await.unwrap();
    assert!(server.keys("*").await.is_empty());
    // What others lock by hand is a plain value.
    let simple = Profiles::get("simple").await.unwrap();
    let guard = simple.mutex("k").lock().await.unwrap();
    let value: String = server.ask(&["GET", "simple:k"]).await;
    assert_eq!(value, guard.stay().to_string());
    assert!(simple.simple("k").try_lock().await.unwrap().is_none());
    let deeper = simple.mutex("k").lock().owner(guard.owner()).await.unwrap();
    deeper.unlock().await.unwrap();
    assert!(simple.mutex("k").is_held_by(guard.owner()).await.unwrap());
    let both = simple.multi(["k", "l"]).try_lock().await.unwrap();
    assert!(both.is_none());
    guard.unlock().await.unwrap();
    assert!(server.keys("*").await.is_empty());
    // A poller asks, and listens to nothing.
    let spin = Profiles::get("spin").await.unwrap();
    let held = spin.mutex("k").lock().await.unwrap();
    let second = spin.mutex("k").try_lock().wait(std::time::Duration::from_millis(30)).await;
    assert!(second.unwrap().is_none());
    held.unlock().await.unwrap();
    assert_eq!(polled.calls("subscribe").await, 0);
    assert!(polled.calls("evalsha").await > 0 && polled.keys("*").await.is_empty());

    let missing = Profiles::get("nowhere").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Config);
    assert!(missing.to_string().contains("DISTLOCK_NOWHERE_URL"), "{missing}");
}

#[test]
fn the_only_profile_is_the_default() {
    let one = Profiles::parse("[profile.main]\nurl = 'memory:'").unwrap();
    assert_eq!(one.default_name(), "main");
    let two = "[profile.main]\nurl = 'memory:'\n[profile.other]\nurl = 'memory:'";
    assert_eq!(Profiles::parse(two).unwrap().default_name(), "default");
    let wrong = Profiles::parse("[profile.main]\nurl = 'memory:'\nmutex_as = 'rw'").unwrap_err();
    assert!(wrong.to_string().contains("locks.toml:3: profile.main.mutex_as: must be"), "{wrong}");
}

/// Every profile that cannot be used is named with its reason, and those that can be used are connected.
#[tokio::test]
async fn a_check_names_every_profile_that_fails() {
    let text = "[profile.good]\nurl = 'memory:'\n\
                [profile.away]\nurl = 'redis://user:canary@127.0.0.1:1'\n\
                [profile.later]\nurl = 'redis://127.0.0.1:1'\nlazy = true\n";
    let profiles = Profiles::parse(text).unwrap();
    let one = profiles.check().await.unwrap_err();
    assert_eq!(one.kind(), ErrorKind::Unavailable, "{one}");
    assert!(
        one.to_string().starts_with("profile \"away\": cannot connect to 127.0.0.1:1"),
        "{one}"
    );
    profiles.check_named(["good", "later"]).await.unwrap();

    let more = format!(
        "{text}[profile.replicas]\nurl = 'memory:'\nacks = 1\n[profile.nowhere]\nprefix = 'x'"
    );
    let profiles = Profiles::parse(&more).unwrap();
    let all = tokio::task::spawn_blocking(move || profiles.check_blocking());
    let all = all.await.unwrap().unwrap_err();
    let said = all.to_string();
    assert!(!all.is_retryable(), "{said}");
    assert!(said.starts_with("3 of 5 profiles cannot be used: "), "{said}");
    for (profile, why) in [
        ("away", "cannot connect to 127.0.0.1:1"),
        ("nowhere", "DISTLOCK_NOWHERE_URL"),
        ("replicas", "has no replicas"),
    ] {
        let of =
            said.split("; profile ").chain(said.split(": profile ")).find(|of| of.contains(why));
        assert!(of.is_some_and(|of| of.contains(&format!("{profile:?}"))), "{profile}: {said}");
    }
    assert!(!format!("{said} {all:?}").contains("canary"), "{said}");
    let none = Profiles::parse("").unwrap().check().await.unwrap_err();
    assert!(none.to_string().contains("no profile \"default\": no profiles are defined"), "{none}");
    let unknown = Profiles::parse(text).unwrap().check_named(["gone"]).await.unwrap_err();
    assert!(unknown.to_string().contains("no profile \"gone\""), "{unknown}");
}

/// In a process of its own each: the environment is of the whole process.
#[test]
fn the_environment_has_the_last_word() {
    let child = |variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "locked::profiles::in_a_child", "--nocapture"])
            .env("PROFILES_CHILD", "1");
        command.env_remove("DISTLOCK_URL").envs(variables.iter().copied());
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let said = child(&[("DISTLOCK_URL", "memory:env")]);
    assert!(said.contains("default: ok"), "{said}");
    let said = child(&[("DISTLOCK_URL", "memory:env"), ("DISTLOCK_MY_SHOP_URL", "memory:shop")]);
    assert!(said.contains("my-shop: ok"), "{said}");
    let said = child(&[("DISTLOCK_URL", "memory:"), ("DISTLOCK_DEFAULT_WATCHDOG", "soon")]);
    assert!(said.contains("DISTLOCK_DEFAULT_WATCHDOG: expected a number"), "{said}");
    let said = child(&[("DISTLOCK_URL", "memory:"), ("DISTLOCK_DEFAULT_SLOW_HOLD", "0s")]);
    assert!(
        said.contains("default: Config: DISTLOCK_DEFAULT_SLOW_HOLD: slow_hold must be"),
        "{said}"
    );
    // `file:` alone is the user's state directory.
    let state = std::env::temp_dir().join(format!("locks-state-{}", std::process::id()));
    let said = child(&[("DISTLOCK_URL", "file:"), ("XDG_STATE_HOME", state.to_str().unwrap())]);
    assert!(said.contains("default: ok") && state.join("distlock").is_dir(), "{said}");
    std::fs::remove_dir_all(&state).unwrap();
    let homeless = [("DISTLOCK_URL", "file:"), ("XDG_STATE_HOME", ""), ("HOME", "/no/such/home")];
    let said = child(&homeless);
    assert!(said.contains("Config: profile \"default\": file: without a directory"), "{said}");
    let said = child(&[("DISTLOCK_URL", "reddis://canary")]);
    assert!(said.contains("default: Config: DISTLOCK_URL: this URL names no store"), "{said}");
    assert!(!said.contains("canary"), "{said}");
    // A default that only the environment makes is one.
    let file = std::env::temp_dir().join(format!("locks-{}.toml", std::process::id()));
    std::fs::write(&file, "\ndefault = 'my-shop'\n[profile.default]\nurl = 'memory:'").unwrap();
    let path = ("DISTLOCK_CONFIG", file.to_str().unwrap());
    let said = child(&[path]);
    let place = format!("my-shop: Config: {}:2: default: no profile \"my-shop\": ", path.1);
    assert!(said.contains(&place) && said.contains("the profiles are default; "), "{said}");
    for variable in ["DISTLOCK_URL", "DISTLOCK_MY_SHOP_URL"] {
        let said = child(&[path, (variable, "memory:shop")]);
        assert!(said.contains("default: ok") && said.contains("my-shop: ok"), "{said}");
    }
    std::fs::remove_file(&file).unwrap();
    let said = child(&[("DISTLOCK_CONFIG", "/no/such/locks.toml")]);
    assert!(said.contains("/no/such/locks.toml cannot be read"), "{said}");
    let said = child(&[]);
    assert!(
        said.contains("default: Config: no profile \"default\": no profiles are defined"),
        "{said}"
    );
}

/// Which `Locks` it is.
fn client(locks: &Locks) -> String {
    let owner = locks.owner().to_string();
    owner.rsplit_once(':').expect("a client and a number").0.to_owned()
}

#[test]
fn in_a_child() {
    if std::env::var_os("PROFILES_CHILD").is_none() {
        return;
    }
    for name in ["default", "my-shop"] {
        let twice = |profiles: Profiles| {
            let once = profiles.locks_blocking(name)?;
            Ok((once, profiles.locks_blocking(name)?))
        };
        match Profiles::load().and_then(twice) {
            Ok((once, again)) => {
                // Else a function that calls another one would wait for itself.
                assert_eq!(client(&once), client(&again), "the same locks");
                println!("{name}: ok");
            }
            Err(error) => println!("{name}: {:?}: {error}", error.kind()),
        }
    }
}

#[test]
fn what_is_wrong_is_said_with_file_line_and_key() {
    let table = [
        ("defalt = 'x'", "locks.toml:1: defalt: no such key"),
        (
            "\n[profile.a]\nurl = 'memory:'\nwatchdg = '1s'",
            "locks.toml:4: profile.a.watchdg: no such key: the keys are url",
        ),
        (
            "[profile.a]\nwatchdog = 'soon'",
            "locks.toml:2: profile.a.watchdog: expected a number of seconds",
        ),
        (
            "[profile.a]\nwait_by = 'luck'",
            "locks.toml:2: profile.a.wait_by: must be \"notify\" or \"spin\"",
        ),
        ("[profile.a]\nlazy = 'perhaps'", "locks.toml:2: profile.a.lazy: must be true or false"),
        ("[profile.a]\nurl = ['x']", "locks.toml:2: profile.a.url: expected a text"),
        (
            "[profile.a]\nurl = 'memory:'\nholder_info = false",
            "locks.toml:3: profile.a.holder_info: expected a text, as in holder_info = \"billing\"",
        ),
        (
            "[profile.a]\nwatchdog = '1ms'",
            "locks.toml:2: profile.a.watchdog: a watchdog timeout of 1ms is out of range: use 100ms",
        ),
        (
            "[profile.a]\nurl = 'reddis://u:canary@h'",
            "locks.toml:2: profile.a.url: this URL names no store that this program was built with",
        ),
        (
            "default = 'mian'\n[profile.main]\nurl = 'memory:'",
            "locks.toml:1: default: no profile \"mian\": the profiles are main; write [profile.mian]",
        ),
        ("[profile.a]\nacks = 0", "locks.toml:2: profile.a.acks: must be how many replicas"),
        ("profile = 1", "locks.toml:1: profile: expected tables"),
        ("default = 1", "locks.toml:1: default: expected the name of a profile"),
        ("profile.a = 1", "locks.toml:1: profile.a: expected a table"),
        ("[profile.a]\nurl = 'redis://u:canary@h", "locks.toml:2: "),
        ("[profile.a]\nurl = 'a'\nurl = 'redis://u:canary@h'", "locks.toml:3: "),
    ];
    for (text, expected) in table {
        let error = Profiles::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{text}");
        let said = error.to_string();
        assert!(said.contains(expected), "{text}: {said}");
        assert!(!format!("{said} {error:?}").contains("canary"), "{said}");
    }
    let profiles =
        Profiles::parse("[profile.a]\nprefix = 'x'\n[profile.b]\nurl = 'redis://u:canary@h'")
            .unwrap();
    let durable = Profiles::parse("[profile.a]\nurl = 'memory:'\nacks = 1").unwrap();
    let error = durable.locks_blocking("a").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "memory has no replicas: {error}");
    assert!(!format!("{profiles:?}").contains("canary"));
    let error = profiles.builder("a").unwrap_err();
    assert!(error.to_string().contains("DISTLOCK_A_URL"), "{error}");
}
