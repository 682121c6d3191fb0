//! Methods, generics, lifetimes, `impl Trait`, early returns, errors of one's own, functions that are not async.

use std::fmt::Display;
use std::num::IntErrorKind;
use std::time::Duration;

use distlock::{Locks, locked};

#[derive(Debug)]
enum Trouble {
    Lock(distlock::Error),
    Parse(std::num::ParseIntError),
}

impl From<distlock::Error> for Trouble {
    fn from(error: distlock::Error) -> Trouble {
        Trouble::Lock(error)
    }
}

impl From<std::num::ParseIntError> for Trouble {
    fn from(error: std::num::ParseIntError) -> Trouble {
        Trouble::Parse(error)
    }
}

struct Shop<T> {
    locks: Locks,
    total: T,
}

impl<T: Copy + Display + std::ops::AddAssign + From<u8>> Shop<T> {
    /// Documented.
    #[locked("total", via = self.locks)]
    #[must_use = "said to users as before"]
    pub async fn add(&mut self, amount: T) -> Result<T, Trouble> {
        self.total += amount;
        if false {
            return Ok(T::from(0));
        }
        Ok(self.total)
    }

    #[locked("total", via = &self.locks)]
    fn show<'a>(&'a self, words: &'a str) -> Result<impl Display + 'a, Trouble> {
        Ok(format!("{words} {}", self.total))
    }
}

#[locked("parse:{text}", via = locks)]
async fn parse(locks: Locks, text: String) -> Result<i64, Trouble> {
    let number: i64 = text.parse()?;
    Ok(number)
}

#[locked("impl", via = locks)]
async fn displayed<D: Display>(locks: &Locks, what: D) -> Result<impl Display + use<D>, Trouble> {
    Ok(format!("<{what}>"))
}

#[locked("boxed", via = locks, wait = Duration::from_secs(1), lease = "1h30m")]
async fn boxed(locks: &Locks) -> Result<u8, Box<dyn std::error::Error>> {
    Ok("7".parse()?)
}

#[locked("moved", via = std::sync::Arc::new(Locks::memory()))]
fn moved(mut words: Vec<String>) -> distlock::Result<String> {
    words.push("end".to_owned());
    Ok(words.concat())
}

/// Names that a macro might use itself, and arguments that have none.
#[locked("{guard}:{a}:{scope}", via = locks)]
async fn named(
    locks: &Locks,
    guard: u32,
    (a, b): (u32, u32),
    Pair { scope, .. }: Pair,
) -> distlock::Result<u32> {
    Ok(guard + a + b + scope)
}

#[locked("{a}", via = locks)]
fn blocking_patterns(locks: &Locks, [a, b]: [u32; 2], _: &str) -> distlock::Result<u32> {
    Ok(a + b)
}

struct Pair {
    scope: u32,
}

impl Pair {
    #[locked("{self.scope}", via = locks)]
    async fn into_scope(self, locks: &Locks) -> distlock::Result<u32> {
        Ok(self.scope)
    }

    #[locked("{self.scope}", via = locks)]
    fn into_scope_blocking(self, locks: Locks) -> distlock::Result<Pair> {
        Ok(self)
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn functions_of_every_shape_compile_and_run() {
    let locks = Locks::memory();
    let mut shop = Shop { locks: locks.clone(), total: 1_u64 };
    assert_eq!(shop.add(2).await.unwrap(), 3);
    assert_eq!(shop.show("total").unwrap().to_string(), "total 3");
    assert_eq!(is_send(parse(locks.clone(), "42".to_owned())).await.unwrap(), 42);
    match parse(locks.clone(), "x".to_owned()).await {
        Err(Trouble::Parse(error)) => assert_eq!(error.kind(), &IntErrorKind::InvalidDigit),
        other => panic!("{other:?}"),
    }
    assert_eq!(displayed(&locks, 1).await.unwrap().to_string(), "<1>");
    assert_eq!(boxed(&locks).await.unwrap(), 7);
    assert_eq!(moved(vec!["a".to_owned()]).unwrap(), "aend");
    assert_eq!(is_send(named(&locks, 1, (2, 3), Pair { scope: 4 })).await.unwrap(), 10);
    assert_eq!(blocking_patterns(&locks, [1, 2], "").unwrap(), 3);
    assert_eq!(Pair { scope: 4 }.into_scope(&locks).await.unwrap(), 4);
    assert_eq!(Pair { scope: 4 }.into_scope_blocking(locks.clone()).unwrap().scope, 4);
    if let Err(Trouble::Lock(error)) = parse(locks, "1".to_owned()).await {
        panic!("{error}");
    }
}
