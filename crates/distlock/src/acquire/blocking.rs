//! [`block_on`]: for programs without a runtime.

use std::future::{Future, IntoFuture};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use crate::env;
use crate::guard::nesting;

/// Waits for something of this library on the calling thread; no runtime is needed.
///
/// The most frequent operations have a method of their own: [`Acquire::blocking`](crate::Acquire::blocking), [`Acquire::run_blocking`](crate::Acquire::run_blocking),
/// [`Guard::unlock_blocking`](crate::Guard::unlock_blocking), [`Locks::connect_blocking`](crate::Locks::connect_blocking). This is for all
/// others: queries, counts, latches, closing. Not for use inside async code, where it would stop the other tasks of the thread.
///
/// ```
/// use distlock::{Locks, block_on};
///
/// let locks = Locks::connect_blocking("memory:")?;
/// let guard = locks.mutex("k").lock().blocking()?;
/// assert!(block_on(locks.mutex("k").is_locked())?);
/// guard.unlock_blocking()?;
///
/// let latch = locks.latch("ready");
/// block_on(latch.init(1))?;
/// std::thread::scope(|threads| {
///     threads.spawn(|| block_on(latch.count_down()));
///     block_on(latch.wait())
/// })?;
/// block_on(locks.close());
/// # Ok::<(), distlock::Error>(())
/// ```
pub fn block_on<F: IntoFuture>(work: F) -> F::Output {
    struct Parked {
        thread: Thread,
        /// The work may park this thread for reasons of its own and consume an `unpark`; it cannot consume this.
        woken: AtomicBool,
    }

    impl Wake for Parked {
        fn wake(self: Arc<Self>) {
            self.woken.store(true, Ordering::Release);
            self.thread.unpark();
        }
    }

    // Timers and connections are kept by the library's own thread; this one only waits.
    let _inside = env::background().as_ref().map(|own| own.enter());
    let parked = Arc::new(Parked { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(parked.clone());
    let (mut work, mut cx) =
        (pin!(nesting::carried(work.into_future())), Context::from_waker(&waker));
    loop {
        match work.as_mut().poll(&mut cx) {
            Poll::Ready(done) => return done,
            Poll::Pending => {
                while !parked.woken.swap(false, Ordering::AcqRel) {
                    std::thread::park();
                }
            }
        }
    }
}
