//! What `run` says about the lock while nothing else is to be seen.

use std::convert::Infallible;
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use distlock::{Event, Observer, Subject};
use tokio::time::sleep;

use crate::args::Kind;
use crate::duration::show;
use crate::lock::Lock;
use crate::print;
use crate::view;

/// After this time without output a user wonders what is going on.
const PUZZLEMENT: Duration = Duration::from_secs(1);

/// One who asked for every detail wonders sooner; a lock that is free is had by then.
const CURIOSITY: Duration = Duration::from_millis(100);

/// Tells everything if asked to (`--verbose`), and otherwise only what people at a terminal wonder about.
pub(super) struct Teller {
    loud: Option<(Lines, JoinHandle<()>)>,
}

impl Teller {
    pub(super) fn new(verbose: bool) -> io::Result<Teller> {
        if !verbose {
            return Ok(Teller { loud: None });
        }
        // The engine must not wait for the reader of standard error.
        let (sender, lines) = mpsc::channel::<Option<String>>();
        let writer = thread::Builder::new().name("distlock-verbose".into()).spawn(move || {
            while let Ok(Some(line)) = lines.recv() {
                print::complain(&line);
            }
        })?;
        Ok(Teller { loud: Some((Lines(sender), writer)) })
    }

    /// Who gets what the library observes.
    pub(super) fn observer(&self) -> Option<Arc<dyn Observer>> {
        self.loud.as_ref().map(|(lines, _)| Arc::new(lines.clone()) as Arc<dyn Observer>)
    }

    pub(super) fn say(&self, line: &str) {
        if let Some((lines, _)) = &self.loud {
            lines.say(line.to_owned());
        }
    }

    /// Says something that a user at a terminal wants to know, and one who asked for every detail.
    pub(super) fn say_at_once(&self, line: &str) {
        match &self.loud {
            Some(_) => self.say(line),
            None if io::stderr().is_terminal() => print::complain(line),
            None => {}
        }
    }

    /// Says which holder it waits for, and again when that changes.
    pub(super) async fn say_why_nothing_happens(&self, lock: &Lock, kind: Kind) -> Infallible {
        let mut pause = match &self.loud {
            Some(_) => CURIOSITY,
            None if io::stderr().is_terminal() => PUZZLEMENT,
            None => return std::future::pending().await,
        };
        let mut known = None;
        loop {
            sleep(pause).await;
            if let Ok(seen) = lock.inspect().await
                && let Some(why) = view::why_wait(kind, &seen)
            {
                let whom: Vec<String> = seen.holders.into_iter().map(|h| h.owner).collect();
                if known.as_ref() != Some(&whom) {
                    known = Some(whom);
                    match &self.loud {
                        Some(_) => self.say(&why),
                        None => print::complain(&why),
                    }
                }
            }
            if self.loud.is_none() {
                return std::future::pending().await;
            }
            pause = PUZZLEMENT;
        }
    }

    /// Waits until all is written.
    pub(super) fn finish(self) {
        if let Some((lines, writer)) = self.loud {
            let _ = lines.0.send(None);
            let _ = writer.join();
        }
    }
}

/// Where lines go; `None` is the last.
#[derive(Clone, Debug)]
struct Lines(Sender<Option<String>>);

impl Lines {
    fn say(&self, line: String) {
        // What comes after the last line is dropped.
        let _ = self.0.send(Some(line));
    }
}

impl Observer for Lines {
    fn observe(&self, lock: Subject<'_>, event: Event) {
        let name = || print::name(lock.name);
        let line = match event {
            Event::Acquired { waited } => format!("acquired {} after {}", name(), show(waited)),
            Event::GaveUp { waited } => format!("gave up on {} after {}", name(), show(waited)),
            Event::Released { held } => format!("released {} after {}", name(), show(held)),
            Event::Renewed => format!("renewed {}", name()),
            Event::Suspect => {
                format!("in doubt about {}: a renewal got no reply and is sent again", name())
            }
            Event::Lost => format!("lost {}", name()),
            Event::NotDurable => {
                format!("too few replicas acknowledged {}: the acquire was rolled back", name())
            }
            Event::Reconnected => "connected to the server again".to_owned(),
            // Attempts are no news, and waiters that poll make many a second.
            _ => return,
        };
        self.say(line);
    }
}
