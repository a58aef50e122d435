//! Texts as PostgreSQL takes them: it knows no U+0000, and callers send some.
//!
//! **Invariant**: what is written is read back as it was.

use std::borrow::Cow;

/// Stands before what stands for another character. Nobody's text has it, and where one has, it is written twice. So
/// every text comes back as it was, also one that has it.
const MARK: char = '\u{10FFFF}';
const NUL: char = '0';

/// As it is stored.
pub(super) fn stored(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', MARK]) {
        return Cow::Borrowed(text);
    }
    let mut stored = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => stored.extend([MARK, NUL]),
            MARK => stored.extend([MARK, MARK]),
            other => stored.push(other),
        }
    }
    Cow::Owned(stored)
}

/// As it was.
pub(super) fn read(stored: String) -> String {
    if !stored.contains(MARK) {
        return stored;
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        match character {
            MARK => match characters.next() {
                Some(NUL) => text.push('\0'),
                other => text.extend(other),
            },
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(text in "[a0\u{0}\u{10FFFF}ü]{0,12}") {
            let stored = stored(&text);
            prop_assert!(!stored.contains('\0'));
            prop_assert_eq!(read(stored.into_owned()), text);
        }
    }
}
