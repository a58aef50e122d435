//! The form of keys: how they are made, checked for typos, hashed and shown.
//!
//! The catalog stores and looks up [`KeyHash`]es; the command line makes keys with [`generate`];
//! the request log and the admin pages show [`prefix`].
//!
//! A key of our own form is `ik_live_` (or `ik_test_`, `rk_live_`, `ok_live_`), 8 characters of public id, `_`,
//! 32 secret characters and 6 characters of CRC32 over everything before them, all base62.
//! A key declared in a configuration file may have other forms, so [`check_form`] helps people to
//! find typos and decides nothing about access: only the hash does.
//!
//! **Invariant**: nothing in this file prints, logs or formats more than a third of a key, except
//! [`KeyText::expose`], which says so in its name.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::text::hex;

/// The digits of base62, in the order of their values.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KIND_LEN: usize = 8;
const PUBLIC_ID_LEN: usize = 8;
const SECRET_LEN: usize = 32;
const CHECKSUM_LEN: usize = 6;
const PREFIX_LEN: usize = KIND_LEN + PUBLIC_ID_LEN;
const CHECKED_LEN: usize = PREFIX_LEN + 1 + SECRET_LEN;

/// The length of a key of our own form, in bytes.
pub const KEY_LEN: usize = CHECKED_LEN + CHECKSUM_LEN;

/// The most characters shown of a key that is not of our own form, because nobody knows which part of it is secret.
const FOREIGN_SHOWN_MAX: usize = 8;

/// What a key is for; each kind has its own beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyKind {
    /// `ik_live_`: submits items.
    Ingest,
    /// `ik_test_`: submits items that are checked and logged, and reach no sink.
    IngestTest,
    /// `rk_live_`: reads streams, can never submit.
    Read,
    /// `ok_live_`: reads streams, and overrides and holds what they show.
    Operate,
}

impl KeyKind {
    const ALL: [KeyKind; 4] = [
        KeyKind::Ingest,
        KeyKind::IngestTest,
        KeyKind::Read,
        KeyKind::Operate,
    ];

    /// The beginning of every key of this kind that we make.
    pub fn marker(self) -> &'static str {
        match self {
            KeyKind::Ingest => "ik_live_",
            KeyKind::IngestTest => "ik_test_",
            KeyKind::Read => "rk_live_",
            KeyKind::Operate => "ok_live_",
        }
    }
}

/// The whole text of a key, in memory only until it has been shown once. `Debug` shows its prefix.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    /// The secret that a tool made for itself.
    pub fn of_tool(text: &str) -> KeyText {
        KeyText(text.to_owned())
    }

    /// The secret itself: for the one place that hands it to its owner.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored in place of the key.
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(&self.0)
    }

    /// The part that may be shown and logged; see [`prefix`].
    pub fn prefix(&self) -> &str {
        prefix(&self.0)
    }
}

impl fmt::Debug for KeyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyText({}…)", self.prefix())
    }
}

/// SHA-256 of the whole text of a key: what is stored, and what requests are looked up by.
///
/// A plain hash is enough, because a key carries 190 bits of randomness: there is nothing to guess.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// A hash that no key is known to have: stands where there is no key.
    pub const NONE: KeyHash = KeyHash([0; 32]);

    /// Hashes the key as it was sent, byte for byte.
    pub fn of(key: &str) -> KeyHash {
        KeyHash(Sha256::digest(key.as_bytes()).into())
    }

    /// What a certificate with this SHA-256 is looked up by. Of no text that can be sent it is the SHA-256, because nobody
    /// can find one with the opposite of a given digest.
    pub fn of_certificate(fingerprint: [u8; 32]) -> KeyHash {
        let digest: [u8; 32] = Sha256::digest(fingerprint).into();
        KeyHash(digest.map(|byte| !byte))
    }

    /// A hash that was read back from storage.
    pub fn from_bytes(bytes: [u8; 32]) -> KeyHash {
        KeyHash(bytes)
    }

    /// The 32 bytes, for storage.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// 64 lower-case hexadecimal digits.
impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0;
        write!(f, "KeyHash({a:02x}{b:02x}{c:02x}{d:02x}…)")
    }
}

/// Why a text is not the SHA-256 of a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyHashError {
    /// The text has the wrong length.
    #[error("a SHA-256 has 64 hexadecimal digits, this one has {0} characters")]
    Length(usize),
    /// A character is not a hexadecimal digit; counted from 1.
    #[error("character {0} of the SHA-256 is not a hexadecimal digit")]
    Digit(usize),
}

impl FromStr for KeyHash {
    type Err = KeyHashError;

