//! Names with arguments in them: `order:{order.id}` becomes `format!("order:{}", order.id)`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::{Error, Expr, LitStr, Result};

/// The expression that makes the name.
pub(crate) fn name(literal: &LitStr) -> Result<TokenStream> {
    let (format, values) = split(literal)?;
    if format.is_empty() {
        return Err(Error::new(literal.span(), "a lock's name cannot be empty"));
    }
    let format = LitStr::new(&format, literal.span());
    Ok(match values.is_empty() {
        true => quote!(::std::format!(#format)),
        false => quote_spanned!(literal.span()=> ::std::format!(#format, #(#values),*)),
    })
}

/// A format string without names in it, and what goes into it in order.
fn split(literal: &LitStr) -> Result<(String, Vec<Expr>)> {
    let text = literal.value();
    let error = |text: String| Error::new(literal.span(), text);
    let (mut format, mut values) = (String::new(), Vec::new());
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        format.push_str(&rest[..at]);
        let (brace, tail) = rest[at..].split_at(1);
        if let Some(tail) = tail.strip_prefix(brace) {
            format.push_str(brace);
            format.push_str(brace);
            rest = tail;
            continue;
        }
        if brace == "}" {
            return Err(error(
                "a `}` without its `{`: write `}}` for the character itself".to_owned(),
            ));
        }
        let end = closing(tail).ok_or_else(|| {
            error("a `{` without its `}`: write `{{` for the character itself".to_owned())
        })?;
        let (value, spec) = spec(&tail[..end]);
        if value.trim().is_empty() {
            return Err(error(
                "nothing between the braces: write an argument, as in `{order.id}`".to_owned(),
            ));
        }
        let parsed = Expr::parse_without_eager_brace
            .parse_str(value)
            .map_err(|why| error(format!("`{value}` between the braces cannot be read: {why}")))?;
        values.push(respanned(parsed, literal));
        format.push('{');
        format.push_str(spec);
        format.push('}');
        rest = &tail[end + 1..];
    }
    format.push_str(rest);
    Ok((format, values))
}

/// Where the brace that is open now is closed.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The expression, and how it is to be formatted: what comes after a single colon.
fn spec(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut depth = 0;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b':' if depth == 0
                && bytes.get(at + 1) != Some(&b':')
                && (at == 0 || bytes[at - 1] != b':') =>
            {
                return text.split_at(at);
            }
            _ => {}
        }
    }
    (text, "")
}

/// The same with the literal's place, so that errors about it point there, and its words mean what they mean there.
fn respanned(value: Expr, literal: &LitStr) -> Expr {
    use quote::ToTokens;
    fn respan(tokens: TokenStream, span: proc_macro2::Span) -> TokenStream {
        tokens
            .into_iter()
            .map(|mut token| {
                if let proc_macro2::TokenTree::Group(group) = &token {
                    let inner = respan(group.stream(), span);
                    token = proc_macro2::Group::new(group.delimiter(), inner).into();
                }
                token.set_span(span);
                token
            })
            .collect()
    }
    Expr::Verbatim(respan(value.into_token_stream(), literal.span()))
}
