//! Splits a stream of JSON into the texts of its items, without building a tree and with at most one item in memory.
//!
//! The batcher of `send` uses it. It reads one object, objects one after another (NDJSON, with or without line breaks
//! inside the objects) or an array of objects. The first character determines which.
//!
//! **Invariant**: the text of an item is a slice of the input, byte for byte, and is valid JSON in valid UTF-8. Memory
//! use is limited by [`ITEM_BYTES_MAX`], whatever the input.

use std::io::{self, Read};

use memchr::{memchr_iter, memchr2, memrchr};
use serde::de::IgnoredAny;

/// Maximum bytes of an item: the maximum body of a request.
pub const ITEM_BYTES_MAX: usize = 1_048_576;
const READ_BYTES: usize = 64 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A position in the input; line and column are counted from 1, columns in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The byte in the line.
    pub column: u64,
}

/// The next part of the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// The text of one JSON object.
    Item(&'a [u8]),
    /// An object that exceeds the limit of a request; it was skipped.
    TooLarge {
        /// Its position.
        at: Position,
        /// Its length.
        bytes: u64,
    },
}

/// Why the input cannot be read further.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file or pipe failed.
    #[error("cannot read the input: {0}")]
    Read(#[from] io::Error),
    /// The input is not valid JSON.
    #[error("line {line}, column {column}: {message}", line = at.line, column = at.column)]
    Syntax {
        /// The position of the error.
        at: Position,
        /// What was expected there.
        message: String,
    },
}

/// Reads items from a stream; see the module.
pub struct Splitter<R> {
    input: R,
    buffer: Vec<u8>,
    /// Bytes before this index were already returned.
    head: usize,
    /// The position of the byte at `head`.
    at: Position,
    /// Bytes of the input before `head`.
    consumed: u64,
    form: Form,
}

/// The state of the reader in the outer form of the input.
#[derive(Clone, Copy)]
enum Form {
    Start,
    Sequence,
    ArrayFirst,
    ArrayNext,
    ArrayClosed,
}

impl<R: Read> Splitter<R> {
    /// A reader at the beginning of `input`.
    pub fn new(input: R) -> Splitter<R> {
        Splitter {
            input,
            buffer: Vec::new(),
            head: 0,
            at: Position { line: 1, column: 1 },
            consumed: 0,
            form: Form::Start,
        }
    }

