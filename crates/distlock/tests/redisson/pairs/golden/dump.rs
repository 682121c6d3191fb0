//! What stands on the server under one name, with the name and its owners replaced.

use std::collections::BTreeMap;

use distlock::Owner;
use distlock_testkit::Server;

use super::Known;

/// Times closer than this are the same: a busy machine lies between two steps.
pub(super) const SLACK: i64 = 10_000;

/// Redisson's permits without a lease end at this time.
const FOR_EVER: i64 = 922_337_203_685_477;

/// Redisson's notes to itself that an unlock has happened: their keys begin so.
const JAVAS_ALONE: &str = "redisson_unlock_latch:";
/// Our own keys, which Redisson never looks at: the writer that readers stand behind, who has permits of a plain semaphore, and
/// the answer to a count-down. See `redis/wire.rs`.
const OURS_ALONE: [&str; 3] = ["L}:distlock_writer", "L}:distlock_permits", "L}:distlock_counted:"];
/// The counter of tokens. Ours are at least the server's time, so values are not compared; but they must be numbers, and grow.
const TOKEN: &str = "redisson_lock_token:{L}";

/// A name, and what its owners are called here.
pub(super) struct Side {
    pub(super) name: String,
    owners: Vec<(String, &'static str)>,
    clients: Vec<(String, &'static str)>,
    token: u64,
}

/// The keys under a name, and who listens.
#[derive(Debug)]
pub(super) struct Dump {
    keys: BTreeMap<String, Key>,
    channels: Vec<String>,
    token: u64,
}

#[derive(Debug)]
struct Key {
    kind: String,
    life: Option<i64>,
    /// In the order of a list, by name in a hash, by name and time in a sorted set.
    parts: Vec<(String, Part)>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Text(String),
    /// A moment, in ms from now.
    Time(i64),
}

impl Side {
    pub(super) fn new(name: &str) -> Side {
        Side { name: name.to_owned(), owners: Vec::new(), clients: Vec::new(), token: 0 }
    }

    /// This owner is called so.
    pub(super) fn call(&mut self, owner: &str, letter: &'static str) {
        self.owners.push((owner.to_owned(), letter));
    }

    /// Every owner of this client is called so: each of its stays has a number of its own.
    pub(super) fn call_all(&mut self, owner: &Owner, letter: &'static str) {
        let owner = owner.to_string();
        let (client, _) = owner.split_once(':').expect("client:number");
        self.clients.push((format!("{client}:"), letter));
    }

    /// The next token must not be smaller.
    pub(super) fn remember(&mut self, dump: &Dump) {
        self.token = dump.token;
    }

    fn plain(&self, text: &[u8]) -> String {
        let Ok(text) = str::from_utf8(text) else { return format!("{} bytes", text.len()) };
        let mut plain = text.replace(&self.name, "L");
        for (owner, letter) in &self.owners {
            plain = plain.replace(owner, letter);
        }
        for (client, letter) in &self.clients {
            while let Some((before, after)) = plain.split_once(client) {
                plain = format!(
                    "{before}{letter}{}",
                    after.trim_start_matches(|c: char| c.is_ascii_digit())
                );
            }
        }
        plain
    }
}

impl Dump {
    pub(super) async fn of(server: &Server, side: &Side) -> Dump {
        let mut dump = Dump { keys: BTreeMap::new(), channels: Vec::new(), token: side.token };
        for key in server.keys(&format!("*{}*", side.name)).await {
            let name = side.plain(key.as_bytes());
            if name.starts_with(JAVAS_ALONE) || OURS_ALONE.iter().any(|own| name.contains(own)) {
                continue;
            }
            let kind: String = server.ask(&["TYPE", &key]).await;
            let life = server.pttl(&key).await;
            let mut parts = Dump::parts(server, side, &key, &kind).await;
            if name == TOKEN {
                let [(_, Part::Text(text))] = &mut parts[..] else { panic!("{key}: {parts:?}") };
                dump.token = text.parse().expect("a token is a number");
                let grew = dump.token >= side.token && dump.token > 0;
                *text = if grew { "a token" } else { "a token that is smaller" }.to_owned();
            }
            // It ended between two questions.
            if kind != "none" && life != -2 {
                let life = (life >= 0).then_some(life);
                dump.keys.insert(name, Key { kind, life, parts });
            }
        }
        let channels = server.pubsub_channels().await;
        let channels = channels.iter().filter(|channel| channel.contains(&side.name));
        dump.channels = channels.map(|channel| side.plain(channel.as_bytes())).collect();
        dump.channels.sort();
        dump
    }

    async fn parts(server: &Server, side: &Side, key: &str, kind: &str) -> Vec<(String, Part)> {
        let text = |value: &Vec<u8>| Part::Text(side.plain(value));
        match kind {
            "string" => {
                let value: Option<Vec<u8>> = server.ask(&["GET", key]).await;
                value.iter().map(|value| (String::new(), text(value))).collect()
            }
            "hash" => {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> = server.ask(&["HGETALL", key]).await;
                let mut parts: Vec<_> =
                    fields.iter().map(|(field, value)| (side.plain(field), text(value))).collect();
                parts.sort();
                parts
            }
            "list" => {
                let items: Vec<Vec<u8>> = server.ask(&["LRANGE", key, "0", "-1"]).await;
                items.iter().map(|item| (String::new(), text(item))).collect()
            }
            "zset" => {
                let (seconds, micros): (i64, i64) = server.ask(&["TIME"]).await;
                let now = seconds * 1000 + micros / 1000;
                let members: Vec<(Vec<u8>, f64)> =
                    server.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await;
                let part = |(member, score): &(Vec<u8>, f64)| {
                    let part = match *score as i64 {
                        FOR_EVER => Part::Text("for ever".to_owned()),
                        at => Part::Time(at - now),
                    };
                    // Ids of permits are random: only what they look like counts.
                    let member =
                        if member.len() == 16 { "16 bytes".to_owned() } else { side.plain(member) };
                    (member, part)
                };
                let mut parts: Vec<_> = members.iter().map(part).collect();
                parts.sort();
                parts
            }
            _ => Vec::new(),
        }
    }
}

/// What differs, but for what is known to; and what is known to differ and does not.
pub(super) fn compare(theirs: &Dump, ours: &Dump, known: &[Known]) -> Vec<String> {
    let mut wrong = Vec::new();
    if theirs.channels != ours.channels {
        wrong.push(format!("channels: {:?} there, {:?} here", theirs.channels, ours.channels));
    }
    let mut left_there: Vec<&str> = Vec::new();
    let mut lives: Vec<&str> = Vec::new();
    let mut times: Vec<&str> = Vec::new();
    for (name, there) in &theirs.keys {
        let Some(here) = ours.keys.get(name) else {
            left_there.push(name);
            continue;
        };
        if there.kind != here.kind {
            wrong.push(format!("{name} is a {} there, a {} here", there.kind, here.kind));
            continue;
        }
        let close = |a: i64, b: i64| (a - b).abs() <= SLACK;
        let same_life = match (there.life, here.life) {
            (Some(there), Some(here)) => close(there, here),
            (there, here) => there.is_none() && here.is_none(),
        };
        if !same_life {
            lives.push(name);
        }
        let same_names = there.parts.len() == here.parts.len()
            && there.parts.iter().zip(&here.parts).all(|(there, here)| there.0 == here.0);
        let same = |(there, here): (&(String, Part), &(String, Part))| match (&there.1, &here.1) {
            (Part::Text(there), Part::Text(here)) => there == here,
            (Part::Time(there), Part::Time(here)) => close(*there, *here),
            _ => false,
        };
        if !same_names {
            wrong.push(format!("{name}: {:?} there, {:?} here", there.parts, here.parts));
        } else if !there.parts.iter().zip(&here.parts).all(same) {
            times.push(name);
        }
    }
    let only_here = ours.keys.keys().filter(|name| !theirs.keys.contains_key(*name));
    wrong.extend(only_here.map(|name| format!("{name} is only here")));

    let mut expect = |found: Vec<&str>, said: Vec<&str>, what: &str| {
        let not_said = found.iter().filter(|name| !said.contains(name));
        wrong.extend(not_said.map(|name| format!("{name}: {what}")));
        let not_found = said.iter().filter(|name| !found.contains(name));
        wrong.extend(not_found.map(|name| format!("{name}: not what is known: {what}")));
    };
    let mut said = (Vec::new(), Vec::new(), Vec::new());
    for known in known {
        match known {
            Known::Life(name, _) => said.0.push(*name),
            Known::Times(name, _) => said.1.push(*name),
            Known::Left(name, _) => said.2.push(*name),
        }
    }
    expect(lives, said.0, "another time to live");
    expect(times, said.1, "other values");
    expect(left_there, said.2, "only there");
    wrong
}