    /// Reads 64 hexadecimal digits, upper or lower case.
    fn from_str(text: &str) -> Result<KeyHash, KeyHashError> {
        let chars = text.chars().count();
        if chars != 64 {
            return Err(KeyHashError::Length(chars));
        }
        let mut bytes = [0u8; 32];
        for (at, digit) in text.chars().enumerate() {
            let value = digit.to_digit(16).ok_or(KeyHashError::Digit(at + 1))?;
            // Two digits a byte, the high half first; a hexadecimal digit fits in four bits.
            bytes[at / 2] = bytes[at / 2] << 4 | value as u8;
        }
        Ok(KeyHash(bytes))
    }
}

/// Why a text is not a key of our own form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFormError {
    /// It begins with none of the known markers.
    #[error("a key begins with ik_live_, ik_test_, rk_live_ or ok_live_")]
    Marker,
    /// It has the wrong number of characters.
    #[error(
        "a key has {KEY_LEN} characters, this one has {0}: was it cut, or pasted with a space?"
    )]
    Length(usize),
    /// It has a character that no key has; counted from 1.
    #[error("character {0} can't be part of a key: was something pasted along with it?")]
    Character(usize),
    /// All its characters are possible, and they do not belong together.
    #[error("the key's checksum does not match: a character is wrong")]
    Checksum,
}

/// Makes a new key of our own form from the operating system's randomness. The checksum lets a typo be found before a
/// server is asked.
///
/// Fails only where the operating system has no randomness to give.
pub fn generate(kind: KeyKind) -> Result<KeyText, getrandom::Error> {
    let mut text = String::with_capacity(KEY_LEN);
    text.push_str(kind.marker());
    push_random_base62(&mut text, PUBLIC_ID_LEN)?;
    text.push('_');
    push_random_base62(&mut text, SECRET_LEN)?;
    let sum = checksum(&text);
    text.extend(sum.iter().map(|digit| char::from(*digit)));
    Ok(KeyText(text))
}

/// Checks that a text is a key of our own form, to find typos before a server is asked.
///
/// Every change of a single character is found. Passing says nothing about access.
pub fn check_form(text: &str) -> Result<(), KeyFormError> {
    if !KeyKind::ALL
        .iter()
        .any(|kind| text.starts_with(kind.marker()))
    {
        return Err(KeyFormError::Marker);
    }
    let possible = |(at, c): (usize, char)| match at {
        PREFIX_LEN => c == '_',
        at if at < KIND_LEN => true,
        _ => c.is_ascii_alphanumeric(),
    };
    let chars = text.chars().count();
    if chars != KEY_LEN {
        return Err(KeyFormError::Length(chars));
    }
    if let Some(at) = text.chars().enumerate().position(|found| !possible(found)) {
        return Err(KeyFormError::Character(at + 1));
    }
    // All characters are ASCII from here on, so that bytes and characters are the same.
    let (checked, sum) = text.split_at(CHECKED_LEN);
    if sum.as_bytes() == checksum(checked) {
        Ok(())
    } else {
        Err(KeyFormError::Checksum)
    }
}

/// The part of a key that may be shown and logged.
///
/// For a key of our own form: marker and public id, `ik_live_a1b2c3d4`, which reveals nothing of
/// the secret. For any other text: at most its first 8 characters, and never more than a third.
pub fn prefix(text: &str) -> &str {
    if check_form(text).is_ok() {
        return &text[..PREFIX_LEN];
    }
    let shown = (text.chars().count() / 3).min(FOREIGN_SHOWN_MAX);
    let end = text.char_indices().nth(shown).map_or(0, |(at, _)| at);
    &text[..end]
}

/// Whether requests with this key are checked and logged only (`ik_test_…`).
pub fn is_test(text: &str) -> bool {
    text.starts_with(KeyKind::IngestTest.marker())
}

/// Appends base62 digits, all equally likely.
fn push_random_base62(text: &mut String, len: usize) -> Result<(), getrandom::Error> {
    // The largest multiple of 62 in a byte: what lies above it would favour the first digits.
    const FAIR_BELOW: u8 = 248;
    let end = text.len() + len;
    let mut random = [0u8; 64];
    while text.len() < end {
        getrandom::fill(&mut random)?;
        let fair = random.iter().filter(|byte| **byte < FAIR_BELOW);
        let wanted = end - text.len();
        text.extend(
            fair.take(wanted)
                .map(|byte| char::from(BASE62[usize::from(byte % 62)])),
        );
    }
    Ok(())
}

/// CRC32 (IEEE) of the text as six base62 digits, the most significant first.
fn checksum(text: &str) -> [u8; CHECKSUM_LEN] {
    let mut rest = crc32fast::hash(text.as_bytes());
    let mut digits = [BASE62[0]; CHECKSUM_LEN];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[(rest % 62) as usize];
        rest /= 62;
    }
    digits
}

#[cfg(test)]
mod tests;
