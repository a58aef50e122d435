//! Takes messages out of what a server sends: Server-Sent Events, in chunks or until the end, and WebSocket frames.
//!
//! Called by the renderers with whatever one read brought.
//!
//! **Invariant:** a message is handed on once, and only when its last byte is there.

use std::io;

use memchr::memmem::find;

/// Largest message or head that is waited for.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// The server has agreed: 200 or 101.
    Open,
    /// One event with its field names, or one WebSocket message.
    Message(&'a [u8]),
    /// A WebSocket ping, to be answered with the same bytes.
    Ping(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Head,
    UntilEnd,
    Chunks,
    Frames,
}

/// The state between two reads.
#[derive(Debug)]
pub(crate) struct Decoder {
    framing: Framing,
    /// Bytes whose frame is not complete.
    raw: Vec<u8>,
    /// Contents whose event or message is not complete.
    text: Vec<u8>,
}

impl Decoder {
    /// Of a new connection, before the head of the answer.
    pub(crate) fn new() -> Self {
        Self {
            framing: Framing::Head,
            raw: Vec::new(),
            text: Vec::new(),
        }
    }

    /// Takes what was read and hands on what it completes. An answer other than 200 and 101 is an error.
    pub(crate) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Found<'_>)) -> io::Result<()> {
        let mut raw = std::mem::take(&mut self.raw);
        // Most reads bring whole frames and find nothing left over: then nothing is copied.
        let joined;
        let mut rest = if raw.is_empty() {
            bytes
        } else {
            raw.extend_from_slice(bytes);
            joined = raw;
            &joined
        };
        while !rest.is_empty() {
            let before = rest.len();
            rest = match self.framing {
                Framing::Head => self.head(rest, &mut each)?,
                Framing::UntilEnd => {
                    self.text.extend_from_slice(rest);
                    self.events(&mut each);
                    &[]
                }
                Framing::Chunks => self.chunk(rest, &mut each)?,
                Framing::Frames => self.frame(rest, &mut each)?,
            };
            if rest.len() == before {
                break;
            }
        }
        if rest.len().max(self.text.len()) > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("a message does not end"));
        }
        self.raw = rest.to_vec();
        Ok(())
    }

    /// The head of the answer; what follows it.
    fn head<'a>(
        &mut self,
        rest: &'a [u8],
        each: &mut impl FnMut(Found<'_>),
    ) -> io::Result<&'a [u8]> {
        let Some(end) = find(rest, b"\r\n\r\n") else {
            return Ok(rest);
        };
        let head = rest[..end].to_ascii_lowercase();
        self.framing = match head.get(9..12) {
            Some(b"101") => Framing::Frames,
            Some(b"200") if find(&head, b"transfer-encoding: chunked").is_some() => Framing::Chunks,
            Some(b"200") => Framing::UntilEnd,
            _ => {
                let answer = String::from_utf8_lossy(rest);
                return Err(io::Error::other(format!(
                    "a renderer was answered {answer}"
                )));
            }
        };
        each(Found::Open);
        Ok(&rest[end + 4..])
    }

    /// One chunk (RFC 9112, section 7.1); what follows it.
    fn chunk<'a>(
        &mut self,
        rest: &'a [u8],
        each: &mut impl FnMut(Found<'_>),
    ) -> io::Result<&'a [u8]> {
        let Some(line) = find(rest, b"\r\n") else {
            return Ok(rest);
        };
        let size = std::str::from_utf8(&rest[..line])
            .ok()
            .and_then(|text| text.split(';').next())
            .and_then(|digits| usize::from_str_radix(digits.trim(), 16).ok())
            .ok_or_else(|| io::Error::other("a chunk without a size"))?;
        let begin = line + 2;
        if rest.len() < begin + size + 2 {
            return Ok(rest);
        }
        self.text.extend_from_slice(&rest[begin..begin + size]);
        self.events(each);
        Ok(&rest[begin + size + 2..])
    }

    /// Hands on every event that an empty line ends.
    fn events(&mut self, each: &mut impl FnMut(Found<'_>)) {
        let mut begin = 0;
        while let Some(length) = find(&self.text[begin..], b"\n\n") {
            each(Found::Message(&self.text[begin..begin + length]));
            begin += length + 2;
        }
        self.text.drain(..begin);
    }

    /// One frame (RFC 6455, section 5.2), which a server does not mask; what follows it.
    fn frame<'a>(
        &mut self,
        rest: &'a [u8],
        each: &mut impl FnMut(Found<'_>),
    ) -> io::Result<&'a [u8]> {
        let &[first, second, ..] = rest else {
            return Ok(rest);
        };
        let (length, begin): (_, usize) = match second & 0x7f {
            126 => (rest.get(2..4), 4),
            127 => (rest.get(2..10), 10),
            _ => (Some(&rest[1..2]), 2),
        };
        let Some(length) = length else {
            return Ok(rest);
        };
        let length = length
            .iter()
            .fold(0_usize, |length, &byte| (length << 8) | usize::from(byte));
        let Some(content) = rest.get(begin..begin.saturating_add(length)) else {
            return Ok(rest);
        };
        match first & 0x0f {
            0x8 => return Err(io::ErrorKind::UnexpectedEof.into()),
            0x9 => each(Found::Ping(content)),
            0xa => {}
            _ if first & 0x80 != 0 && self.text.is_empty() => each(Found::Message(content)),
            _ => {
                self.text.extend_from_slice(content);
                if first & 0x80 != 0 {
                    each(Found::Message(&self.text));
                    self.text.clear();
                }
            }
        }
        Ok(&rest[begin + length..])
    }
}

/// The answer to a ping of up to 125 bytes; the mask is zero, which leaves the bytes as they are.
pub(crate) fn pong(content: &[u8]) -> Vec<u8> {
    let length = 0x80 | (content.len() as u8 & 0x7f);
    [&[0x8a, length, 0, 0, 0, 0], content].concat()
}
