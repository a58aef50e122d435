//! Parses Server-Sent Events from bytes as they arrive (HTML Living Standard, "Parsing an event stream").
//!
//! `follow` passes it the bytes of the connection.
//!
//! **Invariant**: the events do not depend on where the bytes were split, and memory is limited: no line and no event
//! exceeds [`EVENT_BYTES_MAX`].

use std::time::Duration;

use memchr::memchr2;

/// Maximum bytes of a line, and of the data of an event.
pub const EVENT_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `message` if the server sent no type.
    pub kind: String,
    /// The lines of data, separated by line feeds.
    pub data: String,
    /// The last id from the server, in this event or an earlier one; empty if none.
    pub id: String,
}

/// A line or an event is longer than [`EVENT_BYTES_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {0} bytes")]
pub struct TooLong(pub usize);

/// The state between two pieces of a stream.
#[derive(Debug)]
pub struct Parser {
    bytes_max: usize,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// The last byte was a carriage return: a line feed right after it ends no other line.
    after_return: bool,
    /// No line has ended yet, so a byte order mark can be before it.
    first_line: bool,
    kind: String,
    /// Every line of data with a line feed after it.
    data: String,
    id: String,
    retry: Option<Duration>,
}

impl Default for Parser {
    fn default() -> Parser {
        Parser::new(EVENT_BYTES_MAX)
    }
}

impl Parser {
    fn new(bytes_max: usize) -> Parser {
        Parser {
            bytes_max,
            line: Vec::new(),
            after_return: false,
            first_line: true,
            kind: String::new(),
            data: String::new(),
            id: String::new(),
            retry: None,
        }
    }

    /// The server's last pause before a reconnect.
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Parses the next bytes, and passes complete events on. After an error, the stream cannot be read further.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut on_event: impl FnMut(Event),
    ) -> Result<(), TooLong> {
        loop {
            if self.after_return && !bytes.is_empty() {
                self.after_return = false;
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            let end = memchr2(b'\r', b'\n', bytes);
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() > self.bytes_max {
                return Err(TooLong(self.bytes_max));
            }
            let Some(end) = end else {
                self.line.extend_from_slice(part);
                return Ok(());
            };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            let event = if self.line.is_empty() {
                self.line_ended(part)?
            } else {
                let mut line = std::mem::take(&mut self.line);
                line.extend_from_slice(part);
                let event = self.line_ended(&line)?;
                line.clear();
                // The next line may be as long: keep the memory, except after a very long line.
                if line.capacity() <= 1 << 20 {
                    self.line = line;
                }
                event
            };
            if let Some(event) = event {
                on_event(event);
            }
        }
    }

    fn line_ended(&mut self, mut line: &[u8]) -> Result<Option<Event>, TooLong> {
        if std::mem::take(&mut self.first_line) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.dispatch());
        }
        let line = String::from_utf8_lossy(line);
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if self.data.len() + value.len() >= self.bytes_max {
                    return Err(TooLong(self.bytes_max));
                }
                self.data.push_str(value);
                self.data.push('\n');
            }
            "event" => value.clone_into(&mut self.kind),
            "id" if !value.contains('\0') => value.clone_into(&mut self.id),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                if let Ok(milliseconds) = value.parse() {
                    self.retry = Some(Duration::from_millis(milliseconds));
                }
            }
            // A comment has no field name; other fields are for later versions.
            _ => {}
        }
        Ok(None)
    }

    fn dispatch(&mut self) -> Option<Event> {
        let mut kind = std::mem::take(&mut self.kind);
        let mut data = std::mem::take(&mut self.data);
        // An event without data is ignored; an empty line of data has left its line feed.
        data.pop()?;
        if kind.is_empty() {
            "message".clone_into(&mut kind);
        }
        let id = self.id.clone();
        Some(Event { kind, data, id })
    }
}

#[cfg(test)]
mod tests;
