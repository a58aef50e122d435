//! Entries and batches: accepted requests on their way to the sinks.
//!
//! The journal makes entries, delivery cuts batches out of them, plugins hold batches by handle and
//! the pool reads their items. Plain data.
//!
//! What a sink may ask of a batch is in `batch/read.rs`, how it makes another of it in `batch/derive.rs`.
//!
//! **Invariant**: the bytes of an entry's items are shared, never copied, between all batches and
//! all sinks; a batch never changes.

mod derive;
mod read;

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::item::{ItemRef, Items};
pub use derive::DeriveError;
pub use read::{Form, Span};

/// One accepted request, as read back from the journal.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Position in the order of acceptance; rises with each request.
    pub seq: u64,
    /// The identifier that the caller was given.
    pub request_id: Uuid,
    /// The stream that the items belong to.
    pub stream: Arc<str>,
    /// When the request arrived: Unix time in milliseconds.
    pub received_ms: u64,
    /// The flattened items.
    pub items: Items,
}

/// Some consecutive items of one entry.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The request that they came with.
    pub entry: Arc<Entry>,
    /// Position of the first item within the request.
    pub start: u32,
    /// One past the position of the last item.
    pub end: u32,
    /// Position, in the request, of the entry's first item: not 0 in an entry that was derived from a
    /// part of another.
    pub base: u32,
}

impl Slice {
    /// All items of a request.
    pub fn whole(entry: Arc<Entry>) -> Self {
        // The encoding counts items in 32 bits.
        let end = u32::try_from(entry.items.len()).unwrap_or(u32::MAX);
        Self {
            entry,
            start: 0,
            end,
            base: 0,
        }
    }

    /// Number of items.
    pub fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The items, in order, each with its position in the request.
    pub fn items(&self) -> impl Iterator<Item = (u32, ItemRef<'_>)> {
        let base = self.base;
        (0..self.end)
            .zip(self.entry.items.iter())
            .skip(self.start as usize)
            .map(move |(index, item)| (base + index, item))
    }
}

/// What a sink is handed in one call.
#[derive(Debug, Clone)]
pub struct Batch {
    slices: Arc<[Slice]>,
    attempt: u32,
    items: u32,
    /// Of a derived batch, and of single items that are sent again: what tells it from others with the same
    /// first and last item.
    suffix: Option<Arc<str>>,
    resent: bool,
    /// Of a derived batch: bytes that it takes beside those of the batch that it was made of.
    own_bytes: usize,
}

impl Batch {
    /// A batch of these slices, in order; `attempt` is 1 for the first delivery.
    pub fn new(slices: Vec<Slice>, attempt: u32) -> Self {
        let items = slices.iter().map(Slice::len).sum();
        Self {
            slices: slices.into(),
            attempt,
            items,
            suffix: None,
            resent: false,
            own_bytes: 0,
        }
    }

    /// A batch of items that were dead letters. They need not be all that lie between the first and the last,
    /// so that an id of these two alone could be that of a batch which a sink has seen.
    pub fn resent(slices: Vec<Slice>, attempt: u32) -> Self {
        let mut batch = Self::new(slices, attempt);
        batch.resent = true;
        if batch.slices.len() > 1 {
            let mut digest = Sha256::new();
            for slice in batch.slices.iter() {
                digest.update(slice.entry.seq.to_be_bytes());
                digest.update((slice.base + slice.start).to_be_bytes());
                digest.update((slice.base + slice.end).to_be_bytes());
            }
            batch.suffix = Some(format!("/{}", short(&digest.finalize())).into());
        }
        batch
    }

    /// Whether the items were dead letters.
    pub fn is_resent(&self) -> bool {
        self.resent
    }

    /// The slices, in order of acceptance.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// Number of items.
    pub fn len(&self) -> u32 {
        self.items
    }

    /// Whether the batch holds no item.
    pub fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Whether both are the same batch, not only equal ones.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.slices, &other.slices)
    }

    /// 1 on the first delivery.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Stable across redeliveries of the same items.
    pub fn id(&self) -> String {
        let mut id = match (self.slices.first(), self.slices.last()) {
            (Some(first), Some(last)) => format!(
                "{}.{}-{}.{}",
                first.entry.seq,
                first.base + first.start,
                last.entry.seq,
                last.base + last.end
            ),
            _ => "empty".to_owned(),
        };
        if let Some(suffix) = &self.suffix {
            id.push_str(suffix);
        }
        id
    }

    /// The two halves of a batch of at least two items, each a batch for its first delivery.
    pub fn halves(&self) -> Option<(Batch, Batch)> {
        if self.items < 2 {
            return None;
        }
        let mut left = Vec::new();
        let mut right = Vec::new();
        let mut room = self.items / 2;
        for slice in self.slices.iter() {
            let taken = slice.len().min(room);
            let middle = slice.start + taken;
            room -= taken;
            if taken > 0 {
                left.push(Slice {
                    end: middle,
                    ..slice.clone()
                });
            }
            if middle < slice.end {
                right.push(Slice {
                    start: middle,
                    ..slice.clone()
                });
            }
        }
        let half = match self.resent {
            true => Batch::resent,
            false => Batch::new,
        };
        Some((half(left, 1), half(right, 1)))
    }
}

/// The first 64 bits of a digest.
fn short(digest: &[u8]) -> String {
    let first = digest.first_chunk();
    let number = first.map_or(0, |first| u64::from_be_bytes(*first));
    format!("{number:016x}")
}

impl fmt::Display for Batch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({} items)", self.id(), self.items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::{ItemsWriter, field_name, members};

    /// A batch of requests to the streams `s0`, `s1`…, each with these items; the first field of an item
    /// is its key.
    pub(super) fn batch(requests: &[&[&str]]) -> Batch {
        let slices = requests.iter().zip(0..).map(|(items, number)| {
            let mut writer = ItemsWriter::new(1 << 20, 0);
            for fields in *items {
                let (_, key) = members(fields).next().expect("a field");
                writer
                    .push(&field_name(key), fields)
                    .expect("there is room");
            }
            Slice::whole(Arc::new(Entry {
                seq: number + 1,
                request_id: Uuid::nil(),
                stream: format!("s{number}").into(),
                received_ms: 1_000 + number,
                items: writer.into_items(),
            }))
        });
        Batch::new(slices.collect(), 1)
    }

    #[test]
    fn single_items_that_are_sent_again_are_no_batch_that_a_sink_has_seen() {
        let all = batch(&[&[r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"c"}"#]]);
        let slice = |start, end| Slice {
            start,
            end,
            ..all.slices()[0].clone()
        };
        let some = Batch::resent(vec![slice(0, 1), slice(2, 3)], 1);
        let whole = Batch::resent(vec![slice(0, 3)], 1);
        assert_eq!(whole.id(), all.id(), "the same items");
        assert!(some.id().starts_with("1.0-1.3/"), "{}", some.id());
        let again = Batch::resent(vec![slice(0, 1), slice(2, 3)], 2);
        assert_eq!(some.id(), again.id());
        let (left, right) = again.halves().expect("two items");
        assert!(left.is_resent() && right.is_resent());
        assert_eq!((&*left.id(), &*right.id()), ("1.0-1.1", "1.2-1.3"));
    }
}
