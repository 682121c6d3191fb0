//! One of several processes of a service: `teller PROFILE DATABASE ORDER`, the order being `outside`, `inside` or `none`.
//!
//! A command a line, an answer a line:
//!
//! ```text
//! meet                     meeting                 (from now on every transaction stops before its commit, and says `met`)
//! go                       going                   (those that have met go on, and nobody stops any more)
//! sign-up EMAIL TASKS      later: done yes=N no=N  (so many at once)
//! pay ACCOUNT AMOUNT TASKS later: done yes=N no=N
//! ```
//! It closes its locks and ends when its input does.

use std::path::Path;
use std::sync::Arc;

use distlock_testkit::service::{Database, Doorman, Order, Outcome, Service};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tokio::sync::watch;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [profile, database, order] = args.as_slice() else {
        return Err("teller PROFILE DATABASE ORDER".into());
    };
    let order = match order.as_str() {
        "outside" => Order::LockOutside,
        "inside" => Order::LockInside,
        "none" => Order::NoLock,
        other => return Err(format!("no such order: {other}").into()),
    };
    let doorman = Doorman::of(profile).await?;
    let gate = Arc::new(watch::Sender::new(true));
    let service = Service::new(doorman.clone(), Database::open(Path::new(database)));
    let service = service.order(order).before_commit({
        let gate = gate.clone();
        move || pass(gate.subscribe())
    });

    println!("ready");
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["meet"] => {
                gate.send_replace(false);
                println!("meeting");
            }
            ["go"] => {
                gate.send_replace(true);
                println!("going");
            }
            ["sign-up", email, tasks] => {
                crowd(&service, Question::SignUp((*email).to_owned()), tasks.parse()?);
            }
            ["pay", account, amount, tasks] => {
                let question = Question::Pay((*account).to_owned(), amount.parse()?);
                crowd(&service, question, tasks.parse()?);
            }
            _ => return Err(format!("no such command: {line}").into()),
        }
    }
    doorman.close().await;
    Ok(())
}

/// Waits before a closed gate.
async fn pass(mut gate: watch::Receiver<bool>) {
    if !*gate.borrow_and_update() {
        println!("met");
        // The other end lives as long as the process.
        let _ = gate.wait_for(|open| *open).await;
    }
}

/// What everybody in a crowd asks for.
#[derive(Clone)]
enum Question {
    SignUp(String),
    Pay(String, i64),
}

impl Question {
    async fn ask(self, service: Service) -> Outcome<bool> {
        match self {
            Question::SignUp(email) => service.sign_up(&email).await,
            Question::Pay(account, amount) => service.pay(&account, amount).await,
        }
    }
}

/// So many tasks at once; says how they fared when all have.
fn crowd(service: &Service, question: Question, tasks: usize) {
    let mut crowd: JoinSet<_> = (0..tasks).map(|_| question.clone().ask(service.clone())).collect();
    tokio::spawn(async move {
        let (mut yes, mut no) = (0, 0);
        while let Some(outcome) = crowd.join_next().await {
            match outcome {
                Ok(Ok(true)) => yes += 1,
                Ok(Ok(false)) => no += 1,
                Ok(Err(trouble)) => println!("trouble {trouble}"),
                Err(panic) => println!("trouble {panic}"),
            }
        }
        println!("done yes={yes} no={no}");
    });
}
