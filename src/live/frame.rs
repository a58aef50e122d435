//! The messages to renderers, the same JSON on both transports.
//!
//! **Invariant**: a frame is one event of Server-Sent Events whose one `data` line is the message: JSON
//! has no line breaks.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use base::backoff::jitter;
use base::order::ChangeSeq;
use pool::Position;
use pool::changes::Change;

/// In place of the size of a chunk and its line end, while the size is not known. The size is written into it, because
/// a large message would be copied to go behind it.
const ROOM: &str = "                  ";
/// The first byte of a frame of a WebSocket: the last one of its message, which is text.
const FINAL_TEXT: u8 = 0x81;
/// In place of its length: that follows, in 16 or in 64 bits.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// A message that is ready to be sent. All renderers share the bytes that their connections write. A message is encoded
/// once, otherwise each renderer would encode and copy it.
#[derive(Debug, Clone)]
pub struct Frame(Arc<Encoded>);

#[derive(Debug)]
struct Encoded {
    /// The event as a chunk of a body. Event and JSON are ranges of it, so that a message is in memory once.
    chunk: Bytes,
    event: Range<usize>,
    json: Range<usize>,
    /// The JSON as a message of a WebSocket, made for the first renderer that wants it. Where all renderers use
    /// Server-Sent Events, it is never made.
    message: OnceLock<Bytes>,
}

/// Kind of a message with items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// A part of a snapshot; the last one is marked.
    Snapshot { complete: bool },
    /// New values.
    Update,
}

impl Frame {
    /// The message as an event of Server-Sent Events.
    pub fn event(&self) -> Bytes {
        self.0.chunk.slice(self.0.event.clone())
    }

    /// The event as a chunk of a body of HTTP/1.1.
    pub fn chunk(&self) -> Bytes {
        self.0.chunk.clone()
    }

    /// The message as JSON.
    pub fn json(&self) -> Bytes {
        self.0.chunk.slice(self.0.json.clone())
    }

    /// The message as a text message of a WebSocket, in one frame (RFC 6455, 5.2).
    pub fn message(&self) -> Bytes {
        let message = || {
            let json = &self.0.chunk[self.0.json.clone()];
            let length = json.len();
            let mut message = Vec::with_capacity(length + 10);
            message.push(FINAL_TEXT);
            match (u8::try_from(length), u16::try_from(length)) {
                (Ok(length @ ..LENGTH_16), _) => message.push(length),
                (_, Ok(length)) => {
                    message.push(LENGTH_16);
                    message.extend(length.to_be_bytes());
                }
                _ => {
                    message.push(LENGTH_64);
                    message.extend((length as u64).to_be_bytes());
                }
            }
            message.extend(json);
            message.into()
        };
        self.0.message.get_or_init(message).clone()
    }

    /// How long a client of Server-Sent Events waits before it reconnects.
    pub fn retry_hint() -> String {
        format!("retry: {}\n\n", retry_ms())
    }

    fn new(kind: &str, id: Option<Position>, size: usize, rest: impl FnOnce(&mut String)) -> Self {
        let mut chunk = String::with_capacity(size + 180);
        chunk.push_str(ROOM);
        let _ = writeln!(chunk, "event: {kind}");
        if let Some(id) = id {
            let _ = writeln!(chunk, "id: {id}");
        }
        chunk.push_str("data: ");
        let start = chunk.len();
        let _ = write!(chunk, r#"{{"type":"{kind}""#);
        rest(&mut chunk);
        chunk.push('}');
        let end = chunk.len();
        chunk.push_str("\n\n");
        Self::of(chunk, start..end)
    }

    /// A message whose event is complete, behind the room for its size, and the place of the JSON. The size is written into
    /// the room, because a message can be large, and is not copied for it.
    fn of(mut chunk: String, json: Range<usize>) -> Self {
        let end = chunk.len();
        let size = format!("{:x}\r\n", end - ROOM.len());
        let start = ROOM.len() - size.len();
        chunk.replace_range(start..ROOM.len(), &size);
        chunk.push_str("\r\n");
        Self(Arc::new(Encoded {
            chunk: Bytes::from(chunk).slice(start..),
            event: size.len()..end - start,
            json: json.start - start..json.end - start,
            message: OnceLock::new(),
        }))
    }

    /// New values of items, or a part of a snapshot.
    pub fn items<'a>(
        kind: FrameKind,
        stream: &str,
        id: Position,
        items: impl Iterator<Item = &'a Change> + Clone,
    ) -> Self {
        let name = match kind {
            FrameKind::Snapshot { .. } => "snapshot",
            FrameKind::Update => "update",
        };
        let size = items.clone().map(|change| change.json.len() + 1).sum();
        Self::new(name, Some(id), size, |json| {
            about(json, stream, id);
            list(json, "items", items);
            if kind == (FrameKind::Snapshot { complete: true }) {
                json.push_str(r#","complete":true"#);
            }
        })
    }

    /// Items are removed.
    pub fn remove<'a>(
        stream: &str,
        id: Position,
        items: impl Iterator<Item = &'a Change> + Clone,
    ) -> Self {
        Self::new("remove", Some(id), 0, |json| {
            about(json, stream, id);
            list(json, "keys", items);
        })
    }

