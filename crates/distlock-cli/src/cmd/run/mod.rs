//! `distlock run`: a command under a lock.

mod asked;
mod check;
mod lease;
mod over;
mod tell;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use distlock::{Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout_at};

use crate::args::OnLost;
use crate::child::Child;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::find;
use crate::lock::{Ask, Held, Lock};
use crate::plan::{Run, Setup};
use crate::print;
use crate::signals::Signals;
use over::{End, Why, watch_over};
use tell::Teller;

/// The pause between two attempts to reach the store.
const RETRY: Duration = Duration::from_millis(250);

pub(super) async fn run(plan: Run) -> Result<Exit, Failure> {
    let signals = Signals::for_a_command();
    let mut signals = signals.map_err(|cause| Failure::System("catch signals", cause))?;
    let teller = Teller::new(plan.verbose)
        .map_err(|cause| Failure::System("start a thread for --verbose", cause))?;
    let exit = locked(&plan, &mut signals, &teller).await;
    // Its lines come before the last one.
    teller.finish();
    match exit {
        Err(failure) if failure.exit() == Exit::NotAcquired => {
            print::complain(&failure.to_string());
            Ok(plan.not_acquired.map_or(Exit::NotAcquired, Exit::NotAcquiredAs))
        }
        exit => exit,
    }
}

/// The error, with the kind of lock that stands in the way, if one does.
async fn explained(lock: &Lock, plan: &Run, error: Error) -> Failure {
    find::explain(lock.stores(), plan.store.is_file(), &plan.lock, error).await
}

/// Connects. With a time to wait, a store that cannot be reached is tried again until that is over.
async fn open(plan: &Run, setup: &Setup, until: Option<Instant>, teller: &Teller) -> Result<Lock> {
    let Some(until) = until else { return Lock::open(&plan.store, &plan.lock, setup).await };
    let mut last: Option<Error> = None;
    loop {
        let error = match timeout_at(until, Lock::open(&plan.store, &plan.lock, setup)).await {
            Ok(Err(error)) if error.is_retryable() => error,
            Ok(done) => return done,
            Err(_) => {
                return Err(last.unwrap_or_else(|| {
                    let place = plan.store.addresses().join(", ");
                    let hint = plan.store.tls_hint();
                    let text = format!("no reply from {place} within --wait{hint}");
                    Error::new(ErrorKind::Unavailable, text)
                }));
            }
        };
        let left = until - Instant::now();
        if left.is_zero() {
            return Err(error);
        }
        if last.is_none() {
            teller.say_at_once(&format!("{error}; trying again for {}", duration::show(left)));
        }
        last = Some(error);
        sleep(left.min(RETRY)).await;
    }
}

async fn locked(plan: &Run, signals: &mut Signals, teller: &Teller) -> Result<Exit, Failure> {
    let setup = Setup {
        watchdog: plan.watchdog,
        observer: teller.observer(),
        service: (!plan.anonymous).then_some("distlock run"),
        ..Setup::default()
    };
    // What cannot be added to the clock is as good as no limit.
    let until = plan.wait.filter(|wait| !wait.is_zero());
    let until = until.and_then(|wait| Instant::now().checked_add(wait));
    let lock = tokio::select! {
        lock = open(plan, &setup, until, teller) => lock?,
        signal = signals.asked_to_end() => return Ok(Exit::Signal(signal.as_raw())),
    };
    tokio::select! {
        checked = check::check(&lock, plan) => match checked {
            Err(Failure::Locks(error)) => {
                return Err(explained(&lock, plan, error).await);
            }
            checked => checked?,
        },
        signal = signals.asked_to_end() => return Ok(Exit::Signal(signal.as_raw())),
    }
    let mut members = check::ask_members(&lock, plan);
    // A wrong URL must not block a job for ever, and a single try is over when it is known that it cannot succeed.
    if until.is_none() {
        let checked = tokio::select! {
            checked = members.require_majority() => checked,
            signal = signals.asked_to_end() => return Ok(Exit::Signal(signal.as_raw())),
        };
        if let Err(error) = checked {
            lock.close().await;
            return Err(error.into());
        }
    }
    let wait = until.map(|until| until - Instant::now()).or(plan.wait);
    let ask = Ask { wait, lease: plan.lease, label: label(&plan.command) };
    let held = tokio::select! {
        held = lock.acquire(&ask) => held,
        never = teller.say_why_nothing_happens(&lock, plan.lock.kind) => match never {},
        signal = signals.asked_to_end() => {
            // Leaving the wait gives back what it had taken; closing makes sure of it.
            lock.close().await;
            return Ok(Exit::Signal(signal.as_raw()));
        }
    };
    let exit = match held {
        Ok(held) => match signals.asked_by_now().await {
            Some(signal) => {
                drop(held);
                Ok(Exit::Signal(signal.as_raw()))
            }
            None => {
                members.warn_of_absent().await;
                under(held, plan, signals, teller).await
            }
        },
        Err(error) => Err(explained(&lock, plan, error).await),
    };
    lock.close().await;
    exit
}

