//! Conditions from their text.
//!
//! **Invariant**: a text that is refused is refused at the first place where something else was expected.

use super::{Comparison, Condition, Test, Values};
use crate::error::{SyntaxError, quoted};
use crate::marks::{LastBackslash, Mark, end, entries, marks, plain, split_at_first};
use crate::number::Decimal;
use crate::scope::{Own, Scope, Source};
use crate::{ENTRIES_MAX, check_length};

/// What ends the name of a field.
const SIGNS: &str = ":^><?";

pub(super) fn parse(text: &str, scope: Scope) -> Result<Vec<Condition>, SyntaxError> {
    let last = match scope.is_feed {
        true => LastBackslash::Dropped,
        false => LastBackslash::Error,
    };
    check_length(text, scope)?;
    let marks = marks(text, last)?;
    let mut conditions = Vec::new();
    for entry in entries(&marks) {
        if conditions.len() == ENTRIES_MAX {
            let expected = format!("more than {ENTRIES_MAX} entries");
            return Err(SyntaxError::new(entry[0].at, expected));
        }
        conditions.push(condition(entry, scope)?);
    }
    Ok(conditions)
}

fn condition(entry: &[Mark], scope: Scope) -> Result<Condition, SyntaxError> {
    let is_negated = entry[0].is('!');
    let entry_end = end(entry, 0);
    let rest = &entry[usize::from(is_negated)..];
    let Some(first) = rest.first() else {
        return Err(SyntaxError::new(
            entry_end,
            "a field is expected behind `!`",
        ));
    };
    let Some((name, sign, values)) = split_at_first(rest, SIGNS) else {
        return Err(SyntaxError::new(entry_end, no_sign(&plain(rest))));
    };
    if name.is_empty() {
        let expected = format!("a field is expected before `{}`", sign.character);
        return Err(SyntaxError::new(first.at, expected));
    }
    let source = scope.source(&plain(name));
    let source = source.map_err(|expected| SyntaxError::new(first.at, expected))?;
    if source == Source::Own(Own::Position) {
        let expected = "`_position` is counted after `where`";
        return Err(SyntaxError::new(first.at, expected));
    }
    let test = match sign.character {
        ':' => Test::Is(Values::of(texts(values, scope)?)),
        '^' => Test::Begins(beginnings(values, sign, scope)?),
        '?' => match values.first() {
            None => Test::Exists,
            Some(first) => {
                let what = quoted(&plain(values));
                let expected = format!("nothing may stand behind `?`; {what} does");
                return Err(SyntaxError::new(first.at, expected));
            }
        },
        _ => comparison(sign, values)?,
    };
    Ok(Condition {
        is_negated,
        source,
        test,
    })
}

/// What is said of a condition without a test. A text with `=` gets a hint, because most other languages write equality
/// so.
fn no_sign(name: &str) -> String {
    let expected = "`:`, `^`, `>`, `<` or `?` is expected behind";
    let equal = name.split_once('=').map(|(field, value)| {
        let meant = format!("{field}:{}", value.trim_start_matches('='));
        format!("; equal is written {}", quoted(&meant))
    });
    format!("{expected} {}{}", quoted(name), equal.unwrap_or_default())
}

/// Texts between bars. Feeds have no limit, because the length of a URL limits them.
fn texts(values: &[Mark], scope: Scope) -> Result<Vec<String>, SyntaxError> {
    let mut texts = Vec::new();
    for value in values.split(|mark| mark.is('|')) {
        if texts.len() == ENTRIES_MAX && !scope.is_feed {
            let at = value.first().map_or(end(values, 1), |mark| mark.at);
            return Err(SyntaxError::new(
                at,
                format!("more than {ENTRIES_MAX} values"),
            ));
        }
        texts.push(plain(value));
    }
    Ok(texts)
}

/// Texts between bars, none of them empty: that would hold for everything.
fn beginnings(values: &[Mark], sign: Mark, scope: Scope) -> Result<Vec<String>, SyntaxError> {
    let mut before = sign;
    for value in values.split(|mark| mark.is('|')) {
        if value.is_empty() {
            let expected = format!("a beginning is expected behind `{}`", before.character);
            return Err(SyntaxError::new(before.at + 1, expected));
        }
        before = Mark {
            character: '|',
            is_escaped: false,
            at: end(value, 0),
        };
    }
    texts(values, scope)
}

/// A number behind `>`, `>=`, `<` or `<=`.
fn comparison(sign: Mark, values: &[Mark]) -> Result<Test, SyntaxError> {
    let is_or_equal = values.first().is_some_and(|mark| mark.is('='));
    let comparison = match (sign.character, is_or_equal) {
        ('>', true) => Comparison::GreaterOrEqual,
        ('>', false) => Comparison::Greater,
        (_, true) => Comparison::LessOrEqual,
        (_, false) => Comparison::Less,
    };
    let number = &values[usize::from(is_or_equal)..];
    let text = plain(number);
    let Some(decimal) = Decimal::parse(&text) else {
        let begin = sign.at + 1 + usize::from(is_or_equal);
        let at = number.first().map_or(begin, |mark| mark.at);
        let none = match text.is_empty() {
            true => String::new(),
            false => format!("; {} is none", quoted(&text)),
        };
        let sign = comparison.sign();
        let expected = format!("a number is expected behind `{sign}`{none}");
        return Err(SyntaxError::new(at, expected));
    };
    Ok(Test::Compares(comparison, decimal))
}
