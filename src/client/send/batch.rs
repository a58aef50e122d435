//! Combines items into request bodies, each with its idempotency key.
//!
//! `send` reads batches on a separate thread and sends them in order.
//!
//! **Invariant**: no body exceeds the given limit, unless it is a single item, and none exceeds [`ITEM_BYTES_MAX`]. The
//! same input and the same options produce the same batches with the same keys.

use std::io::Read;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::split::{ITEM_BYTES_MAX, InputError, Piece, Position, Splitter};

/// The content of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendBatch {
    /// The number of the batch, from 0.
    pub number: u64,
    /// One JSON object, or an array of them.
    pub body: Bytes,
    pub items: u64,
    /// Bytes of the input that were read for this and all earlier batches.
    pub input_bytes: u64,
}

/// A result of reading the input.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    Batch(SendBatch),
    /// An item was skipped, because it exceeds the limit of a request.
    TooLarge {
        /// Its position in the input.
        at: Position,
        bytes: u64,
    },
}

#[derive(Debug, Clone, Copy)]
pub struct BatchLimits {
    /// Maximum bytes of a body with several items; at most [`ITEM_BYTES_MAX`].
    pub bytes_max: usize,
    /// Maximum items in a body.
    pub items_max: u64,
}

/// Reads batches out of a stream of JSON.
pub struct Batcher<R> {
    splitter: Splitter<R>,
    limits: BatchLimits,
    /// `[` and the items so far, separated by commas.
    pending: Vec<u8>,
    items: u64,
    number: u64,
}

impl<R: Read> Batcher<R> {
    /// A reader at the beginning of `input`.
    pub fn new(input: R, limits: BatchLimits) -> Batcher<R> {
        let limits = BatchLimits {
            bytes_max: limits.bytes_max.min(ITEM_BYTES_MAX),
            items_max: limits.items_max.max(1),
        };
        Batcher {
            splitter: Splitter::new(input),
            limits,
            pending: Vec::new(),
            items: 0,
            number: 0,
        }
    }

    /// Reads until a batch is full or the input ends; `None` after the last batch.
    ///
    /// After an error, nothing more is returned. Items before the error that are not in a batch yet are dropped, so
    /// that nothing of a small file with an error is sent.
    pub fn next_event(&mut self) -> Result<Option<Event>, InputError> {
        loop {
            let before = self.splitter.consumed();
            let item = match self.splitter.next_piece()? {
                Some(Piece::Item(item)) => item,
                Some(Piece::TooLarge { at, bytes }) => {
                    return Ok(Some(Event::TooLarge { at, bytes }));
                }
                None if self.items == 0 => return Ok(None),
                None => {
                    let all = self.splitter.consumed();
                    return Ok(Some(self.take(all)));
                }
            };
            // A comma before the item, and the final bracket.
            if self.items > 0 && self.pending.len() + item.len() + 2 > self.limits.bytes_max {
                let mut next = Vec::with_capacity(self.limits.bytes_max);
                next.push(b'[');
                next.extend_from_slice(item);
                let full = self.take(before);
                self.pending = next;
                self.items = 1;
                return Ok(Some(full));
            }
            self.pending.push(if self.items == 0 { b'[' } else { b',' });
            self.pending.extend_from_slice(item);
            self.items += 1;
            if self.items >= self.limits.items_max {
                let read = self.splitter.consumed();
                return Ok(Some(self.take(read)));
            }
        }
    }

    fn take(&mut self, input_bytes: u64) -> Event {
        let mut body = std::mem::take(&mut self.pending);
        let items = std::mem::take(&mut self.items);
        let body = if items == 1 {
            Bytes::from(body).slice(1..)
        } else {
            body.push(b']');
            Bytes::from(body)
        };
        let number = self.number;
        self.number += 1;
        Event::Batch(SendBatch {
            number,
            body,
            items,
            input_bytes,
        })
    }
}

/// The `Idempotency-Key` of a batch: `[prefix-]` and the SHA-256, in hexadecimal, over the stream,
/// the item-key field, the batch's number and its body.
///
/// The number is included so that equal batches of one input are all applied, in order. The ingest key is not: the
/// service keeps idempotency keys per connector and stream, and a rotated key must not make a duplicate look new.
pub fn idempotency_key(
    prefix: Option<&str>,
    stream: Option<&str>,
    item_key: Option<&str>,
    batch: &SendBatch,
) -> String {
    let mut hash = Sha256::new_with_prefix(b"headgate send 1");
    for part in [stream, item_key] {
        // Lengths distinguish `ab` + `c` from `a` + `bc`, and an absent part from an empty one.
        hash.update(
            part.map_or(u64::MAX, |part| part.len() as u64)
                .to_le_bytes(),
        );
        hash.update(part.unwrap_or_default());
    }
    hash.update(batch.number.to_le_bytes());
    hash.update(&batch.body);
    let separator = if prefix.is_some() { "-" } else { "" };
    format!(
        "{}{separator}{:x}",
        prefix.unwrap_or_default(),
        hash.finalize()
    )
}

#[cfg(test)]
mod tests;
