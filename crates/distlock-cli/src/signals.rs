//! Signals that ask us to end.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that ask a program to end, each as a stream; `None` where whoever started us had it ignored.
pub(crate) struct Signals {
    streams: [(Signal, Option<unix::Signal>); 4],
    /// Caught, and then disregarded: see [`Signals::refuse_suspension`].
    suspend: Option<unix::Signal>,
}

impl Signals {
    pub(crate) fn new() -> io::Result<Signals> {
        // `nohup` and shells that start background jobs ignore signals on purpose, and what we run inherits that.
        let ignored = ignored();
        let stream = |signal: Signal| -> io::Result<(Signal, Option<unix::Signal>)> {
            if ignored & (1 << (signal.as_raw() - 1)) != 0 {
                return Ok((signal, None));
            }
            Ok((signal, Some(unix::signal(SignalKind::from_raw(signal.as_raw()))?)))
        };
        let streams = [
            stream(Signal::TERM)?,
            stream(Signal::INT)?,
            stream(Signal::HUP)?,
            stream(Signal::QUIT)?,
        ];
        Ok(Signals { streams, suspend: None })
    }

    /// From now on Ctrl-Z does not stop us: a stopped holder cannot renew its lock, nor end a command that does
    /// not stop with it.
    pub(crate) fn refuse_suspension(&mut self) -> io::Result<()> {
        self.suspend = Some(unix::signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?);
        Ok(())
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn recv(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.streams {
                let Some(stream) = stream else { continue };
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// The mask of ignored signals, as far as the system tells.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
