//! A test process of its own for the tests of the kit: `testkit-borrower ground` or `testkit-borrower pair` uses what the
//! host at `DISTLOCK_SERVERS` lends, says whose it was and waits for the end of its input.

use std::io::{Read, Write, stdin, stdout};

use distlock_testkit::Pair;
use distlock_testkit::peer::{Kind, Site, Version};
use distlock_testkit::server::Flavor;
use distlock_testkit::suites::{Ground, Site as Store};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("ground") => ground().await,
        Some("pair") => pair().await,
        _ => panic!("usage: testkit-borrower ground|pair"),
    }
}

/// Takes a lock as a user that is made for this process.
async fn ground() -> std::io::Result<()> {
    let ground = Ground::at(Store::Acl(Flavor::Redis)).expect("Redis is installed");
    let locks = ground.open().await;
    let guard = locks.mutex(ground.name("k")).lock().await.expect("the lock is free");
    let server = ground.server().expect("this store is a server");
    writeln!(stdout(), "uses {} {}", server.pid(), ground.prefix())?;
    wait_for_the_end()?;
    guard.unlock().await.expect("the lock is held");
    drop(locks);
    ground.assert_clean().await;
    Ok(())
}

/// Passes a lock from Java to Rust.
async fn pair() -> std::io::Result<()> {
    let Some(pair) = Pair::at(Version::Newest, Site::One).await else { return Ok(()) };
    let (java, name) = (pair.java("a"), pair.name("k"));
    java.lock(Kind::Plain, &name).await;
    java.unlock(Kind::Plain, &name).await;
    let locks = pair.rust().await;
    let guard = locks.mutex(&name).lock().await.expect("Java has released it");
    guard.unlock().await.expect("the lock is held");
    let second = pair.second_peer().await.uuid();
    writeln!(stdout(), "uses {} {} {second}", pair.server().pid(), pair.peer().uuid())?;
    wait_for_the_end()?;
    pair.assert_clean().await;
    Ok(())
}

fn wait_for_the_end() -> std::io::Result<()> {
    stdin().read_to_end(&mut Vec::new()).map(drop)
}
