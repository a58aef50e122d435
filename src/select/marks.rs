//! The characters of a text of the language, each with whether a backslash takes it as it is.
//!
//! **Invariant**: a text is looked at once; every character can be written, whatever it means elsewhere.

use crate::error::SyntaxError;

/// A character, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) character: char,
    /// A backslash stands before it.
    pub(crate) is_escaped: bool,
    /// Its place, that of the backslash if there is one: from 1. Errors name it.
    pub(crate) at: usize,
}

impl Mark {
    /// Whether it is this character, with its meaning.
    pub(crate) fn is(self, character: char) -> bool {
        self.character == character && !self.is_escaped
    }
}

/// What a backslash at the end of a text is. Feeds keep what they have always accepted, because their URLs are written
/// into other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastBackslash {
    Error,
    /// Nothing, as lists of feeds have it.
    Dropped,
    /// Itself, as templates of feeds have it.
    Itself,
}

pub(crate) fn marks(text: &str, last: LastBackslash) -> Result<Vec<Mark>, SyntaxError> {
    let mut marks = Vec::with_capacity(text.len());
    let mut characters = text.chars().zip(1..);
    while let Some((character, at)) = characters.next() {
        let mark = |character, is_escaped| Mark {
            character,
            is_escaped,
            at,
        };
        if character != '\\' {
            marks.push(mark(character, false));
            continue;
        }
        match (characters.next(), last) {
            (Some((escaped, _)), _) => marks.push(mark(escaped, true)),
            (None, LastBackslash::Itself) => marks.push(mark('\\', true)),
            (None, LastBackslash::Dropped) => {}
            (None, LastBackslash::Error) => {
                return Err(SyntaxError::new(at, "a character is expected behind `\\`"));
            }
        }
    }
    Ok(marks)
}

/// What is meant by them: without backslashes.
pub(crate) fn plain(marks: &[Mark]) -> String {
    marks.iter().map(|mark| mark.character).collect()
}

/// The place behind the last of them; `begin` if there is none.
pub(crate) fn end(marks: &[Mark], begin: usize) -> usize {
    marks
        .last()
        .map_or(begin, |mark| mark.at + 1 + usize::from(mark.is_escaped))
}

/// The parts between commas that have anything in them. Empty parts are passed over, so that a comma at the end changes
/// nothing.
pub(crate) fn entries(marks: &[Mark]) -> impl Iterator<Item = &[Mark]> {
    let parts = marks.split(|mark| mark.is(','));
    parts.filter(|part| !part.is_empty())
}

/// The place and the two sides of the first of these characters that has its meaning.
pub(crate) fn split_at_first<'a>(
    marks: &'a [Mark],
    signs: &str,
) -> Option<(&'a [Mark], Mark, &'a [Mark])> {
    let is_sign = |mark: &Mark| !mark.is_escaped && signs.contains(mark.character);
    let at = marks.iter().position(is_sign)?;
    Some((&marks[..at], marks[at], &marks[at + 1..]))
}

/// The texts of a list between commas, such as `key=m1,m2`. Those that are empty are passed over, and a backslash at the
/// end is. It fails on no text, because the URLs of feeds rely on that.
pub fn list(text: &str) -> Vec<String> {
    let marks = marks(text, LastBackslash::Dropped).unwrap_or_default();
    entries(&marks).map(plain).collect()
}

/// Appends a text, with a backslash before each of these characters. A backslash gets one too, because it would
/// otherwise escape what follows.
pub(crate) fn escape_into(text: &str, signs: &str, out: &mut String) {
    for character in text.chars() {
        if character == '\\' || signs.contains(character) {
            out.push('\\');
        }
        out.push(character);
    }
}