    /// Bytes of the input that were processed.
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// The next item; `None` at the end of the input. After an error, nothing more can be read.
    pub fn next_piece(&mut self) -> Result<Option<Piece<'_>>, InputError> {
        loop {
            if matches!(self.form, Form::Start) {
                self.skip_byte_order_mark()?;
            }
            let next = self.next_visible()?;
            self.form = match (self.form, next) {
                (Form::Start, Some(b'[')) => {
                    self.advance(1);
                    Form::ArrayFirst
                }
                (Form::Start, _) => Form::Sequence,
                (Form::Sequence | Form::ArrayClosed, None) => return Ok(None),
                (Form::Sequence, Some(b'{')) => return self.object().map(Some),
                (Form::ArrayFirst, Some(b'{')) => {
                    self.form = Form::ArrayNext;
                    return self.object().map(Some);
                }
                (Form::ArrayFirst | Form::ArrayNext, Some(b']')) => {
                    self.advance(1);
                    Form::ArrayClosed
                }
                (Form::ArrayNext, Some(b',')) => {
                    self.advance(1);
                    self.expect_object()?;
                    return self.object().map(Some);
                }
                (Form::ArrayFirst | Form::ArrayNext, None) => {
                    return Err(self.fault("the input ends before the array is closed with `]`"));
                }
                (Form::ArrayNext, Some(_)) => {
                    return Err(self.fault("expected `,` or `]` after an item of the array"));
                }
                (Form::ArrayClosed, Some(_)) => {
                    return Err(self.fault("nothing may follow the array"));
                }
                (Form::Sequence | Form::ArrayFirst, Some(_)) => {
                    return Err(self.fault("expected a JSON object, `{…}`"));
                }
            };
        }
    }

    /// Reads the object whose `{` is at `head`.
    fn object(&mut self) -> Result<Piece<'_>, InputError> {
        let start = self.at;
        let mut scan = Scan::default();
        let mut scanned = 0;
        loop {
            let unread = &self.buffer[self.head..];
            if let Some(more) = scan.find_end(&unread[scanned..]) {
                let len = scanned + more;
                if len > ITEM_BYTES_MAX {
                    self.advance(len);
                    return Ok(Piece::TooLarge {
                        at: start,
                        bytes: len as u64,
                    });
                }
                validate(&unread[..len], start)?;
                let from = self.head;
                self.advance(len);
                return Ok(Piece::Item(&self.buffer[from..from + len]));
            }
            scanned = unread.len();
            if scanned > ITEM_BYTES_MAX {
                return self.skip_object(start, scan);
            }
            if !self.fill()? {
                self.check_beginning(start)?;
                return Err(no_end(start));
            }
        }
    }

    /// Skips the rest of an object that is too large, unless its beginning is invalid: after a missing brace, the whole
    /// rest of the input looks like one endless object.
    fn skip_object(&mut self, start: Position, mut scan: Scan) -> Result<Piece<'_>, InputError> {
        self.check_beginning(start)?;
        let from = self.consumed;
        loop {
            self.advance(self.buffer.len() - self.head);
            if !self.fill()? {
                return Err(no_end(start));
            }
            if let Some(len) = scan.find_end(&self.buffer[self.head..]) {
                self.advance(len);
                let bytes = self.consumed - from;
                return Ok(Piece::TooLarge { at: start, bytes });
            }
        }
    }

    /// Checks the part of an object in the buffer: only its end may be missing.
    fn check_beginning(&self, start: Position) -> Result<(), InputError> {
        let beginning = &self.buffer[self.head..];
        match serde_json::from_slice::<IgnoredAny>(beginning) {
            Err(error) if !error.is_eof() => validate(beginning, start),
            _ => Ok(()),
        }
    }

    fn expect_object(&mut self) -> Result<(), InputError> {
        match self.next_visible()? {
            Some(b'{') => Ok(()),
            Some(b']') => Err(self.fault("expected an object after `,`, found the array's end")),
            Some(_) => Err(self.fault("expected a JSON object, `{…}`")),
            None => Err(self.fault("the input ends before the array is closed with `]`")),
        }
    }

    /// Skips whitespace and returns the next byte.
    fn next_visible(&mut self) -> Result<Option<u8>, InputError> {
        loop {
            let unread = &self.buffer[self.head..];
            let visible = unread
                .iter()
                .position(|byte| !matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
            self.advance(visible.unwrap_or(self.buffer.len() - self.head));
            if visible.is_some() {
                return Ok(self.buffer.get(self.head).copied());
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    fn skip_byte_order_mark(&mut self) -> Result<(), InputError> {
        while self.buffer.len() < BYTE_ORDER_MARK.len() && self.fill()? {}
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.head = BYTE_ORDER_MARK.len();
            self.consumed = self.head as u64;
        }
        Ok(())
    }

    /// Marks `len` bytes as processed: moves `head` and the position.
    fn advance(&mut self, len: usize) {
        let passed = &self.buffer[self.head..self.head + len];
        match memrchr(b'\n', passed) {
            Some(last) => {
                self.at.line += memchr_iter(b'\n', passed).count() as u64;
                self.at.column = (len - last) as u64;
            }
            None => self.at.column += len as u64,
        }
        self.head += len;
        self.consumed += len as u64;
    }

    /// Reads more; `false` at the end of the input.
    fn fill(&mut self) -> Result<bool, InputError> {
        self.buffer.drain(..self.head);
        self.head = 0;
        let len = self.buffer.len();
        self.buffer.resize(len + READ_BYTES, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[len..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(len + *read.as_ref().unwrap_or(&0));
        Ok(read? > 0)
    }

    fn fault(&self, message: &str) -> InputError {
        InputError::Syntax {
            at: self.at,
            message: message.to_owned(),
        }
    }
}

/// Finds the end of an object, across several buffers.
#[derive(Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// Continues with `bytes`; returns how many of them belong to the object when its end is found.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if self.escaped {
                self.escaped = false;
                at += 1;
            } else if self.in_string {
                at += memchr2(b'"', b'\\', &bytes[at..])?;
                self.in_string = bytes[at] != b'"';
                self.escaped = bytes[at] == b'\\';
                at += 1;
            } else {
                match bytes[at] {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth -= 1,
                    _ => {}
                }
                at += 1;
                if self.depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }
}

fn no_end(start: Position) -> InputError {
    InputError::Syntax {
        at: start,
        message: "the object that begins here has no end".to_owned(),
    }
}

/// Validates the text of an object that begins at `start`, so that the position of an error is that in the input and
/// not in a batch. It does not recurse, so any depth is safe.
fn validate(text: &[u8], start: Position) -> Result<(), InputError> {
    let fault = |line: u64, column: u64, message: String| InputError::Syntax {
        at: Position {
            line: start.line + line - 1,
            column: if line == 1 {
                start.column + column - 1
            } else {
                column
            },
        },
        message,
    };
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(text) {
        let message = error.to_string();
        let message = message
            .rsplit_once(" at line ")
            .map_or(message.as_str(), |(what, _)| what);
        let (line, column) = (error.line().max(1) as u64, error.column().max(1) as u64);
        return Err(fault(line, column, message.to_owned()));
    }
    if simdutf8::basic::from_utf8(text).is_ok() {
        return Ok(());
    }
    // The slower function returns the position of the error.
    let valid = simdutf8::compat::from_utf8(text).map_or_else(|e| e.valid_up_to(), str::len);
    let before = &text[..valid];
    let line = memchr_iter(b'\n', before).count() as u64 + 1;
    let column = valid - memrchr(b'\n', before).map_or(0, |at| at + 1) + 1;
    Err(fault(line, column as u64, "invalid UTF-8".to_owned()))
}

#[cfg(test)]
mod tests;
