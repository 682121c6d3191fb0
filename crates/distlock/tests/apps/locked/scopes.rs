//! What a name means is decided where it stands: in `via`, in the body, in another macro.

use std::collections::BTreeMap;
use std::sync::RwLock;

use distlock::{Error, Locks, Result, locked};

struct State {
    locks: Locks,
    count: u32,
}

struct Service {
    state: RwLock<State>,
    shared: tokio::sync::RwLock<State>,
}

impl Service {
    /// The guard in `via` would be kept while the body runs, and make the future stay on its thread.
    #[locked("k", via = self.state.read().unwrap().locks)]
    async fn count(&self) -> Result<u32> {
        tokio::task::yield_now().await;
        let mut state = self.state.try_write().expect("`via` keeps nothing");
        state.count += 1;
        Ok(state.count)
    }

    #[locked("k", or_skip, via = self.shared.read().await.locks)]
    async fn count_shared(&self) -> Result<Option<u32>> {
        let mut state = self.shared.try_write().expect("`via` keeps nothing");
        state.count += 1;
        Ok(Some(state.count))
    }

    #[locked("k", via = self.state.read().unwrap().locks)]
    fn count_on_a_thread(&self) -> Result<u32> {
        let mut state = self.state.try_write().expect("`via` keeps nothing");
        state.count += 1;
        Ok(state.count)
    }

    /// The same for what is asked for.
    #[locked(
        "{self.state.read().unwrap().count}",
        wait = std::time::Duration::from_secs(self.state.read().unwrap().count.into()),
        via = Locks::memory()
    )]
    async fn named(&self) -> Result<u32> {
        Ok(self.state.try_write().expect("nothing is kept").count)
    }
}

/// What the body declares is its own: `Error` and `Result` in the line above it are what they are outside.
#[locked("k", via = locks)]
async fn own_words(locks: &Locks) -> Result<usize, Error> {
    use std::io::Error;
    type Result<T> = std::result::Result<T, Error>;
    fn open() -> Result<()> {
        Err(Error::other("no"))
    }
    Ok(open().unwrap_err().to_string().len())
}

#[locked("k", via = locks)]
fn own_words_on_a_thread(locks: &Locks, fail: bool) -> Result<u32, Error> {
    struct Error(u32);
    let own = Error(7);
    if fail {
        return Ok(0);
    }
    Ok(own.0)
}

/// Names of its arguments come from whoever uses the macro, the rest does not.
macro_rules! guarded {
    ($name:ident, $locks:ident, $via:expr) => {
        #[locked("k", via = $via)]
        async fn $name($locks: &Locks) -> Result<bool> {
            $locks.mutex("k").is_locked().await
        }
    };
    (blocking $name:ident, $locks:ident) => {
        #[locked("k", kind = rw, via = $locks)]
        fn $name($locks: &Locks) -> Result<u32> {
            Ok(7)
        }
    };
    (all $name:ident, $locks:ident, $wait:expr, $returns:ty) => {
        #[locked(["a", "b"], or_skip, wait = $wait, via = $locks)]
        async fn $name($locks: &Locks) -> $returns {
            Ok(Some(7))
        }
    };
}

guarded!(by_macro, locks, locks);
guarded!(by_macro_with_more, locks, locks.clone());
guarded!(blocking by_macro_on_a_thread, locks);
guarded!(all several_by_macro, locks, "1s", Result<Option<u32>>);

/// Lifetimes that are written, and some that are not.
struct Shelf<'a, const N: usize> {
    locks: &'a Locks,
    names: [&'a str; N],
    seen: BTreeMap<&'a str, usize>,
}

impl<'a, const N: usize> Shelf<'a, N> {
    #[locked("{self.names[at]}", via = self.locks)]
    async fn name(&self, at: usize) -> Result<&'a str> {
        Ok(self.names[at])
    }

    #[locked("shelf", via = self.locks)]
    async fn longer<'b>(&'b mut self, other: &'b str) -> Result<&'b str>
    where
        'a: 'b,
    {
        for name in self.names {
            *self.seen.entry(name).or_default() += 1;
        }
        let own = *self.seen.keys().max_by_key(|name| name.len()).expect("it has some");
        Ok(if own.len() > other.len() { own } else { other })
    }

    #[locked("shelf", via = self.locks)]
    fn visits(&mut self) -> Result<impl Iterator<Item = (&'a str, &mut usize)>> {
        Ok(self.seen.iter_mut().map(|(name, count)| (*name, count)))
    }

    #[locked("shelf", via = self.locks)]
    async fn total<T>(&mut self, first: T) -> Result<impl PartialEq<T>>
    where
        T: std::iter::Sum<T> + From<u16> + PartialEq,
    {
        let counts = self.seen.values().map(|count| T::from(*count as u16));
        Ok(std::iter::once(first).chain(counts).sum::<T>())
    }
}

fn is_send<T: Send>(value: T) -> T {
    value
}

#[tokio::test]
async fn names_mean_what_they_mean_where_they_stand() {
    let locks = Locks::memory();
    let state = || State { locks: locks.clone(), count: 0 };
    let service =
        Service { state: RwLock::new(state()), shared: tokio::sync::RwLock::new(state()) };
    assert_eq!(is_send(service.count()).await.unwrap(), 1);
    assert_eq!(is_send(service.count_shared()).await.unwrap(), Some(1));
    assert_eq!(service.count_on_a_thread().unwrap(), 2);
    assert_eq!(is_send(service.named()).await.unwrap(), 2);
    assert_eq!(own_words(&locks).await.unwrap(), 2);
    assert_eq!(own_words_on_a_thread(&locks, false).unwrap(), 7);
    assert!(by_macro(&locks).await.unwrap());
    assert!(by_macro_with_more(&locks).await.unwrap());
    assert_eq!(by_macro_on_a_thread(&locks).unwrap(), 7);
    assert_eq!(several_by_macro(&locks).await.unwrap(), Some(7));

    let seen = BTreeMap::new();
    let mut shelf = Shelf { locks: &locks, names: ["a", "long"], seen };
    assert_eq!(is_send(shelf.name(1)).await.unwrap(), "long");
    assert_eq!(shelf.longer("bc").await.unwrap(), "long");
    shelf.visits().unwrap().for_each(|(_, count)| *count += 1);
    assert!(shelf.total(1_u32).await.unwrap() == 5);
}
