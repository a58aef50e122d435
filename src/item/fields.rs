//! Reading flat JSON objects: members, merging, names as text, and the shape of an item.
//!
//! Owns everything that looks inside the fields of an item after they were written. Called by the pool
//! (columns, merging updates), live, and the plugin host; `ingest::flatten` uses the name functions.
//!
//! **Invariant**: the text comes from `ingest::flatten` (an object without white space between tokens, names
//! in canonical form, no name twice), so equal names are equal bytes and nothing is validated again. On any
//! other text the functions give unspecified results or end early, but never panic.

use std::borrow::Cow;
use std::collections::HashMap;

use memchr::{memchr2, memchr3};

/// Up to this many fields, names are looked for one after the other. A table of hashes costs more than that.
const LINEAR_MAX: usize = 16;

/// Iterates the members of a flat JSON object text: the name with its quotes and escapes as written, and
/// the text of the value.
pub fn members(fields: &str) -> Members<'_> {
    Members {
        rest: fields.strip_prefix('{').unwrap_or_default(),
    }
}

/// Iterates members, see [`members`].
#[derive(Clone, Debug)]
pub struct Members<'a> {
    /// At the quote of the next name, or at the closing brace.
    rest: &'a str,
}

impl<'a> Iterator for Members<'a> {
    type Item = (&'a str, &'a str);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        self.rest = "";
        if !rest.starts_with('"') {
            return None;
        }
        let (name, rest) = rest.split_at_checked(string_len(rest.as_bytes())?)?;
        let rest = rest.strip_prefix(':')?;
        let (value, rest) = rest.split_at_checked(value_len(rest.as_bytes())?)?;
        self.rest = rest.strip_prefix(',').unwrap_or_default();
        Some((name, value))
    }
}

/// Length of the value that `bytes` starts with.
fn value_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'"' => string_len(bytes),
        b'[' => nested_len(bytes, b'[', b']'),
        b'{' => nested_len(bytes, b'{', b'}'),
        _ => memchr2(b',', b'}', bytes),
    }
}

/// Length of the string that `bytes` starts with, both quotes included.
#[inline]
fn string_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Length of the array or object that `bytes` starts with. Counting one kind of bracket is enough: in valid
/// JSON the other kind is balanced inside it.
fn nested_len(bytes: &[u8], open: u8, close: u8) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        at += memchr3(b'"', open, close, bytes.get(at..)?)?;
        match bytes[at] {
            b'"' => at += string_len(&bytes[at..])?,
            byte if byte == open => {
                depth += 1;
                at += 1;
            }
            _ => {
                depth = depth.checked_sub(1)?;
                at += 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
    }
}

/// Merges an update into an item: fields of `new` win, fields of `old` that `new` does not name stay.
/// Order: that of `old`, then what only `new` has.
pub fn merge(old: &str, new: &str) -> String {
    // By far the most frequent update names the same fields in the same order: then it is the result.
    if members(old)
        .map(|(name, _)| name)
        .eq(members(new).map(|(name, _)| name))
    {
        return new.to_owned();
    }
    let mut updates: Vec<Option<(&str, &str)>> = members(new).map(Some).collect();
    let index: HashMap<&str, usize> = if updates.len() > LINEAR_MAX {
        members(new).map(|(name, _)| name).zip(0..).collect()
    } else {
        HashMap::new()
    };
    let mut take = |name: &str| {
        let at = if index.is_empty() {
            updates
                .iter()
                .position(|update| update.is_some_and(|(n, _)| n == name))
        } else {
            index.get(name).copied()
        };
        updates[at?].take()
    };

    let mut merged = String::with_capacity(old.len() + new.len());
    merged.push('{');
    for (name, value) in members(old) {
        let value = take(name).map_or(value, |(_, update)| update);
        push_member(&mut merged, name, value);
    }
    for (name, value) in updates.into_iter().flatten() {
        push_member(&mut merged, name, value);
    }
    merged.push('}');
    merged
}

fn push_member(object: &mut String, name: &str, value: &str) {
    if object.len() > 1 {
        object.push(',');
    }
    object.push_str(name);
    object.push(':');
    object.push_str(value);
}

/// Decodes a member's name as written (with quotes and escapes) to text. Also decodes string values.
pub fn field_name(raw: &str) -> Cow<'_, str> {
    let inner = raw.strip_prefix('"').unwrap_or(raw);
    unescape(inner.strip_suffix('"').unwrap_or(inner))
}

/// Decodes the inside of a JSON string. What is not a valid escape becomes U+FFFD.
pub fn unescape(inner: &str) -> Cow<'_, str> {
    let Some(first) = memchr::memchr(b'\\', inner.as_bytes()) else {
        return Cow::Borrowed(inner);
    };
    let mut text = String::with_capacity(inner.len());
    text.push_str(&inner[..first]);
    let mut rest = &inner[first..];
    while let Some(after) = rest.strip_prefix('\\') {
        rest = unescape_one(after, &mut text);
        let plain = rest.find('\\').unwrap_or(rest.len());
        text.push_str(&rest[..plain]);
        rest = &rest[plain..];
    }
    Cow::Owned(text)
}

