//! Flat items: what flattening writes, the journal stores, and every sink reads.
//!
//! Owns the one buffer in which the items of a request travel, its encoding, and (in its files `fields` and `nest`) the
//! reading of a flat JSON object. Called by `ingest::flatten` (writes), the journal (stores and reads back),
//! delivery, plugins, pool and live (read). Knows nothing of streams, HTTP or SQL.
//!
//! The encoding, all integers little-endian:
//!
//! ```text
//! u8 version · u32 count · then for each item:
//! u32 key_len · u32 fields_len · u64 shape · key · fields
//! ```
//!
//! In version 2 the highest bit of a `key_len` says that `i64 version · u32 expire_after_seconds` stand before that key
//! (see [`ItemMeta`]); version 1 has no such records.
//!
//! **Invariant**: every [`Items`] in the process has whole records, exactly `count` of them, whose keys and
//! fields are UTF-8. It is made either by [`ItemsWriter`], which only takes `&str`, or by
//! [`Items::from_bytes`], which checks. That the fields are JSON is the promise of whoever wrote them.
#![deny(unsafe_code)]

pub mod batch;
mod fields;
pub mod flatten;
mod nest;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

pub use fields::{
    Members, ShapeHash, field_name, members, merge, name_hash, quote_into, shape, string_into,
    unescape,
};
pub use nest::nest;

/// Versions of the encoding, the first byte of every buffer.
const VERSION: u8 = 1;
const WITH_META: u8 = 2;
/// In a `key_len`: a standing follows.
const HAS_META: u32 = 1 << 31;
/// Bytes of a standing.
const META_BYTES: usize = 12;
/// Stands for no version.
const NO_VERSION: i64 = i64::MIN;
/// Bytes before the first record: version and count.
const HEADER_BYTES: usize = 5;
/// Bytes of a record before its key: two lengths and the shape.
const RECORD_BYTES: usize = 16;
/// Items from one place that is remembered to the next.
const STRIDE: u32 = 64;

/// The flattened items of one request in one buffer: what the journal stores and every sink reads.
///
/// Cloning shares the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    bytes: Bytes,
    count: u32,
    places: Places,
}

/// Where every [`STRIDE`]th item begins, once somebody wanted to begin in the middle.
#[derive(Clone, Debug, Default)]
struct Places(OnceLock<Arc<[usize]>>);

/// It says nothing that the bytes do not say.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}

/// One item, borrowed from its [`Items`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRef<'a> {
    /// Identifies the item in its stream: the value of the item-key field, or the position in the payload.
    pub key: &'a str,
    /// JSON text of the flat object, without white space between tokens.
    pub fields: &'a str,
    /// Hash of the ordered field names, see [`shape`]. Equal shapes: no new field has appeared.
    pub shape: u64,
    /// What decides beside the order of acceptance.
    pub meta: ItemMeta,
}

/// How an item stands to others of its key, beside the order of acceptance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// Its source's count or time of changes, in thousandths of a count or in microseconds: it does not take the place
    /// of a higher one.
    pub version: Option<i64>,
    /// After so long without another update it goes.
    pub expire_after_seconds: Option<NonZeroU32>,
}

impl ItemMeta {
    /// Of a removal that has no version, by a tool whose versions are times: its arrival stands for one.
    pub const REMOVAL_IN_TIME: ItemMeta = ItemMeta {
        version: None,
        expire_after_seconds: Some(NonZeroU32::MIN),
    };

    /// Whether it is that. A removal expires never.
    pub fn is_removal_in_time(&self) -> bool {
        *self == Self::REMOVAL_IN_TIME
    }
}

/// Why stored bytes are not the encoding of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptItems {
    /// The first byte names an encoding that this program does not know.
    #[error("the stored items have the encoding version {0}, this program reads 1 and 2")]
    Version(u8),
    /// The bytes end inside the header or inside the record of this item.
    #[error("the stored items end early, at item {0}")]
    Truncated(u32),
    /// Bytes follow the last record.
    #[error("{0} bytes follow the last stored item")]
    Trailing(usize),
    /// The key or the fields of this item are not UTF-8.
    #[error("the stored item {0} is not UTF-8")]
    Utf8(u32),
}

