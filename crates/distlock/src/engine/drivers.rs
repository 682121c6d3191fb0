//! Which drivers are at work: a crowd of them at once would only get in each other's way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use super::Engine;
use super::drive::{Driver, drive};

/// How many drivers are at work at once. The rest waits for its turn as it rests: in a small box.
const AT_WORK: usize = 256;

/// Who is at work and who waits for a turn.
#[derive(Debug, Default)]
pub(super) struct Drivers(Mutex<(usize, VecDeque<Box<Driver>>)>);

impl Drivers {
    /// The driver back if it may go to work now.
    pub(super) fn admit(&self, mut driver: Box<Driver>) -> Option<Box<Driver>> {
        let mut drivers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if drivers.0 >= AT_WORK {
            drivers.1.push_back(driver);
            return None;
        }
        drivers.0 += 1;
        driver.turn = Some(Turn(driver.engine.clone()));
        Some(driver)
    }

    /// One is done: the next may begin.
    fn next(&self) -> Option<Box<Driver>> {
        let mut drivers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = drivers.1.pop_front();
        if next.is_none() {
            drivers.0 = drivers.0.saturating_sub(1);
            drivers.1 = VecDeque::new(); // a crowd is over: its room is given back
        }
        next
    }
}

/// A driver's turn at work; ends however its work ends.
#[derive(Debug)]
pub(super) struct Turn(Arc<Engine>);

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(mut next) = self.0.drivers.next() {
            next.turn = Some(Turn(self.0.clone()));
            self.0.env.spawn(Box::pin(drive(next)));
        }
    }
}