/// Decodes the escape whose backslash stands before `after`; returns what follows it.
fn unescape_one<'a>(after: &'a str, text: &mut String) -> &'a str {
    let mut chars = after.chars();
    let decoded = match chars.next() {
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some(same @ ('"' | '\\' | '/')) => same,
        Some('u') => {
            let (decoded, len) = unescape_unicode(chars.as_str());
            text.push(decoded);
            return chars.as_str().get(len..).unwrap_or_default();
        }
        _ => char::REPLACEMENT_CHARACTER,
    };
    text.push(decoded);
    chars.as_str()
}

/// Decodes four hex digits, or a pair of surrogates (`d83d\ude00`); returns the length of what was decoded.
fn unescape_unicode(digits: &str) -> (char, usize) {
    let unit = |at: usize| {
        let hex = digits.get(at..at + 4)?;
        u16::from_str_radix(hex, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, 0);
    };
    let second = (digits.get(4..6) == Some("\\u")).then(|| unit(6)).flatten();
    let units = [first, second.unwrap_or(0)];
    match char::decode_utf16(units).next() {
        Some(Ok(decoded)) => (decoded, if decoded.len_utf16() == 2 { 10 } else { 4 }),
        _ => (char::REPLACEMENT_CHARACTER, 4),
    }
}

/// Appends `text` as a JSON string.
pub fn string_into(text: &str, out: &mut String) {
    out.push('"');
    quote_into(text, out);
    out.push('"');
}

/// Appends `text` as the inside of a JSON string in canonical form: only `"`, `\` and control characters
/// are escaped, by their short form (`\n`) where there is one, else as `\u001f`. This is the form of all
/// field names.
pub fn quote_into(text: &str, out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = text;
    while let Some(plain) = rest
        .bytes()
        .position(|b| b < 0x20 || matches!(b, b'"' | b'\\'))
    {
        out.push_str(&rest[..plain]);
        let byte = rest.as_bytes()[plain];
        let short = match byte {
            0x08 => 'b',
            0x0c => 'f',
            b'\n' => 'n',
            b'\r' => 'r',
            b'\t' => 't',
            b'"' | b'\\' => byte.into(),
            _ => 'u',
        };
        out.push('\\');
        out.push(short);
        if short == 'u' {
            out.push_str("00");
            out.push(HEX[usize::from(byte >> 4)].into());
            out.push(HEX[usize::from(byte & 15)].into());
        }
        rest = &rest[plain + 1..];
    }
    out.push_str(rest);
}

/// The shape of a flat object: a hash of its field names in their order, the same in every process and
/// version. Only used to notice that a set of names is new, so a chance collision costs nothing but a
/// column that appears with the next shape.
pub fn shape(fields: &str) -> u64 {
    let mut hash = ShapeHash::default();
    for (name, _) in members(fields) {
        // Cannot underflow: a member's name has both its quotes.
        hash.add(name_hash(&name.as_bytes()[1..name.len() - 1]));
    }
    hash.finish()
}

/// Builds a [`shape`] name by name.
#[derive(Clone, Copy, Debug)]
pub struct ShapeHash(u64);

impl Default for ShapeHash {
    fn default() -> Self {
        Self(SEED)
    }
}

impl ShapeHash {
    /// Adds the next field, by the [`name_hash`] of its name.
    #[inline]
    pub fn add(&mut self, name_hash: u64) {
        self.0 = fold(self.0 ^ name_hash, MULTIPLIER).wrapping_add(1);
    }

    pub fn finish(self) -> u64 {
        self.0
    }
}

// Odd constants with well-mixed bits (fractions of pi and of the golden ratio). Stored shapes depend on them.
const SEED: u64 = 0x243f_6a88_85a3_08d3;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hash of a field name in canonical form, without its quotes: fixed for ever, and not safe against
/// chosen collisions. Where those would hurt, use a keyed hash instead.
#[inline]
pub fn name_hash(name: &[u8]) -> u64 {
    let len = name.len();
    let mut hash = SEED ^ (len as u64);
    let mut rest = name;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash = fold(hash ^ u64::from_le_bytes(*word), MULTIPLIER);
        rest = after;
    }
    // The length is in the hash, so overlapping reads of the tail cannot make two names of different
    // length equal.
    let tail = match (rest.first_chunk::<4>(), rest.last_chunk::<4>(), rest) {
        (Some(low), Some(high), _) => {
            u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << 32
        }
        (_, _, []) => return hash,
        (_, _, short) => {
            let byte = |at: usize| u64::from(short[at]);
            byte(0) | byte(short.len() / 2) << 8 | byte(short.len() - 1) << 16
        }
    };
    fold(hash ^ tail, MULTIPLIER)
}

/// Multiplies to 128 bits and folds the halves: every input bit reaches every output bit.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}