/// The name of the command. Not its arguments: they may hold secrets, and all who can read the store can read this.
fn label(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// Why the command was stopped, in words.
fn why_stopped(why: Why, plan: &Run) -> String {
    match (why, plan.lease) {
        (Why::Lost, _) => {
            "the lock was lost: its lease ended, or another process or the server freed it"
                .to_owned()
        }
        (Why::Ending, None) => "it could not be renewed in time".to_owned(),
        (Why::Ending, Some(lease)) if plan.on_lost == OnLost::Kill => {
            format!("its lease ended after {}", duration::show(lease))
        }
        (Why::Ending, Some(lease)) => {
            let grace = lease::grace(lease);
            format!(
                "of the lease of {}, the last {} are for the command to end after SIGTERM, so that it is dead before the lease ends; give it a longer --lease, or none",
                duration::show(lease),
                duration::show(grace)
            )
        }
    }
}

/// Runs the command under the lock and gives the lock back.
async fn under(
    held: Held,
    plan: &Run,
    signals: &mut Signals,
    teller: &Teller,
) -> Result<Exit, Failure> {
    if let Some(token) = held.token() {
        teller.say(&format!("the fencing token is {token}"));
    }
    let names: Vec<String> = plan.lock.names.iter().map(|name| print::name(name)).collect();
    let name = names.join(", ");
    let vars = [
        ("DISTLOCK_NAME", Some(plan.lock.names.join("\n"))),
        ("DISTLOCK_TOKEN", held.token().map(|token| token.to_string())),
    ];
    let ended = match Child::start(&plan.command, &vars) {
        Ok(child) => {
            let warn = || {
                print::complain(&format!(
                    "WARNING: the lock {name} is lost, another holder may have acquired it; the command runs on because of --on-lost warn"
                ));
            };
            watch_over(&held, child, signals, plan.on_lost, warn).await
        }
        Err(cause) => Err(cause),
    };
    let was_lost = held.is_lost();
    let unlocked = held.unlock().await;
    match (ended, unlocked) {
        (Err(cause), _) => Err(Failure::System("run the command", cause)),
        (Ok(End { stopped: Some(why), .. }), _) => {
            let how = if plan.on_lost == OnLost::Kill { "killed" } else { "stopped" };
            let why = why_stopped(why, plan);
            print::complain(&format!(
                "the command was {how} because it must not outlive the lock {name}: {why}"
            ));
            Ok(Exit::Lost)
        }
        // Of several locks one may be lost, and the error be of the kind of another's.
        (Ok(end), Err(error)) if was_lost || Exit::of(&error) == Exit::Lost => {
            print::complain(&format!("{error}; the command had ended with {}", end.status));
            Ok(Exit::Lost)
        }
        (Ok(end), Err(error)) => {
            // The command ran under the lock from beginning to end; only waiters have to wait longer now.
            print::complain(&format!(
                "cannot release the lock {name}, which is free when its lease ends: {error}"
            ));
            Ok(Exit::Command(end.status))
        }
        (Ok(end), Ok(())) => Ok(Exit::Command(end.status)),
    }
}
