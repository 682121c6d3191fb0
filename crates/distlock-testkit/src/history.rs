//! What was done inside a lock, in the order in which a server saw it, checked.
//!
//! Everybody who goes in appends `in WHO HOW TOKEN` to the list `KEY:history` of a plain server, and `out WHO` before it leaves; `HOW`
//! is `alone` or `shared`, and `TOKEN` is 0 where there is none. Who is alone also adds one to the number `KEY:number`, reading and
//! writing it in two steps. [`Thread::stress`](crate::peer::Thread::stress) and the worker `rival` do so.

use std::collections::BTreeMap;

use crate::Server;

/// A history.
#[derive(Debug)]
pub struct History {
    steps: Vec<Step>,
    number: u64,
}

#[derive(Debug)]
enum Step {
    In { who: String, alone: bool, token: u64 },
    Out { who: String },
}

impl History {
    /// Reads the history under `key`, and removes it.
    ///
    /// # Panics
    /// When it is none.
    pub async fn take(server: &Server, key: &str) -> History {
        let (list, number) = (format!("{key}:history"), format!("{key}:number"));
        let lines: Vec<String> = server.ask(&["LRANGE", &list, "0", "-1"]).await;
        let count: Option<u64> = server.ask(&["GET", &number]).await;
        server.cli(&["DEL", &list, &number]).await;
        let steps = lines.iter().map(|line| Step::read(line)).collect();
        History { steps, number: count.unwrap_or_default() }
    }

    /// How often each was inside.
    pub fn entries(&self) -> BTreeMap<&str, u64> {
        let mut entries = BTreeMap::new();
        for step in &self.steps {
            if let Step::In { who, .. } = step {
                *entries.entry(who.as_str()).or_default() += 1;
            }
        }
        entries
    }

    /// Checks that nobody was inside together with somebody who was alone, that at most `most` shared, and that no update of
    /// those who were alone got lost.
    ///
    /// # Panics
    /// When it is otherwise, with the place where it happened.
    pub fn check(&self, most: usize) {
        let mut inside: BTreeMap<&str, bool> = BTreeMap::new();
        let mut alone_so_far = 0;
        for (at, step) in self.steps.iter().enumerate() {
            let around = || self.around(at);
            match step {
                Step::In { who, alone, .. } => {
                    let conflict = inside.values().any(|other| *alone || *other);
                    assert!(!conflict, "{who} went in beside {inside:?}:\n{}", around());
                    assert!(
                        inside.insert(who, *alone).is_none(),
                        "{who} was inside:\n{}",
                        around()
                    );
                    assert!(inside.len() <= most, "{} are inside:\n{}", inside.len(), around());
                    alone_so_far += u64::from(*alone);
                }
                Step::Out { who } => {
                    let was = inside.remove(who.as_str());
                    assert!(was.is_some(), "{who} left without having been in:\n{}", around());
                }
            }
        }
        assert!(inside.is_empty(), "still inside at the end: {inside:?}");
        assert_eq!(self.number, alone_so_far, "updates got lost");
    }

    /// Checks that every token was larger than the one before it.
    ///
    /// # Panics
    /// When one was not, with the place where it happened.
    pub fn check_tokens(&self) {
        let mut last = 0;
        for (at, step) in self.steps.iter().enumerate() {
            if let Step::In { who, token, .. } = step {
                let around = || self.around(at);
                assert!(*token > last, "{who} got token {token} after {last}:\n{}", around());
                last = *token;
            }
        }
    }

    /// How often one of `these` followed on one of the others, or the other way round.
    pub fn turns(&self, is_one_of_these: impl Fn(&str) -> bool) -> usize {
        let whos = self.steps.iter().filter_map(|step| match step {
            Step::In { who, .. } => Some(is_one_of_these(who)),
            Step::Out { .. } => None,
        });
        let whos: Vec<bool> = whos.collect();
        whos.windows(2).filter(|two| two[0] != two[1]).count()
    }

    fn around(&self, at: usize) -> String {
        let from = at.saturating_sub(6);
        let until = (at + 4).min(self.steps.len());
        let lines = self.steps[from..until].iter().enumerate();
        lines.map(|(n, step)| format!("{:6} {step:?}\n", from + n)).collect()
    }
}

impl Step {
    fn read(line: &str) -> Step {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["in", who, how @ ("alone" | "shared"), token] => Step::In {
                who: who.to_owned(),
                alone: how == "alone",
                token: token.parse().expect("a token is a number"),
            },
            ["out", who] => Step::Out { who: who.to_owned() },
            _ => panic!("not a line of a history: {line:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(lines: &[&str], number: u64) -> History {
        History { steps: lines.iter().map(|line| Step::read(line)).collect(), number }
    }

    #[test]
    fn one_after_the_other_is_fine() {
        let lines = ["in a alone 1", "out a", "in b alone 2", "out b", "in a alone 3", "out a"];
        let history = history(&lines, 3);
        history.check(1);
        history.check_tokens();
        assert_eq!(history.entries(), BTreeMap::from([("a", 2), ("b", 1)]));
        assert_eq!(history.turns(|who| who == "a"), 2);
    }

    #[test]
    #[should_panic(expected = "b went in beside")]
    fn two_at_once_are_found() {
        history(&["in a alone 1", "in b alone 2", "out b", "out a"], 2).check(2);
    }

    #[test]
    #[should_panic(expected = "b went in beside")]
    fn a_reader_beside_a_writer_is_found() {
        history(&["in a alone 0", "in b shared 0", "out b", "out a"], 1).check(2);
    }

    #[test]
    #[should_panic(expected = "3 are inside")]
    fn one_too_many_is_found() {
        history(&["in a shared 0", "in b shared 0", "in c shared 0"], 0).check(2);
    }

    #[test]
    #[should_panic(expected = "updates got lost")]
    fn a_lost_update_is_found() {
        history(&["in a alone 0", "out a", "in a alone 0", "out a"], 1).check(1);
    }

    #[test]
    #[should_panic(expected = "b got token 1 after 1")]
    fn a_token_that_does_not_grow_is_found() {
        history(&["in a alone 1", "out a", "in b alone 1", "out b"], 2).check_tokens();
    }
}
