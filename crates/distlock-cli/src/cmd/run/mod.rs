//! `distlock run`: a command under a lock.

mod asked;
mod lease;
mod over;
mod tell;

use std::ffi::OsString;
use std::path::Path;

use crate::args::OnLost;
use crate::child::Child;
use crate::exit::{Exit, Failure};
use crate::lock::{Ask, Held, Lock};
use crate::plan::{Run, Setup};
use crate::print;
use crate::signals::Signals;
use over::{End, Why, watch_over};
use tell::Teller;

pub(super) async fn run(plan: Run) -> Result<Exit, Failure> {
    let signals = Signals::for_a_command();
    let mut signals = signals.map_err(|cause| Failure::System("catch signals", cause))?;
    let teller = Teller::new(plan.verbose)
        .map_err(|cause| Failure::System("start a thread for --verbose", cause))?;
    let exit = locked(&plan, &mut signals, &teller).await;
    // What it has still to say comes before the last word.
    teller.finish();
    exit
}

async fn locked(plan: &Run, signals: &mut Signals, teller: &Teller) -> Result<Exit, Failure> {
    let setup = Setup {
        watchdog: plan.watchdog,
        observer: teller.observer(),
        service: (!plan.anonymous).then_some("distlock run"),
        ..Setup::default()
    };
    let lock = tokio::select! {
        lock = Lock::open(&plan.store, &plan.lock, &setup) => lock?,
        signal = signals.asked_to_end() => return Ok(Exit::Signal(signal.as_raw())),
    };
    let ask = Ask { wait: plan.wait, lease: plan.lease, label: label(&plan.command) };
    let held = tokio::select! {
        held = lock.acquire(&ask) => held,
        never = teller.say_why_nothing_happens(&lock, plan.lock.kind) => match never {},
        signal = signals.asked_to_end() => {
            // Leaving the wait gives back whatever it had taken; closing makes sure of it.
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
            None => under(held, plan, signals, teller).await,
        },
        Err(error) => Err(error.into()),
    };
    lock.close().await;
    exit
}

/// The name of the command. Not its arguments: they may hold secrets, and everybody who sees the lock sees this.
fn label(command: &[OsString]) -> Option<String> {
    let name = Path::new(command.first()?).file_name()?;
    Some(name.to_string_lossy().into_owned())
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
                    "WARNING: the lock {name} is lost, somebody else may have it now; the command runs on, as --on-lost warn says"
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
            let why = match (why, plan.lease) {
                (Why::Lost, _) => "it was lost",
                (Why::Ending, Some(_)) => "its lease ended",
                (Why::Ending, None) => "it could not be renewed in time",
            };
            let how = if plan.on_lost == OnLost::Kill { "killed" } else { "stopped" };
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
            // The command ran under the lock from beginning to end; only others have to wait now.
            print::complain(&format!("{error}; the lock {name} is free when its lease ends"));
            Ok(Exit::Command(end.status))
        }
        (Ok(end), Ok(())) => Ok(Exit::Command(end.status)),
    }
}
