//! What was expected, and where.
//!
//! **Invariant**: places are counted in code points from 1; of what was written at most 40 characters are repeated, and
//! no control character.

use std::fmt;

/// Characters of a text that an error repeats, at most.
const QUOTED_MAX: usize = 40;

/// Why a text cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// The setting or parameter that has the text.
    pub setting: String,
    /// The place in it, from 1; one behind the last character if something is missing at the end. Characters instead of
    /// bytes, because people count those.
    pub character: usize,
    pub expected: String,
}

impl SyntaxError {
    pub(crate) fn new(character: usize, expected: impl Into<String>) -> Self {
        Self {
            setting: String::new(),
            character,
            expected: expected.into(),
        }
    }

    /// The same of this setting.
    pub fn of(self, setting: impl Into<String>) -> Self {
        Self {
            setting: setting.into(),
            ..self
        }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (setting, character) = (&self.setting, self.character);
        write!(f, "{setting}, character {character}: {}", self.expected)
    }
}

impl std::error::Error for SyntaxError {}

/// Whether a text begins or ends with a space.
pub(crate) fn is_spaced(text: &str) -> bool {
    text.trim_matches(' ').len() < text.len()
}

/// A text as errors repeat it. A control character could otherwise change what a terminal shows.
pub(crate) fn quoted(text: &str) -> String {
    let visible = |character: char| match character.is_control() {
        true => char::REPLACEMENT_CHARACTER,
        false => character,
    };
    let mut short: String = text.chars().take(QUOTED_MAX).map(visible).collect();
    if text.chars().nth(QUOTED_MAX).is_some() {
        short.push('…');
    }
    format!("`{short}`")
}
