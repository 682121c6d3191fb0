//! The function with the lock around it, as one would write it by hand.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Ident, ItemFn, Result, ReturnType, Type};

use crate::args::{Args, From, Kind, Time};
use crate::name::name;

pub(crate) fn expand(args: Args, mut function: ItemFn) -> Result<TokenStream> {
    let signature = &function.sig;
    if let Some(constant) = &signature.constness {
        return Err(Error::new(constant.span(), "a const fn cannot wait for a lock"));
    }
    let ReturnType::Type(_, returns) = &signature.output else {
        let text = "a #[locked] function returns a Result, because the acquire may fail, and the lock may be lost: write -> Result<(), E> \
                    with an E that can be made from distlock::Error";
        return Err(Error::new(signature.ident.span(), text));
    };
    let is_async = signature.asyncness.is_some();
    if !is_async && is_pinned(returns) {
        let text = "this returns a future, which would run without the lock: #[locked] needs the async fn itself. #[async_trait] \
                    rewrites it before #[locked] runs: put #[locked] on an async fn of its own and call that";
        return Err(Error::new(returns.span(), text));
    }
    // One word for all of it: words of `via` may come from another macro, where the same letters are another name.
    let of = Ident::new("__locks", Span::call_site());
    let (locks, request) = (locks(&of, &args.from, is_async), request(&of, &args)?);
    let run = match (is_async, args.or_skip) {
        (true, false) => quote!(run),
        (true, true) => quote!(run_or_skip),
        (false, false) => quote!(run_blocking),
        (false, true) => quote!(run_blocking_or_skip),
    };
    let body = &function.block.stmts;
    let returns = typed(returns);
    // Without it `?` and `into` in the body would not know what they are to become.
    let known = quote_spanned! {returns.span()=>
        if false {
            let __never: #returns = ::distlock::macros::never();
            return __never;
        }
    };
    // In a block of its own: what it declares for itself (`use`, types) must not change what the returned type means.
    let body = quote! {
        #[allow(unused_braces)]
        { #(#body)* }
    };
    let work = match is_async {
        // Boxed: functions that call each other would otherwise be several times as large with every level.
        true => quote!(::std::boxed::Box::pin(async move { #known #body })),
        false => quote!(move || { #known #body }),
    };
    let wait = is_async.then(|| quote!(.await));
    // The inner block ends what `via` borrows, a guard perhaps, before anybody waits.
    let block = quote! {{
        let __request = { #locks #request };
        #[allow(clippy::redundant_closure_call)]
        { ::distlock::macros::#run(__request, #work) #wait }
    }};
    function.block = Box::new(syn::parse2(block)?);
    Ok(function.into_token_stream())
}

/// Binds the locks as `of`.
fn locks(of: &Ident, from: &From, is_async: bool) -> TokenStream {
    let profile = match from {
        From::Via(via) => {
            return quote_spanned! {via.span()=>
                let __via = &(#via);
                let #of = ::distlock::macros::locks(__via);
            };
        }
        From::Profile(profile) => quote!(::std::option::Option::Some(#profile)),
        From::Default => quote!(::std::option::Option::None),
    };
    let found = match is_async {
        true => quote!(::distlock::macros::profile(#profile).await),
        false => quote!(::distlock::macros::profile_blocking(#profile)),
    };
    quote! {
        let #of = match #found {
            ::std::result::Result::Ok(__locks) => __locks,
            ::std::result::Result::Err(__error) => return ::distlock::macros::RunOutput::failed(__error),
        };
    }
}

/// What is asked for, of the locks `of`.
fn request(of: &Ident, args: &Args) -> Result<TokenStream> {
    let names = args.names.iter().map(name).collect::<Result<Vec<_>>>()?;
    let first = &names[0];
    let verb = |plain: &str| match args.or_skip {
        true => format_ident!("try_{plain}"),
        false => format_ident!("{plain}"),
    };
    let mut request = match args.kind {
        Kind::Lock(kind) => {
            let (kind, lock) = (format_ident!("{kind}"), verb("lock"));
            quote!(#of.#kind(#first).#lock())
        }
        Kind::Read | Kind::Write => {
            let half = verb(if args.kind == Kind::Read { "read" } else { "write" });
            quote!(#of.rw(#first).#half())
        }
        Kind::Multi => {
            let lock = verb("lock");
            quote!(#of.multi([#(#names),*]).#lock())
        }
        Kind::Permits(kind) => {
            let (kind, acquire) = (format_ident!("{kind}"), verb("acquire"));
            let permits = args.permits.as_ref().map_or(quote!(1), ToTokens::to_token_stream);
            quote!(#of.#kind(#first).#acquire(#permits))
        }
    };
    for (option, time) in [("wait", &args.wait), ("lease", &args.lease)] {
        if let Some(time) = time {
            let (option, time) = (format_ident!("{option}"), duration(time));
            request.extend(quote!(.#option(#time)));
        }
    }
    Ok(request)
}

fn duration(time: &Time) -> TokenStream {
    match time {
        Time::Value(value) => value.to_token_stream(),
        Time::Words(words) => quote_spanned! {words.span()=> {
            const __TIME: ::std::time::Duration = ::distlock::macros::duration(#words);
            __TIME
        }},
    }
}

/// Whether it is `Pin<…>`, as a boxed future is.
fn is_pinned(returns: &Type) -> bool {
    let Type::Path(path) = returns else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Pin")
}

/// The type with `_` where it has no name: for each `impl Trait` in it.
fn typed(returns: &Type) -> Type {
    struct Unnamed;
    impl VisitMut for Unnamed {
        fn visit_type_mut(&mut self, of: &mut Type) {
            match of {
                Type::ImplTrait(_) => *of = syn::parse_quote!(_),
                _ => visit_mut::visit_type_mut(self, of),
            }
        }
    }
    let mut returns = returns.clone();
    Unnamed.visit_type_mut(&mut returns);
    returns
}