impl Items {
    /// Takes stored bytes back after checking version, count, every record boundary and UTF-8.
    /// Does not check again that the fields are JSON.
    ///
    /// # Errors
    /// [`CorruptItems`] names the first item that does not fit; no input panics.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, CorruptItems> {
        let version = *bytes.first().ok_or(CorruptItems::Truncated(0))?;
        if !matches!(version, VERSION | WITH_META) {
            return Err(CorruptItems::Version(version));
        }
        let count = bytes[1..]
            .first_chunk()
            .ok_or(CorruptItems::Truncated(0))
            .map(|count| u32::from_le_bytes(*count))?;
        let mut rest = &bytes[HEADER_BYTES..];
        for item in 0..count {
            let (record, after) = RawRecord::split(rest).ok_or(CorruptItems::Truncated(item))?;
            record.read().ok_or(CorruptItems::Utf8(item))?;
            rest = after;
        }
        if !rest.is_empty() {
            return Err(CorruptItems::Trailing(rest.len()));
        }
        Ok(Self {
            bytes,
            count,
            places: Places::default(),
        })
    }

    /// The items in the order of the payload.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            rest: &self.bytes[HEADER_BYTES..],
            left: self.count,
        }
    }

    /// The items from this one on; none if there are not so many. Costs the same wherever it is.
    pub fn iter_from(&self, index: u32) -> Iter<'_> {
        let mut iter = self.iter();
        if index >= self.count {
            iter.left = 0;
            return iter;
        }
        let stride = index / STRIDE;
        if let Some(before) = stride.checked_sub(1) {
            let places = self.places.0.get_or_init(|| self.places());
            iter.rest = &self.bytes[places[before as usize]..];
            iter.left -= stride * STRIDE;
        }
        iter.pass(index - stride * STRIDE);
        iter
    }

    /// Where the items `STRIDE`, `2 * STRIDE` and so on begin.
    fn places(&self) -> Arc<[usize]> {
        let mut iter = self.iter();
        let strides = self.count.saturating_sub(1) / STRIDE;
        let place = |_| {
            iter.pass(STRIDE);
            self.bytes.len() - iter.rest.len()
        };
        (0..strides).map(place).collect()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether the request had no items (`[]`).
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The encoding: what to store, and what [`Items::from_bytes`] takes back.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Length of the encoding in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}

