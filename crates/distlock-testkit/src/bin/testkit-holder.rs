//! A process that holds a lock until it is killed or its input ends.
//!
//! `testkit-holder URL WATCHDOG_MS NAME` says `held OWNER`, and `released` at its end.

use std::io::Read;
use std::time::Duration;

use distlock::Locks;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [url, watchdog, name] = &args[..] else { panic!("URL WATCHDOG_MS NAME") };
    let watchdog = Duration::from_millis(watchdog.parse().expect("a number of milliseconds"));
    let builder = Locks::builder().url(url).watchdog(watchdog);
    let locks = builder.connect_blocking().expect("the store can be opened");
    let guard = locks.mutex(name).lock().blocking().expect("the lock gets free");
    println!("held {}", guard.owner());
    let mut rest = String::new();
    // However the input ends, it has ended.
    let _ = std::io::stdin().read_to_string(&mut rest);
    guard.unlock_blocking().expect("it was held");
    println!("released");
}
