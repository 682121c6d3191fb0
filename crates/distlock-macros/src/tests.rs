//! What a caller reads whose function the attribute refuses. `tests/refused/*.rs` are such functions, and the `.txt` beside each lists
//! the errors with the line and the column at which they point. The compiler does not run: it words no error of the attribute.
//! Functions that the attribute accepts are in the library's `tests/apps/locked`.

use std::fmt::Write;

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Attribute, Item, Meta};

fn errors(file: &str) -> String {
    let mut errors = String::new();
    for mut item in syn::parse_file(file).unwrap().items {
        let Some(attributes) = attributes(&mut item) else { continue };
        let Some(place) = attributes.iter().position(|one| one.path().is_ident("locked")) else {
            continue;
        };
        let attribute = attributes.remove(place);
        let args = match &attribute.meta {
            Meta::List(list) => list.tokens.clone(),
            _ => TokenStream::new(),
        };
        let error = crate::expand(args, item.to_token_stream()).expect_err("it is refused");
        let mut at = error.span().start();
        if at == Span::call_site().start() {
            at = attribute.span().start();
        }
        writeln!(errors, "{}:{}: {error}", at.line, at.column + 1).unwrap();
    }
    errors
}

fn attributes(item: &mut Item) -> Option<&mut Vec<Attribute>> {
    match item {
        Item::Fn(function) => Some(&mut function.attrs),
        Item::Struct(structure) => Some(&mut structure.attrs),
        _ => None,
    }
}

/// `compare!("arguments")`: the functions in `tests/refused/arguments.rs` have the errors in `arguments.txt`.
macro_rules! compare {
    ($name:literal) => {
        let errors = errors(include_str!(concat!("../tests/refused/", $name, ".rs")));
        let expected = include_str!(concat!("../tests/refused/", $name, ".txt"));
        assert!(!errors.is_empty() && errors == expected, "{}.txt would be:\n{errors}", $name);
    };
}

#[test]
fn wrong_arguments_are_explained() {
    compare!("arguments");
}

#[test]
fn functions_that_cannot_be_locked_are_explained() {
    compare!("functions");
}

#[test]
fn wrong_names_are_explained() {
    compare!("names");
}