impl<'a> IntoIterator for &'a Items {
    type Item = ItemRef<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterates over [`Items`], see [`Items::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iter<'a> {
    fn record(&mut self) -> Option<RawRecord<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (record, rest) =
            RawRecord::split(self.rest).expect("Items has `count` whole records by construction");
        self.rest = rest;
        Some(record)
    }

    /// Leaves so many out, without reading them.
    fn pass(&mut self, count: u32) {
        for _ in 0..count {
            self.record();
        }
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = ItemRef<'a>;

    fn next(&mut self) -> Option<ItemRef<'a>> {
        let record = self.record()?;
        Some(
            record
                .read()
                .expect("Items is UTF-8: written from &str or checked by from_bytes"),
        )
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// A record whose boundaries are known and whose text is not yet checked.
struct RawRecord<'a> {
    shape: u64,
    meta: ItemMeta,
    key: &'a [u8],
    fields: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The first record and what follows it, or `None` if the bytes end inside it.
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (key_len, rest) = bytes.split_first_chunk()?;
        let (fields_len, rest) = rest.split_first_chunk()?;
        let (shape, mut rest) = rest.split_first_chunk()?;
        let key_len = u32::from_le_bytes(*key_len);
        let mut meta = ItemMeta::default();
        if key_len & HAS_META != 0 {
            (meta, rest) = ItemMeta::split(rest)?;
        }
        let (key, rest) = rest.split_at_checked((key_len & !HAS_META) as usize)?;
        let (fields, rest) = rest.split_at_checked(u32::from_le_bytes(*fields_len) as usize)?;
        let record = Self {
            shape: u64::from_le_bytes(*shape),
            meta,
            key,
            fields,
        };
        Some((record, rest))
    }

    /// The record as text, or `None` if it is not UTF-8.
    fn read(&self) -> Option<ItemRef<'a>> {
        Some(ItemRef {
            key: std::str::from_utf8(self.key).ok()?,
            fields: simdutf8::basic::from_utf8(self.fields).ok()?,
            shape: self.shape,
            meta: self.meta,
        })
    }
}

impl ItemMeta {
    /// The standing at the beginning, and what follows it.
    #[cold]
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (version, rest) = bytes.split_first_chunk()?;
        let (seconds, rest) = rest.split_first_chunk()?;
        let version = i64::from_le_bytes(*version);
        let meta = Self {
            version: (version != NO_VERSION).then_some(version),
            expire_after_seconds: NonZeroU32::new(u32::from_le_bytes(*seconds)),
        };
        Some((meta, rest))
    }
}

/// The encoding would grow over the writer's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the flattened items are over {bytes_max} bytes")]
pub struct Full {
    /// The bound that was given to the writer.
    pub bytes_max: usize,
}

/// Builds [`Items`] push-style, never over a bound: [`begin`](Self::begin), any number of
/// [`write`](Self::write), [`finish`](Self::finish), for each item; then [`into_items`](Self::into_items).
///
/// The key comes last because it is read from the fields.
#[derive(Debug)]
pub struct ItemsWriter {
    bytes: Vec<u8>,
    count: u32,
    bytes_max: usize,
    /// Where the record being written starts; the end of `bytes` between records.
    record: usize,
}

impl ItemsWriter {
    /// A writer whose encoding stays at or under `bytes_max` bytes, with room for `bytes_expected`.
    pub fn new(bytes_max: usize, bytes_expected: usize) -> Self {
        // Lengths and the count are 32 bits wide: a bound beyond that could not be written down.
        let bytes_max = bytes_max.min(u32::MAX as usize);
        let mut bytes = Vec::with_capacity(bytes_expected.min(bytes_max).max(HEADER_BYTES));
        bytes.push(VERSION);
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        Self {
            record: bytes.len(),
            bytes,
            count: 0,
            bytes_max,
        }
    }

    /// Starts an item. One that was begun and not finished is dropped.
    ///
    /// # Errors
    /// [`Full`] if its record would not fit.
    pub fn begin(&mut self) -> Result<(), Full> {
        self.abandon();
        self.reserve(RECORD_BYTES)?;
        self.bytes.extend_from_slice(&[0; RECORD_BYTES]);
        Ok(())
    }

    /// Appends to the fields of the item that was begun.
    ///
    /// # Errors
    /// [`Full`] if the text would not fit; nothing is written then.
    #[inline]
    pub fn write(&mut self, text: &str) -> Result<(), Full> {
        debug_assert!(
            self.bytes.len() >= self.record + RECORD_BYTES,
            "begin first"
        );
        self.reserve(text.len())?;
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// Bytes that were written to the item that was begun.
    pub fn written_len(&self) -> usize {
        self.bytes.len().saturating_sub(self.record + RECORD_BYTES)
    }

    /// What was written to the item that was begun.
    pub fn written(&self) -> &str {
        let fields = self.bytes.get(self.record + RECORD_BYTES..);
        simdutf8::basic::from_utf8(fields.unwrap_or_default())
            .expect("`write` takes only &str, so their concatenation is UTF-8")
    }

    /// Ends the item that was begun: puts key, lengths and shape in front of its fields.
    ///
    /// # Errors
    /// [`Full`] if the key would not fit.
    pub fn finish(&mut self, key: &str, shape: u64) -> Result<(), Full> {
        let fields_at = self.record + RECORD_BYTES;
        let fields_end = self.bytes.len();
        debug_assert!(fields_end >= fields_at, "begin first");
        self.reserve(key.len())?;
        self.bytes.resize(fields_end + key.len(), 0);
        self.bytes
            .copy_within(fields_at..fields_end, fields_at + key.len());
        // The bound fits 32 bits, so every length below it does.
        let header = &mut self.bytes[self.record..fields_at + key.len()];
        header[0..4].copy_from_slice(&(key.len() as u32).to_le_bytes());
        header[4..8].copy_from_slice(&((fields_end - fields_at) as u32).to_le_bytes());
        header[8..16].copy_from_slice(&shape.to_le_bytes());
        header[RECORD_BYTES..].copy_from_slice(key.as_bytes());
        self.record = self.bytes.len();
        self.count += 1;
        Ok(())
    }

    /// Drops the item that was begun and not finished.
    pub fn abandon(&mut self) {
        self.bytes.truncate(self.record);
    }

    /// Like [`push`](Self::push), for an item that is more than its place in the order of acceptance.
    ///
    /// # Errors
    /// [`Full`] if it would not fit; the item is dropped then.
    pub fn push_with(&mut self, key: &str, fields: &str, meta: ItemMeta) -> Result<(), Full> {
        let record = self.record;
        self.push(key, fields)?;
        if meta == ItemMeta::default() {
            return Ok(());
        }
        if let Err(full) = self.reserve(META_BYTES) {
            self.bytes.truncate(record);
            self.record = record;
            self.count -= 1;
            return Err(full);
        }
        let version = meta.version.unwrap_or(NO_VERSION).to_le_bytes();
        let seconds = meta
            .expire_after_seconds
            .map_or(0, NonZeroU32::get)
            .to_le_bytes();
        let at = record + RECORD_BYTES;
        self.bytes
            .splice(at..at, version.into_iter().chain(seconds));
        self.bytes[0] = WITH_META;
        // The highest byte of the length.
        self.bytes[record + 3] |= (HAS_META >> 24) as u8;
        self.record = self.bytes.len();
        Ok(())
    }

    /// Writes a whole item: flat JSON object text and its key. The shape is computed.
    ///
    /// # Errors
    /// [`Full`] if it would not fit; the item is dropped then.
    pub fn push(&mut self, key: &str, fields: &str) -> Result<(), Full> {
        self.begin()?;
        self.write(fields)
            .and_then(|()| self.finish(key, shape(fields)))
            .inspect_err(|_| self.abandon())
    }

    /// The finished items. An item that was begun and not finished is dropped.
    pub fn into_items(mut self) -> Items {
        self.abandon();
        self.bytes[1..HEADER_BYTES].copy_from_slice(&self.count.to_le_bytes());
        // These bytes may wait in memory for the journal: give back a guess that was far too large.
        if self.bytes.capacity() - self.bytes.len() > self.bytes.len() / 4 + 64 {
            self.bytes.shrink_to_fit();
        }
        Items {
            bytes: self.bytes.into(),
            count: self.count,
            places: Places::default(),
        }
    }

    #[inline]
    fn reserve(&self, more: usize) -> Result<(), Full> {
        if more > self.bytes_max.saturating_sub(self.bytes.len()) {
            return Err(Full {
                bytes_max: self.bytes_max,
            });
        }
        Ok(())
    }
}
