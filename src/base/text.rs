//! Text that comes from outside, or goes out as a part of something else.
//!
//! The command line and the pages show hostile text, and put names into addresses and shell commands; both do it with
//! these functions, so that what one of them hides the other does not print.
//!
//! **Invariant**: what is made visible holds no character that steers a terminal, turns the text around it, or takes
//! part in a name without being seen. What is encoded or quoted is one segment, one value, one word.

use std::borrow::Cow;
use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What stands in an address is this and letters and digits (RFC 3986, "unreserved").
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Bytes as lower-case hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(HEX_DIGITS[usize::from(half)]));
        }
    }
    text
}

/// The text with what cannot be seen written out: `\u{1b}`, `\n`.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, &[], |out, character| {
        out.extend(character.escape_default());
    })
}

/// The same for a text of several lines: its line breaks stay.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    escaped(text, &['\n'], |out, character| {
        out.extend(character.escape_default());
    })
}

/// JSON text with what cannot be seen escaped as JSON escapes it (`\u009b`): the same JSON. White space between its
/// tokens stays.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Inside strings JSON itself has none of these.
    escaped(json, &['\n', '\r', '\t'], |out, character| {
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

/// The text as one segment of a path, or one value of a query.
pub fn percent_encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// The text as one word of a POSIX shell, which expands and obeys nothing of it.
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn escaped<'a>(text: &'a str, kept: &[char], escape: impl Fn(&mut String, char)) -> Cow<'a, str> {
    // Nearly all text is ASCII without controls.
    let is_plain = |byte: u8| byte.is_ascii() && !byte.is_ascii_control();
    let Some(plain) = text.bytes().position(|byte| !is_plain(byte)) else {
        return Cow::Borrowed(text);
    };
    let mut out = String::with_capacity(text.len() + 16);
    let (head, rest) = text.split_at(plain);
    out.push_str(head);
    let mut before = head.chars().next_back();
    for character in rest.chars() {
        if is_hidden(character, before) && !kept.contains(&character) {
            escape(&mut out, character);
        } else {
            out.push(character);
        }
        before = Some(character);
    }
    // What is escaped is longer.
    match out.len() == text.len() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(out),
    }
}

/// Controls, marks of direction, and what Unicode lets programs leave out (`Default_Ignorable_Code_Point`). Joiners and
/// selectors belong to scripts and pictures: after ASCII, or at the beginning, they only hide.
fn is_hidden(character: char, before: Option<char>) -> bool {
    match character {
        '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}' => {
            before.is_none_or(|before| before.is_ascii())
        }
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => {
            true
        }
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' => true,
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => character.is_control(),
    }
}

/// The known word that was probably meant, if one is near enough. A long word is not compared, because the time grows
/// with the lengths of both.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 256 {
        return None;
    }
    let word = word.to_lowercase();
    let allowed = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .filter_map(|candidate| {
            let distance = strsim::osa_distance(&word, &candidate.to_lowercase());
            if distance <= allowed {
                Some((distance, candidate))
            } else if word.len() >= 4 && candidate.contains(&word) {
                // "max_body" for "max_body_bytes": a part of the name was remembered.
                Some((usize::MAX, candidate))
            } else {
                None
            }
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
