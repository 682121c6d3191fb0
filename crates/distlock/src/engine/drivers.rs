//! Which drivers are at work: a crowd of them at once would only get in each other's way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Engine;
use super::drive::{Driver, drive};
use super::shares::Shares;
use crate::env::Env;

/// How many drivers of one share are at work at once. The rest waits for its turn as it rests: in a small box.
const AT_WORK: usize = 256;

/// Who is at work and who waits for a turn, in each share: those who wait for an answer of a server that gives none are
/// in nobody else's way.
#[derive(Debug, Default)]
pub(super) struct Drivers(Shares<Mutex<Share>>);

#[derive(Debug, Default)]
struct Share {
    at_work: usize,
    waiting: VecDeque<Box<Driver>>,
}

impl Drivers {
    fn share(&self, at: usize) -> MutexGuard<'_, Share> {
        self.0.at(at).lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver back if it may go to work now.
    pub(super) fn admit(&self, mut driver: Box<Driver>) -> Option<Box<Driver>> {
        let at = driver.engine.store.failure_domain(driver.name());
        let mut share = self.share(at);
        if share.at_work >= AT_WORK {
            share.waiting.push_back(driver);
            return None;
        }
        share.at_work += 1;
        driver.turn = Some(Turn { engine: driver.engine.clone(), share: at });
        Some(driver)
    }

    /// One is done: the next may begin.
    fn next(&self, at: usize) -> Option<Box<Driver>> {
        let mut share = self.share(at);
        let next = share.waiting.pop_front();
        if next.is_none() {
            share.at_work = share.at_work.saturating_sub(1);
            share.waiting = VecDeque::new(); // a crowd is over: its room is given back
        }
        next
    }
}

/// A driver's turn at work; ends however its work ends.
#[derive(Debug)]
pub(super) struct Turn {
    engine: Arc<Engine>,
    /// The one it was given in: the lock may be at another server by now.
    share: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(mut next) = self.engine.drivers.next(self.share) {
            next.turn = Some(Turn { engine: self.engine.clone(), share: self.share });
            set_to_work(&*self.engine.env, next);
        }
    }
}

/// A runtime that shuts down drops what it is given on the spot. If that were the driver, its turn would end there and be
/// given to the next one, and so on, one within the other, until the stack is full. So what is spawned only shares it, and a
/// driver that was not taken goes where no shutdown reaches it.
fn set_to_work(env: &dyn Env, driver: Box<Driver>) {
    let offered = Arc::new(Mutex::new(Some(driver)));
    let take = |offered: &Mutex<Option<Box<Driver>>>| {
        offered.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let shared = offered.clone();
    env.spawn(Box::pin(async move {
        if let Some(driver) = take(&shared) {
            drive(driver).await;
        }
    }));
    if Arc::strong_count(&offered) == 1
        && let Some(driver) = take(&offered)
    {
        env.spawn_background(Box::pin(drive(driver)));
    }
}
