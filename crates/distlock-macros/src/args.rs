//! What stands in the brackets: `"order:{order.id}", kind = fair, wait = "3s", or_skip`.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token, bracketed};

/// Every word, for those who mistype one.
const WORDS: &str = "kind, wait, lease, permits, profile, via, read and or_skip, as in #[locked(\"order:{id}\", kind = fair, wait = \"3s\")]";

pub(crate) struct Args {
    pub(crate) names: Vec<LitStr>,
    pub(crate) kind: Kind,
    pub(crate) wait: Option<Time>,
    pub(crate) lease: Option<Time>,
    pub(crate) permits: Option<Expr>,
    pub(crate) from: From,
    pub(crate) or_skip: bool,
}

/// Where the lock is.
pub(crate) enum From {
    /// The default profile.
    Default,
    Profile(Expr),
    Via(Expr),
}

/// How long: in words that are checked when the program is built, or an expression.
pub(crate) enum Time {
    Words(LitStr),
    Value(Box<Expr>),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A kind with `lock` and `try_lock`: its accessor is its word.
    Lock(&'static str),
    Read,
    Write,
    Multi,
    /// A kind of which permits are acquired.
    Permits(&'static str),
}

impl Kind {
    fn parse(input: ParseStream<'_>) -> Result<Kind> {
        const KINDS: &str =
            "mutex, fair, rw, fenced, spin, simple, multi, semaphore and leased_semaphore";
        // `kind = fair` or `kind = "fair"`.
        let (word, at) = if input.peek(LitStr) {
            let text: LitStr = input.parse()?;
            (text.value(), text.span())
        } else {
            let other = |e: Error| {
                Error::new(
                    e.span(),
                    format!("expected a kind, as in `kind = fair`: one of {KINDS}"),
                )
            };
            let word: Ident = input.parse().map_err(other)?;
            (word.to_string(), word.span())
        };
        Ok(match word.as_str() {
            "mutex" => Kind::Lock("mutex"),
            "fair" => Kind::Lock("fair"),
            "fenced" => Kind::Lock("fenced"),
            "spin" => Kind::Lock("spin"),
            "simple" => Kind::Lock("simple"),
            "rw" => Kind::Write,
            "multi" => Kind::Multi,
            "semaphore" => Kind::Permits("semaphore"),
            "leased_semaphore" => Kind::Permits("leased_semaphore"),
            "redlock" => {
                let text = "a redlock needs its servers: call RedLock::new(name, &nodes).lock() in the function";
                return Err(Error::new(at, text));
            }
            "latch" => {
                let text = "a latch is waited for, not held: call locks.latch(name).wait() in the function";
                return Err(Error::new(at, text));
            }
            _ => return Err(Error::new(at, format!("no such kind: use one of {KINDS}"))),
        })
    }
}

/// What has been said so far, and where.
#[derive(Default)]
struct Said {
    kind: Option<Kind>,
    wait: Option<Time>,
    lease: Option<(Span, Time)>,
    permits: Option<Expr>,
    profile: Option<Expr>,
    via: Option<Expr>,
    read: Option<Span>,
    or_skip: bool,
}

impl Parse for Args {
    fn parse(input: ParseStream<'_>) -> Result<Args> {
        let names = names(input)?;
        let mut said = Said::default();
        while !input.is_empty() {
            input.parse::<Token![,]>()?;
            if input.is_empty() {
                break;
            }
            said.one(input)?;
        }
        said.over(names)
    }
}

fn names(input: ParseStream<'_>) -> Result<Vec<LitStr>> {
    let missing = |span| {
        Error::new(
            span,
            "the first argument is the name of the lock: #[locked(\"order:{order.id}\")]",
        )
    };
    if input.peek(syn::token::Bracket) {
        let several;
        let brackets = bracketed!(several in input);
        let names = Punctuated::<LitStr, Token![,]>::parse_terminated(&several)?;
        if names.is_empty() {
            return Err(missing(brackets.span.join()));
        }
        return Ok(names.into_iter().collect());
    }
    match input.peek(LitStr) {
        true => Ok(vec![input.parse()?]),
        false => Err(missing(input.span())),
    }
}

impl Said {
    /// Reads one more.
    fn one(&mut self, input: ParseStream<'_>) -> Result<()> {
        let word: Ident =
            input.parse().map_err(|e| Error::new(e.span(), format!("expected one of {WORDS}")))?;
        let twice = match word.to_string().as_str() {
            "or_skip" => std::mem::replace(&mut self.or_skip, true),
            "read" => self.read.replace(word.span()).is_some(),
            "kind" => {
                input.parse::<Token![=]>()?;
                self.kind.replace(Kind::parse(input)?).is_some()
            }
            "wait" => self.wait.replace(value(input)?.into()).is_some(),
            "lease" => self.lease.replace((word.span(), value(input)?.into())).is_some(),
            "permits" => self.permits.replace(value(input)?).is_some(),
            "profile" => self.profile.replace(value(input)?).is_some(),
            "via" => self.via.replace(value(input)?).is_some(),
            _ => return Err(Error::new(word.span(), format!("no such option: use {WORDS}"))),
        };
        match twice {
            true => Err(Error::new(word.span(), "this option is given twice")),
            false => Ok(()),
        }
    }

    /// What all of it means.
    fn over(self, names: Vec<LitStr>) -> Result<Args> {
        let kind = match (self.kind, self.read) {
            (Some(Kind::Write), Some(_)) => Kind::Read,
            (_, Some(at)) => return Err(Error::new(at, "`read` goes with `kind = rw`")),
            (Some(kind), None) => kind,
            (None, None) if names.len() > 1 => Kind::Multi,
            (None, None) => Kind::Lock("mutex"),
        };
        if let (Some(second), true) = (names.get(1), kind != Kind::Multi) {
            return Err(Error::new(second.span(), "several names are one lock of `kind = multi`"));
        }
        if let (Some(permits), false) = (&self.permits, matches!(kind, Kind::Permits(_))) {
            let text = "`permits` goes with `kind = semaphore` and `kind = leased_semaphore`";
            return Err(Error::new(permits.span(), text));
        }
        if let (Some((at, _)), Kind::Permits("semaphore")) = (&self.lease, kind) {
            let text = "a semaphore's permits have no lease: use `kind = leased_semaphore`";
            return Err(Error::new(*at, text));
        }
        let from = match (self.profile, self.via) {
            (Some(_), Some(via)) => {
                return Err(Error::new(
                    via.span(),
                    "`profile` and `via` both say where the lock is: use one",
                ));
            }
            (Some(profile), None) => From::Profile(profile),
            (None, Some(via)) => From::Via(via),
            (None, None) => From::Default,
        };
        let lease = self.lease.map(|(_, lease)| lease);
        Ok(Args {
            names,
            kind,
            wait: self.wait,
            lease,
            permits: self.permits,
            from,
            or_skip: self.or_skip,
        })
    }
}

fn value(input: ParseStream<'_>) -> Result<Expr> {
    input.parse::<Token![=]>()?;
    input.parse()
}

impl std::convert::From<Expr> for Time {
    fn from(value: Expr) -> Time {
        match value {
            Expr::Lit(ExprLit { lit: Lit::Str(words), .. }) => Time::Words(words),
            // What a `macro_rules!` was given as an expression comes in a group that nobody sees.
            Expr::Group(group) => (*group.expr).into(),
            other => Time::Value(Box::new(other)),
        }
    }
}
