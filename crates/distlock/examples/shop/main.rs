//! A shop: sign-ups and payments with axum and SQLite, behind locks; and a storm of requests that it must stand.
//!
//! ```text
//! cargo run --release --example shop [-- URL]
//! ```
//!
//! Two instances of the service share a database and the locks (`memory:` unless a URL says otherwise). The storm comes over
//! real HTTP, to both at once: first to routes without a lock, then to those with one. See `service.rs` for how to use
//! `#[locked]`, the tower layer and the axum extractor; the lock is always outside, the transaction inside.

mod client;
mod database;
mod service;

use std::error::Error;
use std::net::SocketAddr;
use std::process::ExitCode;

use client::{Reply, post, storm};
use database::Database;
use distlock::Locks;
use service::Shop;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CLICKS: u32 = 40;
const START: i64 = 1000;
const PRICE: i64 = 30;

#[tokio::main]
async fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let url = args.next().unwrap_or_else(|| "memory:shop".to_owned());
    match open_and_storm(&url).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shop: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn open_and_storm(url: &str) -> Outcome<()> {
    let database = Database::create()?;
    let prefix = format!("shop-{}:", std::process::id());
    let (mut addresses, mut all) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let locks = Locks::builder().url(url).prefix(&prefix).connect().await?;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?);
        let shop = Shop::new(locks.clone(), database.clone());
        all.push((locks, shop.clone()));
        tokio::spawn(async move { axum::serve(listener, shop.routes()).await });
    }
    println!("two instances of the shop at {addresses:?} with {:?}", all[0].0);

    without_locks(&addresses, &database).await?;
    sign_ups(&addresses, &database).await?;
    payments(&addresses, &database).await?;
    withdrawals(&addresses, &database).await?;

    for (locks, _) in &all {
        let left = locks.list("").await?;
        check(left.is_empty(), format!("still locked: {left:?}"))?;
    }
    for (locks, _) in &all {
        locks.close().await;
    }
    println!("ok: one sign-up per address, and every balance is right");
    Ok(())
}

/// What goes wrong otherwise: not always, which is what makes it hard to find.
async fn without_locks(at: &[SocketAddr], database: &Database) -> Outcome<()> {
    for attempt in 1..=50 {
        let email = format!("eve{attempt}@example.com");
        storm(at, CLICKS, |_| format!("/careless/sign-up/{email}")).await?;
        let (members, mails) = database.members(&email)?;
        if members > 1 {
            println!("without a lock: {CLICKS} clicks made {members} members and {mails} mails");
            return Ok(());
        }
    }
    Err("nothing went wrong without a lock: this shows nothing".into())
}

/// Forty clicks on "sign up" are one member, and one welcome mail.
async fn sign_ups(at: &[SocketAddr], database: &Database) -> Outcome<()> {
    let replies = storm(at, CLICKS, |_| "/sign-up/ann@example.com".to_owned()).await?;
    let created = count(&replies, 201);
    let (members, mails) = database.members("ann@example.com")?;
    println!("#[locked]: {CLICKS} clicks made {members} member and {mails} welcome mail");
    check(created == 1 && members == 1 && mails == 1, format!("{created} were created"))?;
    check(count(&replies, 200) == CLICKS - 1, "the others were not told that they are members")
}

/// Payments wait for each other: as many go through as there is money for.
async fn payments(at: &[SocketAddr], database: &Database) -> Outcome<()> {
    database.open_account("layer", START)?;
    let replies = storm(at, CLICKS, |_| format!("/pay/layer/{PRICE}")).await?;
    let (paid, refused) = (count(&replies, 200), count(&replies, 402));
    let (balance, booked) = database.account("layer")?;
    println!("tower layer: {paid} of {CLICKS} payments of {PRICE} out of {START}; {balance} left");
    let affordable = u32::try_from(START / PRICE)?;
    check(paid == affordable && paid + refused == CLICKS, format!("{paid} and {refused}"))?;
    check(balance == START - PRICE * i64::from(paid), "the balance is wrong")?;
    check(booked == paid, format!("{booked} are in the book"))
}

/// Withdrawals do not wait: who clicks twice is told to come back.
async fn withdrawals(at: &[SocketAddr], database: &Database) -> Outcome<()> {
    database.open_account("extractor", START)?;
    let replies = storm(at, CLICKS, |_| "/withdraw/extractor/1".to_owned()).await?;
    let (paid, locked) = (count(&replies, 200), count(&replies, 423));
    let (balance, booked) = database.account("extractor")?;
    println!("axum extractor: {paid} withdrawals, {locked} turned away with 423; {balance} left");
    check(paid + locked == CLICKS && paid > 0 && locked > 0, format!("{paid} and {locked}"))?;
    check(balance == START - i64::from(paid) && booked == paid, "the balance is wrong")?;
    let turned_away = replies.iter().filter(|reply| reply.status == 423);
    let told = turned_away.filter(|reply| reply.retry_after.is_some_and(|seconds| seconds >= 1));
    check(told.count() == locked as usize, "somebody was not told when to come back")?;
    // And now that nobody is in the way:
    let again = post(at[0], "/withdraw/extractor/1").await?;
    check(again.status == 200, format!("{} although nobody is there", again.status))
}

fn count(replies: &[Reply], status: u16) -> u32 {
    replies.iter().map(|reply| u32::from(reply.status == status)).sum()
}

fn check(is_so: bool, otherwise: impl Into<String>) -> Outcome<()> {
    if is_so { Ok(()) } else { Err(otherwise.into().into()) }
}
