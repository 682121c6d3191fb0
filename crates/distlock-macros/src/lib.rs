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
