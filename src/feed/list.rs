//! Lists and patterns as they stand in the query of a feed: `a,b:c`, `{home.name} {home.score}`.
//!
//! **Invariant**: a backslash takes the character after it as it is, so every name of a field can be written.

use std::mem::take;

use super::column::Source;

/// Text, with values of an item in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Part {
    /// As it is written.
    Text(String),
    /// What the item has there.
    Value(Source),
}

/// The parts of a text between characters that separate; each is left with its backslashes.
pub(super) fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut begin = 0;
    let mut is_escaped = false;
    for (at, character) in text.char_indices() {
        if character == separator && !is_escaped {
            parts.push(&text[begin..at]);
            begin = at + character.len_utf8();
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    parts.push(&text[begin..]);
    parts
}

/// The text before the first character that separates, and what is behind it.
pub(super) fn split_once(text: &str, separator: char) -> Option<(&str, &str)> {
    let before = split(text, separator)[0];
    let after = text.get(before.len() + separator.len_utf8()..)?;
    Some((before, after))
}

/// What is meant by a part: without its backslashes.
pub(super) fn plain(part: &str) -> String {
    let mut text = String::with_capacity(part.len());
    let mut characters = part.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

/// The text as a part of a list has it.
pub(super) fn escaped(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '\\' | ',' | ':' | '|' | '{' | '}') {
            part.push('\\');
        }
        part.push(character);
    }
    part
}

/// Reads a pattern: `{field}` stands for a value, everything else for itself.
pub(super) fn pattern(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain_text = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match (character, rest.chars().next(), split_once(rest, '}')) {
            ('\\', Some(next), _) => {
                plain_text.push(next);
                rest = &rest[next.len_utf8()..];
            }
            ('{', _, Some((name, after))) => {
                if !plain_text.is_empty() {
                    parts.push(Part::Text(take(&mut plain_text)));
                }
                parts.push(Part::Value(Source::of(&plain(name))));
                rest = after;
            }
            _ => plain_text.push(character),
        }
    }
    if !plain_text.is_empty() {
        parts.push(Part::Text(plain_text));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_split_where_nothing_is_escaped() {
        assert_eq!(split(r"a,b\,c,\\,d", ','), ["a", r"b\,c", r"\\", "d"]);
        assert_eq!(split("", ','), [""]);
        assert_eq!(split_once(r"n\:m:a:b", ':'), Some((r"n\:m", "a:b")));
        assert_eq!(split_once("plain", ':'), None);
        assert_eq!(plain(r"b\,c\\\"), r"b,c\");
        let name = r"a,b:c|d{e}\f";
        assert_eq!(plain(&escaped(name)), name);
        assert_eq!(split(&escaped(name), ',').len(), 1);
    }

    #[test]
    fn patterns_are_text_with_values() {
        let value = |name: &str| Part::Value(Source::of(name));
        let text = |text: &str| Part::Text(text.to_owned());
        assert_eq!(
            pattern(r"{a.b} {c}:\{d} {_key}{e"),
            [
                value("a.b"),
                text(" "),
                value("c"),
                text(":{d} "),
                value("_key"),
                text("{e")
            ]
        );
        assert_eq!(pattern(""), []);
    }
}
