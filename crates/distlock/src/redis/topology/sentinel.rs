//! One primary that sentinels choose: asking them which it is, and asking that one whether it is so.
//!
//! A sentinel that was cut off goes on naming the old primary, which goes on believing it is one. So answers are ordered by
//! the count of changes they know of, and the server that is named must agree.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::{Pipeline, Value};

use super::map::{Address, Map};
use super::role::{Regulars, confirmed, text};
use super::sentinels::Sentinels;
use super::several;
use super::source::Known;
use super::survey::Answer;
use super::turns::{PATIENCE, in_turn, none};
use crate::env::BoxFuture;
use crate::error::{Error, ErrorKind, Result};
use crate::redis::connect::Dial;
use crate::redis::node::Node;
use crate::redis::refusal;
use crate::redis::target::Target;

/// No more sentinels than these are remembered beside those of the URL; nobody has as many.
const MOST: usize = 16;

/// A primary and those who watch over it.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) url: Arc<Sentinels>,
    /// Sentinels that those of the URL know of.
    others: Mutex<Vec<Target>>,
    regulars: Regulars,
}

/// What a sentinel says.
#[derive(Debug)]
struct Said {
    named: Address,
    replicas: Vec<Address>,
    /// How many changes of primary it knows of; 0 if it does not say.
    epoch: u64,
    sentinels: Vec<Address>,
}

/// What comes of asking one.
#[derive(Debug)]
enum Outcome {
    /// The one it names, or the one that follows from it, says that it is the primary.
    Confirmed(Said, Address),
    /// It names one that is not.
    Refuted(Error),
    /// It does not know of a change that is known here.
    Old(Said),
    /// It does not watch a primary of that name.
    Unknown(String),
}

impl Watched {
    pub(crate) fn new(url: Sentinels) -> Watched {
        Watched { url: Arc::new(url), others: Mutex::default(), regulars: Regulars::default() }
    }

