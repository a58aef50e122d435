//! The tokens of JSON (RFC 8259), read one after the other from the body.
//!
//! Owns the grammar of strings, numbers and literals, and where in the body something stands. Called by
//! `flatten` and `walk`, which own the grammar of objects and arrays.
//!
//! **Invariant**: `at` is never beyond the end and, outside of a call, on a character boundary. A token that
//! was read without an error is valid; nothing is decoded here.

use super::BODY_BYTES_MAX;
use super::error::{Detail, Fault, FlattenError};

/// Reads tokens.
pub(super) struct Scan<'a> {
    text: &'a str,
    /// Position of the next byte.
    pub(super) at: usize,
}

/// The body as text, without a byte order mark.
pub(super) fn text(body: &[u8]) -> Result<&str, Fault> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if body.len() > BODY_BYTES_MAX {
        let message =
            format!("the body exceeds {BODY_BYTES_MAX} bytes; send fewer items per request");
        return Err(FlattenError::new(message).into());
    }
    simdutf8::basic::from_utf8(body).map_err(|_| not_utf8(body))
}

#[cold]
fn not_utf8(body: &[u8]) -> Fault {
    if body.starts_with(b"\xFF\xFE") || body.starts_with(b"\xFE\xFF") {
        let message = "the body begins with the byte order mark of UTF-16; send it as UTF-8";
        return FlattenError::new(message).into();
    }
    let valid = body.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let detail = Scan::new(valid).detail(valid.len());
    let message = format!(
        "the body is not UTF-8 at {}; send it as UTF-8",
        detail.place()
    );
    FlattenError::new(message).detail(detail).into()
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The whole body.
    #[inline]
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Length of the whole body.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Part of the body. Both ends are where a token begins or ends.
    #[inline]
    pub(super) fn slice(&self, start: usize, end: usize) -> &'a str {
        &self.text[start..end]
    }

    /// The next byte, 0 at the end. (A NUL byte is not part of any token, so that is not ambiguous.)
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.byte(self.at)
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.text.as_bytes().get(at).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn skip_space(&mut self) {
        if self.peek() > b' ' {
            return;
        }
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    /// What kind of value begins here, if one does and it is not an object.
    pub(super) fn kind(&self) -> Option<&'static str> {
        let rest = &self.text[self.at..];
        match self.peek() {
            b'"' => Some("a string"),
            b'[' => Some("an array"),
            b'-' | b'0'..=b'9' => Some("a number"),
            b'n' if rest.starts_with("null") => Some("null"),
            b't' if rest.starts_with("true") => Some("a boolean"),
            b'f' if rest.starts_with("false") => Some("a boolean"),
            _ => None,
        }
    }

    /// Reads a string, a number or a literal.
    #[inline]
    pub(super) fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek() {
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            _ => Err(self.expected("a value")),
        }
    }

    /// Where the closing quote of the key is that begins here, if it has no escapes and its colon follows at once:
    /// so senders write nearly all. Reads nothing.
    #[inline]
    pub(super) fn compact_name(&self) -> Option<usize> {
        let bytes = self.text.as_bytes();
        if bytes.get(self.at) != Some(&b'"') {
            return None;
        }
        let end = plain_end(bytes, self.at + 1);
        bytes
            .get(end..)
            .is_some_and(|rest| rest.starts_with(b"\":"))
            .then_some(end)
    }

    /// Goes to the value after this colon. Returns where it is.
    #[inline]
    pub(super) fn after_colon(&mut self, colon: usize) -> usize {
        self.at = colon + 1;
        self.skip_space();
        self.at
    }

    /// Reads a comma and goes to the name that follows it at once. Reads nothing if that is not what is here.
    #[inline]
    pub(super) fn comma_before_name(&mut self) -> bool {
        let is = self.text.as_bytes()[self.at..].starts_with(b",\"");
        self.at += usize::from(is);
        is
    }

    /// Reads the key of a member. Returns whether it has escapes.
    #[inline]
    pub(super) fn name(&mut self) -> Result<bool, Fault> {
        if self.peek() != b'"' {
            return Err(self.expected("a field name in double quotes"));
        }
        self.string()
    }

    /// Reads the colon after a key.
    #[inline]
    pub(super) fn colon(&mut self) -> Result<(), Fault> {
        if self.peek() != b':' {
            return Err(self.expected(r#"":" after a field name"#));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a string from its opening quote to after its closing one. Returns whether it has escapes.
    #[inline]
    fn string(&mut self) -> Result<bool, Fault> {
        let at = plain_end(self.text.as_bytes(), self.at + 1);
        if self.byte(at) != b'"' {
            return self.string_with_escapes(at);
        }
        self.at = at + 1;
        Ok(false)
    }

    /// Reads the rest of a string from its first byte that is not plain.
    #[inline(never)]
    fn string_with_escapes(&mut self, mut at: usize) -> Result<bool, Fault> {
        loop {
            match self.byte(at) {
                b'"' => {
                    self.at = at + 1;
                    return Ok(true);
                }
                b'\\' => at = plain_end(self.text.as_bytes(), self.escape(at)?),
                _ if at == self.text.len() => return Err(self.unclosed_string()),
                byte => return Err(self.control_character(at, byte)),
            }
        }
    }

    /// Reads an escape from its backslash; returns where it ends. A surrogate must have its other half.
    fn escape(&self, backslash: usize) -> Result<usize, Fault> {
        match self.byte(backslash + 1) {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => return Ok(backslash + 2),
            b'u' => {}
            _ => return Err(self.unknown_escape(backslash)),
        }
        let end = backslash + 6;
        match self.hex4(backslash + 2) {
            None => Err(self.malformed(backslash, r"\u needs four hexadecimal digits")),
            Some(0xD800..=0xDBFF)
                if self.byte(end) == b'\\'
                    && self.byte(end + 1) == b'u'
                    && matches!(self.hex4(end + 2), Some(0xDC00..=0xDFFF)) =>
            {
                Ok(end + 6)
            }
            Some(0xD800..=0xDFFF) => Err(self.lone_surrogate(backslash)),
            Some(_) => Ok(end),
        }
    }

    /// The value of four hexadecimal digits.
    fn hex4(&self, at: usize) -> Option<u32> {
        (at..at + 4).try_fold(0, |value, at| {
            let digit = char::from(self.byte(at)).to_digit(16)?;
            Some(value << 4 | digit)
        })
    }

    /// Reads a number: `-`? integer fraction? exponent?
    fn number(&mut self) -> Result<(), Fault> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        if self.peek() == b'0' {
            self.at += 1;
            if self.peek().is_ascii_digit() {
                return Err(
                    self.expected(r#"no digit after a leading zero (send "007" as a string)"#)
                );
            }
        } else {
            self.digits()?;
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(())
    }

    /// Reads one digit or more.
    #[inline]
    fn digits(&mut self) -> Result<(), Fault> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.expected("a digit"));
        }
        Ok(())
    }

    fn literal(&mut self, literal: &str) -> Result<(), Fault> {
        if !self.text.as_bytes()[self.at..].starts_with(literal.as_bytes()) {
            return Err(self.expected("a value (true, false and null are written like this)"));
        }
        self.at += literal.len();
        Ok(())
    }

    /// Malformed here: says what was expected and what was found.
    #[cold]
    pub(super) fn expected(&self, what: &str) -> Fault {
        let found = match self.text[self.at..].chars().next() {
            None => "the end of the body".to_owned(),
            Some(found @ ('"' | '\'' | '\\')) => format!("{found}"),
            Some(found) => format!("\"{}\"", found.escape_debug()),
        };
        self.malformed(self.at, &format!("expected {what}, found {found}"))
    }

    #[cold]
    fn malformed(&self, at: usize, what: &str) -> Fault {
        let detail = self.detail(at);
        FlattenError::new(format!("malformed JSON at {}: {what}", detail.place()))
            .detail(detail)
            .into()
    }

    #[cold]
    fn unclosed_string(&self) -> Fault {
        self.malformed(self.at, "the string that begins here has no closing quote")
    }

    #[cold]
    fn control_character(&self, at: usize, byte: u8) -> Fault {
        let what = format!(
            "a string has the control character U+{byte:04X}; write it as an escape: \\u{byte:04x}"
        );
        self.malformed(at, &what)
    }

    #[cold]
    fn unknown_escape(&self, at: usize) -> Fault {
        let escape: String = self.text[at..].chars().take(2).collect();
        let what = format!(
            r#"{} is not an escape; write a backslash as \\, other characters as themselves or as \u0000"#,
            escape
        );
        self.malformed(at, &what)
    }

    #[cold]
    fn lone_surrogate(&self, at: usize) -> Fault {
        let escape = &self.text[at..at + 6];
        let what = format!(
            "{escape} is one half of a surrogate pair; send both halves, or the character itself"
        );
        self.malformed(at, &what)
    }

    /// Line and column of a position, both from 1; columns count characters.
    pub(super) fn detail(&self, at: usize) -> Detail {
        let before = &self.text[..at];
        let line_start = before.rfind('\n').map_or(0, |feed| feed + 1);
        let lines = memchr::memchr_iter(b'\n', before.as_bytes()).count();
        Detail {
            line: Some(lines as u64 + 1),
            column: Some(before[line_start..].chars().count() as u64 + 1),
            ..Detail::default()
        }
    }
}

/// Where the plain part of a string ends that begins at `at`: at the first quote, backslash or control
/// character, or at the end. Looks at eight bytes at a time.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    const QUOTES: u64 = u64::from_ne_bytes([b'"'; 8]);
    const BACKSLASHES: u64 = u64::from_ne_bytes([b'\\'; 8]);
    const SPACES: u64 = u64::from_ne_bytes([0x20; 8]);

    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*word);
        // Subtracting sets the high bit of each byte that is smaller, and by borrowing perhaps of bytes above
        // it: the lowest bit that is set is always right. Bytes that had the high bit set are not ASCII.
        let quotes = (word ^ QUOTES).wrapping_sub(ONES);
        let backslashes = (word ^ BACKSLASHES).wrapping_sub(ONES);
        let controls = word.wrapping_sub(SPACES);
        let hits = (quotes | backslashes | controls) & !word & HIGH;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(&byte) = bytes.get(at) {
        if byte < 0x20 || byte == b'"' || byte == b'\\' {
            break;
        }
        at += 1;
    }
    at
}
