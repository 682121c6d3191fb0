//! Which command meets which fault.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::late::{HeldBack, Holding, Late, hold_back};

/// How long [`Rule::fired`] waits.
const PATIENCE: Duration = Duration::from_secs(30);

/// A command on its way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    args: Vec<Vec<u8>>,
}

impl Request {
    pub(super) fn new(args: Vec<Vec<u8>>) -> Self {
        Request { args }
    }

    /// The command's name in upper case.
    pub fn name(&self) -> String {
        let name = self.args.first().map(Vec::as_slice).unwrap_or_default();
        String::from_utf8_lossy(name).to_ascii_uppercase()
    }

    /// Every argument, the name first.
    pub fn args(&self) -> &[Vec<u8>] {
        &self.args
    }

    /// Whether `token` occurs in one of the arguments.
    pub fn contains(&self, token: impl AsRef<[u8]>) -> bool {
        let token = token.as_ref();
        token.is_empty()
            || self.args.iter().any(|arg| arg.windows(token.len()).any(|part| part == token))
    }

    /// Whether it belongs to the opening of a connection rather than to its use.
    pub fn is_handshake(&self) -> bool {
        matches!(self.name().as_str(), "HELLO" | "AUTH" | "CLIENT" | "SELECT" | "READONLY")
    }
}

/// Says which commands are meant.
#[derive(Clone)]
pub struct Match(Arc<dyn Fn(&Request) -> bool + Send + Sync>);

impl Match {
    /// What the function says.
    pub fn by(matches: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        Match(Arc::new(matches))
    }

    /// Every command, but for those that open a connection.
    pub fn any() -> Self {
        Self::by(|request| !request.is_handshake())
    }

    /// By the command's name, in any case: `EVALSHA`.
    pub fn command(name: impl Into<String>) -> Self {
        let name = name.into().to_ascii_uppercase();
        Self::by(move |request| request.name() == name)
    }

    /// By something that occurs in an argument: a lock's name, a script's hash, an owner.
    pub fn token(token: impl Into<Vec<u8>>) -> Self {
        let token = token.into();
        Self::by(move |request| request.contains(&token))
    }

    /// Both must match.
    #[must_use]
    pub fn and(self, other: impl Into<Match>) -> Self {
        let other = other.into();
        Self::by(move |request| self.matches(request) && other.matches(request))
    }

    /// The others.
    #[must_use]
    pub fn negate(self) -> Self {
        Self::by(move |request| !self.matches(request))
    }

    /// Whether this command is meant.
    pub fn matches(&self, request: &Request) -> bool {
        (self.0)(request)
    }
}

/// A string is a [`token`](Match::token).
impl From<&str> for Match {
    fn from(token: &str) -> Self {
        Match::token(token)
    }
}

impl fmt::Debug for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Match(..)")
    }
}

/// A fault that was asked for, or a watch: tells when it has struck.
#[derive(Clone, Debug)]
pub struct Rule {
    hits: watch::Receiver<u64>,
}

impl Rule {
    /// How often it has struck so far.
    pub fn hits(&self) -> u64 {
        *self.hits.borrow()
    }

    /// Waits until it has struck `times` times in all.
    ///
    /// # Panics
    /// When it has not after 30 s.
    pub async fn fired(&self, times: u64) {
        let mut hits = self.hits.clone();
        let reached = hits.wait_for(|hits| *hits >= times);
        match tokio::time::timeout(PATIENCE, reached).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => panic!("the rule was withdrawn after {} of {times} hits", self.hits()),
            Err(_) => panic!("{} of {times} hits after {PATIENCE:?}", self.hits()),
        }
    }
}

/// What happens to a command that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Watch,
    DropRequest,
    DeliverLate,
    SwallowReply,
    ResetInsteadOfReply,
}

/// A fault together with where to report that it struck.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    pub(super) fault: Fault,
    hits: watch::Sender<u64>,
    /// Where the test gets what is held back, if the fault is [`Fault::DeliverLate`].
    held: Option<mpsc::UnboundedSender<HeldBack>>,
}

impl Strike {
    /// Gives the test a request to deliver later.
    pub(super) fn hold_back(&self) -> Holding {
        let (held, holding) = hold_back();
        // Without the test's end nothing is ever delivered, and `holding` says so.
        let _ = self.held.as_ref().map(|to| to.send(held));
        self.report();
        holding
    }

    pub(super) fn report(&self) {
        self.hits.send_modify(|hits| *hits += 1);
    }
}

/// The rules in force, oldest first.
#[derive(Debug, Default)]
pub(super) struct Rules {
    active: Vec<Active>,
}

#[derive(Debug)]
struct Active {
    matcher: Match,
    left: u64,
    strike: Strike,
}

impl Rules {
    pub(super) fn add(&mut self, matcher: Match, fault: Fault, times: u64) -> Rule {
        self.add_strike(matcher, fault, times, None)
    }

    pub(super) fn add_late(&mut self, matcher: Match, times: u64) -> Late {
        let (sender, held) = mpsc::unbounded_channel();
        Late::new(self.add_strike(matcher, Fault::DeliverLate, times, Some(sender)), held)
    }

    fn add_strike(
        &mut self,
        matcher: Match,
        fault: Fault,
        times: u64,
        held: Option<mpsc::UnboundedSender<HeldBack>>,
    ) -> Rule {
        let (hits, receiver) = watch::channel(0);
        self.active.push(Active { matcher, left: times, strike: Strike { fault, hits, held } });
        Rule { hits: receiver }
    }

    pub(super) fn clear(&mut self) {
        self.active.clear();
    }

    /// Reports to every watch, and gives the first fault meant for this command; none on a
    /// connection already `broken`, where nothing is left to strike.
    pub(super) fn decide(&mut self, request: &Request, broken: bool) -> Option<Strike> {
        let mut struck: Option<Strike> = None;
        for rule in self.active.iter_mut().filter(|rule| rule.left > 0) {
            let watch = rule.strike.fault == Fault::Watch;
            if (!watch && (broken || struck.is_some())) || !rule.matcher.matches(request) {
                continue;
            }
            rule.left -= 1;
            if watch {
                rule.strike.report();
            } else {
                struck = Some(rule.strike.clone());
            }
        }
        struck
    }
}
