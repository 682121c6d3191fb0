//! The attribute of [distlock](https://docs.rs/distlock): use it as `distlock::locked`, where its documentation is.

mod args;
mod expand;
mod name;

use proc_macro::TokenStream;

/// Puts a lock around a function. See `distlock::locked`.
#[proc_macro_attribute]
pub fn locked(args: TokenStream, function: TokenStream) -> TokenStream {
    expand(args.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The function with a lock around it, or what is wrong with the attribute or with the function.
fn expand(
    args: proc_macro2::TokenStream,
    function: proc_macro2::TokenStream,
) -> syn::Result<proc_macro2::TokenStream> {
    expand::expand(syn::parse2(args)?, syn::parse2(function)?)
}

#[cfg(test)]
mod tests;
