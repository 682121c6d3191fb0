//! The tests: every promise at every place that suits it.

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::{Builder, Runtime};

use super::place::{PLACES, Place, Threads};
use super::promise::{self, Keep, Promise};
use super::{multi, mutex, redlock, seed, stand};
use crate::Server;

/// Runs the tests that the command line names, as `cargo test` does; all of them if it names none. They are called
/// `kind::suite::promise::place`.
pub fn main() -> ExitCode {
    let trials = promise::all().flat_map(|promise| {
        let places = PLACES.iter().filter(|place| place.suits(&promise.keep));
        places.map(|place| {
            let name = format!("{}::{}", promise.name, place.name);
            Trial::test(name, || run(promise, place))
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

/// Keeps it once; in virtual time, where that takes milliseconds, once for each seed. A panic is a failure.
fn run(promise: &Promise, place: &Place) -> Result<(), Failed> {
    if !place.is_virtual() {
        return keep(promise, place);
    }
    for seed in seed::chosen()? {
        let telling = seed::Telling::begin(seed);
        keep(promise, place)?;
        telling.kept();
    }
    Ok(())
}

fn keep(promise: &Promise, place: &Place) -> Result<(), Failed> {
    let sites = place.sites;
    let kept = async {
        match promise.keep {
            Keep::Store(keep) => stand(sites[0], keep).await,
            Keep::Field(keep) => multi::stand(sites, keep).await,
            Keep::Nodes(keep) => redlock::stand(sites, keep).await,
            Keep::Server(keep) => {
                let Some(flavor) = place.flavor() else { return };
                match flavor.program() {
                    Some(_) => keep(Server::builder(flavor).start().await).await,
                    None => eprintln!("SKIPPED: no server for {flavor:?}"),
                }
            }
            // Outside any runtime.
            Keep::Threads(_) => {}
        }
    };
    match promise.keep {
        Keep::Threads(keep) => mutex::threads::stand(sites[0], keep),
        _ => runtime(place)?.block_on(kept),
    }
    Ok(())
}

fn runtime(place: &Place) -> std::io::Result<Runtime> {
    let mut builder = match place.threads {
        Threads::One => Builder::new_current_thread(),
        Threads::Two => Builder::new_multi_thread(),
    };
    if place.threads == Threads::Two {
        builder.worker_threads(2);
    }
    builder.enable_all().start_paused(place.is_virtual()).build()
}
