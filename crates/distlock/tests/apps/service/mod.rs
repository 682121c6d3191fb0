//! The tests that users of locks write first: a service that signs members up and pays out of accounts, on a real
//! database, is asked for the same thing by many at once.
//!
//! The service does not know what serves it (see `distlock_testkit::service`); each test runs with every kind and store that
//! a service would choose from. `races` shows that the same service goes wrong without the lock, and with it in the wrong
//! place.

mod payments;
mod processes;
mod races;
mod sign_ups;

use distlock_testkit::service::{Account, Database, Doorman, Outcome, Service};
use distlock_testkit::suites::{Ground, Site, stand};
use tokio::task::JoinSet;

/// How many ask at once.
const CROWD: usize = 300;

/// A kind of lock on a store, and a database to protect.
struct Place {
    ground: Ground,
    kind: &'static str,
    database: Database,
}

impl Place {
    fn new(ground: Ground, kind: &'static str) -> Place {
        Place { ground, kind, database: Database::create() }
    }

    /// What a service is told about its locks.
    fn profile(&self) -> String {
        let (kind, url, prefix) = (self.kind, self.ground.url(), self.ground.prefix());
        format!("kind={kind} url={url} prefix={prefix}")
    }

    async fn doorman(&self) -> Doorman {
        Doorman::of(&self.profile()).await.expect("the profile makes sense")
    }

    /// One more instance of the service, with connections of its own.
    async fn service(&self) -> Service {
        Service::new(self.doorman().await, self.database.clone())
    }

    fn account(&self) -> Account {
        self.database.account(ACCOUNT)
    }
}

const EMAIL: &str = "ada@example.org";
const ACCOUNT: &str = "ada";

/// Runs each of these with every kind and store: `mod::test::kind_store`.
macro_rules! on_every_profile {
    ($($test:ident)*) => {
        $(mod $test {
            $crate::service::on_every_profile! { @ $test
                mutex_memory: "mutex", Memory;
                mutex_file: "mutex", File;
                mutex_redis: "mutex", Server(distlock_testkit::Flavor::Redis);
                simple_memory: "simple", Memory;
                simple_redis: "simple", Server(distlock_testkit::Flavor::Redis);
                fair_redis: "fair", Server(distlock_testkit::Flavor::Redis);
                spin_redis: "spin", Server(distlock_testkit::Flavor::Redis);
            }
        })*
    };
    (@ $test:ident $($profile:ident: $kind:literal, $site:expr;)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $profile() {
            use distlock_testkit::suites::Site::*;
            $crate::service::at($site, $kind, super::$test).await;
        })*
    };
}
use on_every_profile;

async fn at<F: Future<Output = ()>>(site: Site, kind: &'static str, test: impl FnOnce(Place) -> F) {
    stand(site, |ground| test(Place::new(ground, kind))).await;
}

/// How many were answered yes, and how many no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Answers {
    yes: usize,
    no: usize,
}

/// So many sign-ups at once, by turns through each of the services.
async fn sign_up_all(services: &[Service], count: usize) -> Answers {
    ask_all(services, 0..count, |service, _| async move { service.sign_up(EMAIL).await }).await
}

/// These payments at once, by turns through each of the services.
async fn pay_all(services: &[Service], amounts: impl Iterator<Item = i64>) -> Answers {
    ask_all(services, amounts, |service, amount| async move { service.pay(ACCOUNT, amount).await })
        .await
}

async fn ask_all<T, F>(
    services: &[Service],
    questions: impl Iterator<Item = T>,
    ask: impl Fn(Service, T) -> F,
) -> Answers
where
    F: Future<Output = Outcome<bool>> + Send + 'static,
{
    let mut crowd = JoinSet::new();
    for (question, service) in questions.zip(services.iter().cycle()) {
        crowd.spawn(ask(service.clone(), question));
    }
    let mut answers = Answers { yes: 0, no: 0 };
    for answer in crowd.join_all().await {
        match answer.expect("neither locks nor database are in trouble") {
            true => answers.yes += 1,
            false => answers.no += 1,
        }
    }
    answers
}
