//! Signals that ask us to end, and those that are meant for the command.

use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// The signals that ask a program to end.
const END: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];

/// Those that mean whatever a program says they mean. Uncaught they would end us, and the command with us.
const ITS_OWN: [Signal; 2] = [Signal::USR1, Signal::USR2];

/// Signals, each as a stream; without those that were ignored when this process started.
pub(crate) struct Signals {
    streams: Vec<(Signal, unix::Signal)>,
    /// Caught, and then disregarded: see [`Signals::refuse_suspension`].
    suspend: Option<unix::Signal>,
    /// Caught, and then disregarded: see [`Signals::for_a_command`].
    children: Option<unix::Signal>,
}

impl Signals {
    /// Those that ask us to end.
    pub(crate) fn new() -> io::Result<Signals> {
        Signals::of(&END)
    }

    /// The same and those that a command may want to have, for who runs one.
    pub(crate) fn for_a_command() -> io::Result<Signals> {
        let mut signals = Signals::of(&[&END[..], &ITS_OWN].concat())?;
        // Some daemons ignore it, and what they start inherits that: then the end of a command is not reported.
        signals.children = Some(unix::signal(SignalKind::child())?);
        Ok(signals)
    }

    fn of(signals: &[Signal]) -> io::Result<Signals> {
        // `nohup` and shells that start background jobs ignore signals on purpose, and what we run inherits that.
        let ignored = ignored();
        let heard = signals.iter().filter(|signal| ignored & (1 << (signal.as_raw() - 1)) == 0);
        let stream = |signal: &Signal| -> io::Result<(Signal, unix::Signal)> {
            Ok((*signal, unix::signal(SignalKind::from_raw(signal.as_raw()))?))
        };
        let streams = heard.map(stream).collect::<io::Result<_>>()?;
        Ok(Signals { streams, suspend: None, children: None })
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
                if stream.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*signal);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    /// The next signal that asks us to end. Signals for a command are dropped while there is none. Cancel safe.
    pub(crate) async fn asked_to_end(&mut self) -> Signal {
        loop {
            let signal = self.recv().await;
            if END.contains(&signal) {
                return signal;
            }
        }
    }

    /// What has asked us to end by now; whatever else came is forgotten. For the moment before a command is there: what came until
    /// then was not meant for it, and does not come again.
    pub(crate) async fn asked_by_now(&mut self) -> Option<Signal> {
        // Signals that have come are told with the next turn of the runtime.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            signal = self.asked_to_end() => Some(signal),
            () = std::future::ready(()) => None,
        }
    }
}

/// The mask of ignored signals, as far as the system tells.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
