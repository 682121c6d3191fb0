//! Licence expressions of SPDX: `(MIT OR Apache-2.0) AND Unicode-3.0`.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::vec::IntoIter;

/// Whether the terms of `expression` can be met with the `allowed` licences alone; an error if it cannot be read.
///
/// An entry with an exception, `Apache-2.0 WITH LLVM-exception`, is a licence of its own: it has to be allowed as such.
pub(crate) fn is_satisfied(expression: &str, allowed: &BTreeSet<String>) -> Result<bool, String> {
    let mut reader = Reader { tokens: tokens(expression).into_iter().peekable(), allowed };
    let satisfied = reader.any()?;
    match reader.tokens.next() {
        None => Ok(satisfied),
        Some(token) => Err(format!("{token:?} is not expected")),
    }
}

/// Before SPDX, crates wrote `MIT/Apache-2.0` for a choice.
fn tokens(expression: &str) -> Vec<String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

struct Reader<'a> {
    tokens: Peekable<IntoIter<String>>,
    allowed: &'a BTreeSet<String>,
}

// Both sides are always read, also where the first decides: what follows has to be right as well.
impl Reader<'_> {
    /// `all OR all …`
    fn any(&mut self) -> Result<bool, String> {
        let mut satisfied = self.all()?;
        while self.takes("OR") {
            satisfied |= self.all()?;
        }
        Ok(satisfied)
    }

    /// `one AND one …`, which binds more closely than `OR`.
    fn all(&mut self) -> Result<bool, String> {
        let mut satisfied = self.one()?;
        while self.takes("AND") {
            satisfied &= self.one()?;
        }
        Ok(satisfied)
    }

    /// `( any )`, `licence` or `licence WITH exception`.
    fn one(&mut self) -> Result<bool, String> {
        if self.takes("(") {
            let satisfied = self.any()?;
            return match self.takes(")") {
                true => Ok(satisfied),
                false => Err("a parenthesis is not closed".into()),
            };
        }
        let mut licence = self.name()?;
        if self.takes("WITH") {
            licence = format!("{licence} WITH {}", self.name()?);
        }
        // `X+`: X or later.
        let plain = licence.strip_suffix('+').unwrap_or(&licence);
        Ok(self.allowed.contains(&licence) || self.allowed.contains(plain))
    }

    fn name(&mut self) -> Result<String, String> {
        match self.tokens.next() {
            None => Err("it ends where a licence should be".into()),
            Some(token) if ["OR", "AND", "WITH", "(", ")"].contains(&token.as_str()) => {
                Err(format!("{token:?} stands where a licence should be"))
            }
            Some(token) => Ok(token),
        }
    }

    fn takes(&mut self, token: &str) -> bool {
        self.tokens.next_if(|next| next == token).is_some()
    }
}

#[cfg(test)]
mod tests {
    fn is_satisfied(expression: &str) -> Result<bool, String> {
        let allowed = ["MIT", "Apache-2.0", "ISC", "Apache-2.0 WITH LLVM-exception", "Zlib"];
        super::is_satisfied(expression, &allowed.map(str::to_owned).into())
    }

    #[test]
    fn one_of_a_choice_and_all_of_a_list() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0 OR MIT",
            "MIT AND ISC",
            "MIT/Apache-2.0",
            "GPL-3.0 / MIT",
            "(MIT OR GPL-3.0) AND ISC",
            "((MIT))",
            "GPL-3.0 AND BSD OR MIT",
            "MIT OR GPL-3.0 AND BSD",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "Apache-2.0+",
        ] {
            assert_eq!(is_satisfied(good), Ok(true), "{good}");
        }
        for bad in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "GPL-3.0 OR ISC AND BSD",
            "(MIT OR ISC) AND GPL-3.0",
            "ISC WITH LLVM-exception",
            "GPL-3.0 WITH Classpath-exception-2.0",
            "mit",
            "LGPL-2.1-or-later",
        ] {
            assert_eq!(is_satisfied(bad), Ok(false), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for bad in ["", "MIT OR", "OR MIT", "(MIT", "MIT)", "MIT ISC", "MIT WITH", "()", "MIT//ISC"]
        {
            assert!(is_satisfied(bad).is_err(), "{bad}");
        }
    }
}