    /// Finds the primary.
    pub(crate) async fn survey(&self, dial: &Dial, known: &Known) -> Result<Answer> {
        let all = self.url.targets.iter().chain(&*self.others()).cloned().collect();
        let mut sentinels = self.regulars.at(all, &dial.to_ask(), known);
        if !known.nodes.is_empty() {
            // One that is cut off must not be the first to be asked every time.
            super::shuffle(&*dial.env, &mut sentinels);
        }
        let count = sentinels.len();
        let questions = sentinels.into_iter().map(|sentinel| {
            let (url, dial, nodes) = (self.url.clone(), dial.clone(), known.nodes.clone());
            let question: BoxFuture<'static, Result<Outcome>> =
                Box::pin(ask(sentinel, url, dial, nodes, known.epoch));
            question
        });
        let is_good = |outcome: &Outcome| matches!(outcome, Outcome::Confirmed(..));
        let found = in_turn(&*dial.env, questions.collect(), is_good).await;
        if let Some(Outcome::Confirmed(said, primary)) = found.good {
            return Ok(self.learn(said, primary));
        }
        let (mut old, mut troubles, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
        for outcome in found.others {
            match outcome {
                Outcome::Old(said) => old.push(said),
                Outcome::Refuted(error) => troubles.push(error),
                Outcome::Unknown(place) => unknown.push(place),
                Outcome::Confirmed(..) => {}
            }
        }
        // That most of them know less is not being cut off: they were set up anew.
        if old.len() * 2 > count
            && let Some(said) = old.into_iter().max_by_key(|said| said.epoch)
        {
            let primary =
                confirmed(said.named.clone(), &self.url.server, dial, &known.nodes).await?;
            return Ok(self.learn(said, primary));
        }
        if troubles.is_empty() && !unknown.is_empty() {
            let (name, who) = (&self.url.name, unknown.join(", "));
            let text = format!("the sentinels watch no primary called {name:?}: asked {who}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        troubles.extend(found.troubles);
        let what = format!(
            "the sentinels named no server that confirms that it is the primary of {:?}",
            self.url.name
        );
        Err(none(&what, troubles))
    }

    fn others(&self) -> MutexGuard<'_, Vec<Target>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what a sentinel has said.
    fn learn(&self, said: Said, primary: Address) -> Answer {
        let mut others = self.others();
        let named = said.sentinels.iter().map(|at| self.url.sentinel(at));
        // The one that says so does not name itself, so whoever is known stays known, unless there are too many.
        let mut now: Vec<Target> = named.chain(others.drain(..)).collect();
        now.retain(|target| !self.url.targets.contains(target));
        for target in now {
            if others.len() < MOST && !others.contains(&target) {
                others.push(target);
            }
        }
        drop(others);
        let others = said.replicas.into_iter().chain([said.named]);
        let map = Map::of_one(primary, others.collect());
        Answer { map, epoch: said.epoch, sharded: false }
    }
}

async fn ask(
    sentinel: Arc<Node>,
    url: Arc<Sentinels>,
    dial: Dial,
    in_use: Vec<Arc<Node>>,
    epoch: u64,
) -> Result<Outcome> {
    let place = sentinel.links.place();
    loop {
        let said = ask_at(&sentinel, &url.name).await.map_err(|error| explained(error, &place))?;
        let said = match said {
            None => return Ok(Outcome::Unknown(place)),
            Some(said) if said.epoch < epoch => return Ok(Outcome::Old(said)),
            Some(said) => said,
        };
        let changed = async {
            loop {
                dial.env.sleep_until(dial.env.now().after(PATIENCE)).await;
                match ask_at(&sentinel, &url.name).await {
                    Ok(Some(now)) if now.named == said.named => {}
                    _ => return,
                }
            }
        };
        // A frozen server does not answer, and the sentinels find out why while it is waited for.
        return Ok(tokio::select! {
            confirmed = confirmed(said.named.clone(), &url.server, &dial, &in_use) => match confirmed {
                Ok(primary) => Outcome::Confirmed(said, primary),
                Err(error) => Outcome::Refuted(error),
            },
            () = changed => continue,
        });
    }
}

/// `None` if the sentinel does not know the name.
async fn ask_at(sentinel: &Node, name: &str) -> Result<Option<Said>> {
    const COUNT: usize = 4;
    let mut all = Pipeline::with_capacity(COUNT);
    all.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    all.cmd("SENTINEL").arg("MASTER").arg(name);
    all.cmd("SENTINEL").arg("REPLICAS").arg(name);
    all.cmd("SENTINEL").arg("SENTINELS").arg(name);
    let mut replies = sentinel.links.line().await?.send_all(&all, COUNT).await?.into_iter();
    let mut reply = || replies.next().unwrap_or_default();
    let (named, master, replicas, sentinels) = (reply(), reply(), reply(), reply());
    let asked = several::host(sentinel.links.target());
    let named = match &named {
        Value::Nil => return Ok(None),
        Value::ServerError(refused) => return Err(no_sentinel(refused)),
        Value::Array(parts) => match &parts[..] {
            [host, port] => address(text(host), text(port), asked),
            _ => None,
        },
        _ => None,
    };
    let named = named.ok_or_else(|| refusal::nonsense("SENTINEL", &master))?;
    // The others are refused to those who may not ask for them: then every answer is as good as another.
    Ok(Some(Said {
        named,
        epoch: field(&master, "config-epoch").and_then(|n| n.parse().ok()).unwrap_or_default(),
        replicas: addresses(&replicas, asked),
        sentinels: addresses(&sentinels, asked),
    }))
}

fn address(host: Option<&str>, port: Option<&str>, asked: &str) -> Option<Address> {
    Address::parse(&format!("{}:{}", host?, port?), asked)
}

/// The addresses of a list of servers.
fn addresses(reply: &Value, asked: &str) -> Vec<Address> {
    let Value::Array(servers) = reply else { return Vec::new() };
    let all = servers.iter();
    all.filter_map(|one| address(field(one, "ip"), field(one, "port"), asked)).collect()
}

/// A field of what is a map to those who speak RESP3, and a list to others.
fn field<'a>(reply: &'a Value, name: &str) -> Option<&'a str> {
    match reply {
        Value::Map(pairs) => {
            let pair = pairs.iter().find(|(field, _)| text(field) == Some(name));
            pair.and_then(|(_, value)| text(value))
        }
        Value::Array(parts) => {
            let pair = parts.chunks_exact(2).find(|pair| text(&pair[0]) == Some(name));
            pair.and_then(|pair| text(&pair[1]))
        }
        _ => None,
    }
}

fn no_sentinel(refused: &redis::ServerError) -> Error {
    let said = refused.details().unwrap_or_default();
    if said.contains("unknown command") {
        let text = "this server is not a sentinel: name sentinels in the URL, or write redis:// or redis+replicated://";
        return Error::new(ErrorKind::Config, text);
    }
    let error = refusal::of(refused);
    match error.kind() {
        ErrorKind::Config => {
            let text =
                "the user of the sentinels lacks +sentinel, which is needed to ask for the primary";
            Error::new(ErrorKind::Config, text).and(&error)
        }
        _ => error,
    }
}

/// Says where, and which credentials it is about.
fn explained(error: Error, place: &str) -> Error {
    let error = error.at(place);
    match error.kind() {
        ErrorKind::Config => {
            let hint = "the user name and password for sentinels are sentinel_user and sentinel_pass in the URL";
            Error::new(ErrorKind::Config, format!("{error}; {hint}"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn fields_are_found_in_maps_and_in_lists() {
        let map = Value::Map(vec![
            (bulk("ip"), bulk("10.0.0.1")),
            (bulk("port"), bulk("7")),
            (bulk("config-epoch"), bulk("3")),
        ]);
        let list = Value::Array(["ip", "10.0.0.1", "port", "7"].map(bulk).to_vec());
        assert_eq!(field(&map, "config-epoch"), Some("3"));
        assert_eq!(field(&list, "config-epoch"), None);
        assert_eq!(field(&Value::Nil, "ip"), None);
        let at = Address { host: "10.0.0.1".to_owned(), port: 7 };
        let all = Value::Array(vec![map, list, Value::Nil]);
        assert_eq!(addresses(&all, "asked"), [at.clone(), at]);
    }
}