    /// The renderer cannot resume from its position; snapshots follow.
    pub fn reset(id: Position, reason: &str) -> Self {
        Self::new("reset", Some(id), 0, |json| {
            let _ = write!(json, r#","id":"{id}","reason":"#);
            item::string_into(reason, json);
        })
    }

    /// The stream's newest data is older than the stream allows.
    pub fn stale(stream: &str, id: Position, updated_at: &str, after_seconds: u64) -> Self {
        Self::new("stale", Some(id), 0, |json| {
            about(json, stream, id);
            let _ = write!(
                json,
                r#","updated_at":"{updated_at}","stale_after_seconds":{after_seconds}"#
            );
        })
    }

    /// The stream has new data.
    pub fn fresh(stream: &str, id: Position) -> Self {
        Self::new("fresh", Some(id), 0, |json| about(json, stream, id))
    }

    /// The connection is alive. `time` is RFC 3339. `is_stale`: this node of a cluster is cut off from what others write.
    pub fn heartbeat(id: Position, time: &str, is_stale: bool) -> Self {
        Self::new("heartbeat", Some(id), 0, |json| {
            let _ = write!(json, r#","id":"{id}","time":"{time}""#);
            if is_stale {
                json.push_str(r#","stale":true"#);
            }
        })
    }

    /// An instruction to the screen. It changes no items and no position.
    pub(super) fn control(id: Position, action: &str) -> Self {
        Self::new("control", Some(id), 0, |json| {
            let _ = write!(json, r#","id":"{id}","action":"{action}""#);
        })
    }

    /// The connection ends; the client reconnects later.
    pub(super) fn bye() -> Self {
        let retry_ms = retry_ms();
        let mut chunk = format!("{ROOM}retry: {retry_ms}\nevent: bye\ndata: ");
        let start = chunk.len();
        let _ = write!(chunk, r#"{{"type":"bye","retry_ms":{retry_ms}}}"#);
        let end = chunk.len();
        chunk.push_str("\n\n");
        Self::of(chunk, start..end)
    }
}

/// Renderers reconnect after 0.5 to 1 seconds, so they do not reconnect all at once.
fn retry_ms() -> u32 {
    500 + jitter(500)
}

fn about(json: &mut String, stream: &str, id: Position) {
    json.push_str(r#","stream":"#);
    item::string_into(stream, json);
    let _ = write!(json, r#","id":"{id}""#);
}

fn list<'a>(json: &mut String, name: &str, items: impl Iterator<Item = &'a Change>) {
    let _ = write!(json, r#","{name}":["#);
    for (index, change) in items.enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(std::str::from_utf8(&change.json).unwrap_or_default());
    }
    json.push(']');
}

/// The last frame of each stream. Renderers without a backlog all receive the same frames. Most renderers are level, so
/// this frame saves encoding a change once for each of them.
#[derive(Debug, Default)]
pub(super) struct Recent(HashMap<Arc<str>, (Run, Frame)>);

/// Source of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    first: ChangeSeq,
    last: ChangeSeq,
    count: usize,
    id: Position,
}

impl Recent {
    /// The frame of a run of changes of one kind; it is made again only if the run differs from the last one.
    pub(super) fn frame(
        &mut self,
        stream: &Arc<str>,
        id: Position,
        changes: &[Arc<Change>],
    ) -> Option<Frame> {
        let (first, last) = (changes.first()?, changes.last()?);
        let run = Run {
            first: first.seq,
            last: last.seq,
            count: changes.len(),
            id,
        };
        if let Some((made_of, frame)) = self.0.get(stream)
            && *made_of == run
        {
            return Some(frame.clone());
        }
        let items = changes.iter().map(|change| &**change);
        let frame = if first.removed {
            Frame::remove(stream, id, items)
        } else {
            Frame::items(FrameKind::Update, stream, id, items)
        };
        self.0.insert(Arc::clone(stream), (run, frame.clone()));
        Some(frame)
    }
}

#[cfg(test)]
mod tests;
