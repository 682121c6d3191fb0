//! `distlock watch`: who holds what, live.

mod board;
mod look;
mod screen;
mod terminal;

use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::exit::{Exit, Failure};
use crate::plan::Watch;
use crate::print;
use crate::signals::Signals;
use board::Board;
use look::{Eyes, Sight};
use screen::Screen;
use terminal::Key;

pub(super) async fn watch(plan: Watch) -> Result<Exit, Failure> {
    let mut signals = Signals::new().map_err(|cause| Failure::System("catch signals", cause))?;
    let eyes = Eyes::open(&plan).await?;
    let (sights, looking) = keep_looking(eyes, plan.interval, plan.count);
    let board = Board::new(plan.store.place());
    let end = match plan.json {
        true => in_lines(board, sights, &mut signals).await,
        false => on_screen(board, sights, &mut signals, plan.interval).await,
    };
    match end? {
        End::Seen => match looking.await {
            Ok(()) => Ok(Exit::Done),
            Err(cause) => Err(Failure::System("poll the store", cause.into())),
        },
        End::Enough => Ok(Exit::Done),
        End::Signal(signal) => Ok(Exit::Signal(signal.as_raw())),
    }
}

/// Why it ended.
enum End {
    /// There is nothing more to see.
    Seen,
    /// The user, or the reader of the output, wants no more.
    Enough,
    Signal(Signal),
}

/// Reads the store in a task of its own: a store that does not answer must not keep the screen from scrolling.
fn keep_looking(
    eyes: Eyes,
    interval: Duration,
    count: Option<u64>,
) -> (mpsc::Receiver<Sight>, JoinHandle<()>) {
    let (sender, sights) = mpsc::channel(1);
    let looking = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut left = count;
        while left != Some(0) {
            ticks.tick().await;
            if sender.send(eyes.look().await).await.is_err() {
                return;
            }
            left = left.map(|left| left - 1);
        }
        eyes.close().await;
    });
    (sights, looking)
}

async fn in_lines(
    mut board: Board,
    mut sights: mpsc::Receiver<Sight>,
    signals: &mut Signals,
) -> Result<End, Failure> {
    let lines = async {
        while let Some(sight) = sights.recv().await {
            board.add(sight);
            let line = format!("{}\n", board.json());
            // On another thread: a reader that does not read on must not keep signals from ending us.
            let read = tokio::task::spawn_blocking(move || print::out_while_read(&line)).await;
            // The reader may want no more: `distlock watch --json | head`.
            if !read
                .map_err(|cause| Failure::System("write to standard output", cause.into()))??
            {
                return Ok(End::Enough);
            }
        }
        Ok(End::Seen)
    };
    tokio::select! {
        end = lines => end,
        signal = signals.recv() => Ok(End::Signal(signal)),
    }
}

async fn on_screen(
    mut board: Board,
    mut sights: mpsc::Receiver<Sight>,
    signals: &mut Signals,
    interval: Duration,
) -> Result<End, Failure> {
    let cannot = |cause| Failure::System("draw on the terminal", cause);
    // Before the first drawing, or a change of the size in between would be missed.
    let mut resized = unix::signal(SignalKind::window_change())
        .map_err(|cause| Failure::System("catch signals", cause))?;
    let mut screen = Screen::open().map_err(cannot)?;
    let mut keys = terminal::keys().map_err(|cause| Failure::System("start a thread", cause))?;
    // What is shown as a time since goes on while nothing comes in.
    let mut ticks = tokio::time::interval(interval.max(Duration::from_secs(1)));
    loop {
        screen.draw(&board).map_err(cannot)?;
        tokio::select! {
            sight = sights.recv() => match sight {
                Some(sight) => board.add(sight),
                None => return Ok(End::Seen),
            },
            key = keys.recv() => match key {
                // Not `Seen`: the task that reads the store may sleep for a whole interval.
                Some(Key::Quit) | None => return Ok(End::Enough),
                Some(Key::Scroll(step)) => screen.scroll(step),
                Some(Key::Redraw) => screen.clear(),
            },
            // The terminal may have lost what it showed.
            _ = resized.recv() => screen.clear(),
            _ = ticks.tick() => {}
            signal = signals.recv() => return Ok(End::Signal(signal)),
        }
    }
}
