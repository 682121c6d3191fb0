//! Who hands out locks: chosen by a profile, unknown to those who ask.

use distlock::{Error, ErrorKind, Guard, Locks, Result};

/// Hands out locks by name. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Doorman {
    locks: Locks,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Mutex,
    Fair,
    Spin,
    Simple,
}

impl Doorman {
    /// The one that the profile describes: `kind=mutex url=redis://127.0.0.1:6379 prefix=shop:`. The kinds are `mutex`,
    /// `fair`, `spin` and `simple`; without a prefix there is none.
    ///
    /// # Errors
    /// `Config` for a profile that makes no sense; whatever connecting says.
    pub async fn of(profile: &str) -> Result<Doorman> {
        let (mut builder, mut kind) = (Locks::builder(), None);
        for setting in profile.split_whitespace() {
            match setting.split_once('=') {
                Some(("kind", "mutex")) => kind = Some(Kind::Mutex),
                Some(("kind", "fair")) => kind = Some(Kind::Fair),
                Some(("kind", "spin")) => kind = Some(Kind::Spin),
                Some(("kind", "simple")) => kind = Some(Kind::Simple),
                Some(("url", url)) => builder = builder.url(url),
                Some(("prefix", prefix)) => builder = builder.prefix(prefix),
                _ => return Err(senseless(profile)),
            }
        }
        let kind = kind.ok_or_else(|| senseless(profile))?;
        Ok(Doorman { locks: builder.connect().await?, kind })
    }

    /// Waits for the lock of this name.
    ///
    /// # Errors
    /// Whatever the lock says.
    pub async fn lock(&self, name: &str) -> Result<Guard> {
        let request = match self.kind {
            Kind::Mutex => self.locks.mutex(name).lock(),
            Kind::Fair => self.locks.fair(name).lock(),
            Kind::Spin => self.locks.spin(name).lock(),
            Kind::Simple => self.locks.simple(name).lock(),
        };
        request.await
    }

    /// Takes the lock away from whoever holds it, as an operator would; false if nobody does.
    ///
    /// # Errors
    /// Whatever the lock says.
    pub async fn force(&self, name: &str) -> Result<bool> {
        match self.kind {
            Kind::Mutex => self.locks.mutex(name).force_unlock().await,
            Kind::Fair => self.locks.fair(name).force_unlock().await,
            Kind::Spin => self.locks.spin(name).force_unlock().await,
            Kind::Simple => self.locks.simple(name).force_unlock().await,
        }
    }

    /// Waits until everything that was released is free for others.
    pub async fn close(&self) {
        self.locks.close().await;
    }
}

fn senseless(profile: &str) -> Error {
    Error::new(ErrorKind::Config, format!("{profile:?} is no profile: kind=KIND url=URL"))
}
