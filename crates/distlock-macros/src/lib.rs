//! The attribute of [distlock](https://docs.rs/distlock): use it as `distlock::locked`, where its documentation is.

mod args;
mod expand;
mod name;

use proc_macro::TokenStream;
use syn::{ItemFn, parse_macro_input};

/// Puts a lock around a function. See `distlock::locked`.
#[proc_macro_attribute]
pub fn locked(args: TokenStream, function: TokenStream) -> TokenStream {
    let args = parse_macro_input!(args as args::Args);
    let function = parse_macro_input!(function as ItemFn);
    expand::expand(args, function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// It returns no `Result`.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", via = locks)]
/// async fn no_result(locks: &Locks) -> u32 { 1 }
/// ```
/// It returns nothing that could say "skipped".
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", or_skip, via = locks)]
/// async fn no_option(locks: &Locks) -> distlock::Result<u32> { Ok(1) }
/// ```
/// It waits for no duration.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", wait = "3 days", via = locks)]
/// async fn no_duration(locks: &Locks) -> distlock::Result<u32> { Ok(1) }
/// ```
/// Its name has an argument that it does not have.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k:{idd}", via = locks)]
/// async fn no_such_argument(locks: &Locks, id: u32) -> distlock::Result<u32> { Ok(1) }
/// ```
/// Its locks are none.
/// ```compile_fail
/// # use distlock::{Locks, locked};
/// #[locked("k", via = id)]
/// async fn no_locks(locks: &Locks, id: u32) -> distlock::Result<u32> { Ok(1) }
/// ```
/// So that these fail for no other reason:
/// ```
/// # use distlock::{Locks, locked};
/// #[locked("k:{id}", or_skip, wait = "3s", via = locks)]
/// async fn good(locks: &Locks, id: u32) -> distlock::Result<Option<u32>> { Ok(Some(1)) }
/// ```
#[cfg(doctest)]
struct DoesNotCompile;
