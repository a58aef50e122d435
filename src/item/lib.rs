//! Flat items: what flattening writes, the journal stores, and every sink reads.
//!
//! Owns the one buffer in which the items of a request travel, its encoding (one record of it in `record`), and (in its
//! files `fields` and `nest`) the reading of a flat JSON object. Called by `ingest::flatten` (writes), the journal (stores and reads back),
//! delivery, plugins, pool and live (read). Knows nothing of streams, HTTP or SQL.
//!
//! The encoding, all integers little-endian:
//!
//! ```text
//! u8 version · u32 count · then for each item:
//! u32 key_len · u32 fields_len · u64 shape · key · fields
//! ```
//!
//! In version 3 the highest bit of a `key_len` says that `i128 version · u32 expire_after_seconds` stand before that key
//! (see [`ItemMeta`]), the next one that the item is a removal, and the one after it that `u8 text_len · text` follow that:
//! the version as it was sent, where that is not how the version itself is written. Version 1 has no such records. Version 2, which is read
//! and not written any more, has versions of 64 bits, and no removals: what was asked of its items stood beside them.
//!
//! The two highest bits of the first byte say what updates did in the stream when the request was accepted: replaced, or
//! merged. Neither: that was not known, as in all that was stored before.
//!
//! **Invariant**: every [`Items`] in the process has whole records, exactly `count` of them, whose keys and
//! fields are UTF-8. It is made either by [`ItemsWriter`], which only takes `&str`, or by
//! [`Items::from_bytes`], which checks. That the fields are JSON is the promise of whoever wrote them.
#![deny(unsafe_code)]

pub mod batch;
mod fields;
pub mod flatten;
mod meta;
mod nest;
mod record;
#[cfg(test)]
mod tests;
mod version;
mod writer;

use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};

pub use fields::{
    Members, ShapeHash, field_name, members, merge, name_hash, quote_into, shape, string_into,
    unescape,
};
pub use meta::{Action, ItemMeta};
pub use nest::nest;
use record::RawRecord;
pub use record::{ItemRef, Iter};
pub use version::Version;
pub use writer::{Full, ItemsWriter};

/// Versions of the encoding, the first byte of every buffer: without and with flags.
const PLAIN: u8 = 1;
const WITH_META_2: u8 = 2;
const WITH_FLAGS: u8 = 3;
/// In the first byte: updates replaced what was there when the request was accepted.
const REPLACED: u8 = 1 << 6;
/// In the first byte: updates were merged into what was there.
const MERGED: u8 = 1 << 7;
/// Bytes before the first record: version and count.
const HEADER_BYTES: usize = 5;
/// Bytes of a record before its key: two lengths and the shape.
const RECORD_BYTES: usize = 16;
/// The fields of a removal.
const NO_FIELDS: &str = "{}";
/// Items from one place that is remembered to the next.
const STRIDE: u32 = 64;

/// The flattened items of one request in one buffer: what the journal stores and every sink reads.
///
/// Cloning shares the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Items {
    bytes: Bytes,
    count: u32,
    /// How many of them are removals.
    removals: u32,
    places: Places,
}

/// Where every [`STRIDE`]th item begins, once somebody wanted to begin in the middle. Without them, each batch of a
/// long request would read all items before its first.
#[derive(Clone, Debug, Default)]
struct Places(OnceLock<Arc<[usize]>>);

/// It says nothing that the bytes do not say.
impl PartialEq for Places {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Places {}

/// Why stored bytes are not the encoding of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CorruptItems {
    /// The first byte names an encoding that this program does not know.
    #[error("the stored items have the encoding version {0}, this program reads 1, 2 and 3")]
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
    /// The first bytes of the encoding of items some of which are removals, or have a version or an end.
    pub const WITH_FLAGS: [u8; 3] = [WITH_FLAGS, WITH_FLAGS | REPLACED, WITH_FLAGS | MERGED];

    /// Takes stored bytes back after checking version, count, every record boundary and UTF-8.
    /// Does not check again that the fields are JSON.
    ///
    /// # Errors
    /// [`CorruptItems`] names the first item that does not fit; no input panics.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, CorruptItems> {
        Self::from_stored(bytes, Action::Upsert)
    }

    /// The same for bytes beside which it stands what is asked of all items: that counts where the encoding is of a
    /// version that does not say it itself.
    ///
    /// # Errors
    /// As [`Items::from_bytes`].
    pub fn from_stored(bytes: Bytes, action: Action) -> Result<Self, CorruptItems> {
        let first = *bytes.first().ok_or(CorruptItems::Truncated(0))?;
        // Version 2 is older than what is said of updates.
        let version = match first & !(REPLACED | MERGED) {
            version @ (PLAIN | WITH_FLAGS) => version,
            WITH_META_2 if first == WITH_META_2 => WITH_META_2,
            _ => return Err(CorruptItems::Version(first)),
        };
        let count = bytes[1..]
            .first_chunk()
            .ok_or(CorruptItems::Truncated(0))
            .map(|count| u32::from_le_bytes(*count))?;
        let mut rest = &bytes[HEADER_BYTES..];
        let mut removals = 0;
        for item in 0..count {
            let (record, after) =
                RawRecord::split(version, rest).ok_or(CorruptItems::Truncated(item))?;
            removals += u32::from(record.action == Action::Remove);
            record.read().ok_or(CorruptItems::Utf8(item))?;
            rest = after;
        }
        if !rest.is_empty() {
            return Err(CorruptItems::Trailing(rest.len()));
        }
        if version == WITH_META_2 || (version == PLAIN && action == Action::Remove) {
            return Ok(Self::rewritten(&bytes, count, action));
        }
        Ok(Self {
            bytes,
            count,
            removals,
            places: Places::default(),
        })
    }

    /// Items of an older encoding in the one of today. `bytes` were checked. Readers know the encoding of today only.
    #[cold]
    fn rewritten(bytes: &[u8], count: u32, action: Action) -> Self {
        let mut writer = ItemsWriter::new(usize::MAX, bytes.len() + 8 * count as usize);
        let mut rest = &bytes[HEADER_BYTES..];
        while let Some((record, after)) = RawRecord::split(bytes[0] & !(REPLACED | MERGED), rest) {
            let item = record.read().expect("it was checked");
            let pushed = writer.push_item(&ItemRef { action, ..item });
            pushed.expect("it was written before, so its lengths fit");
            rest = after;
        }
        writer.into_items()
    }

    /// The same items, accepted while updates in their stream did this. What a stream does later changes nothing for them.
    #[must_use]
    pub fn accepted(self, merges: bool) -> Self {
        if self.merges() == Some(merges) {
            return self;
        }
        let said = match merges {
            true => MERGED,
            false => REPLACED,
        };
        // Only bytes that others have as well are copied.
        let own = self.bytes.try_into_mut();
        let mut bytes = own.unwrap_or_else(|shared| BytesMut::from(&*shared));
        bytes[0] = (bytes[0] & !(REPLACED | MERGED)) | said;
        Self {
            bytes: bytes.freeze(),
            ..self
        }
    }

    /// Whether updates were merged into what was there when the request was accepted. None: that was not known.
    pub fn merges(&self) -> Option<bool> {
        match self.bytes[0] & (REPLACED | MERGED) {
            0 => None,
            said => Some(said & MERGED != 0),
        }
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

    /// How many of the items are removals.
    pub fn removals(&self) -> usize {
        self.removals as usize
    }

    /// What is asked of all items; none if it is not the same of all.
    pub fn action(&self) -> Option<Action> {
        match self.removals {
            0 => Some(Action::Upsert),
            all if all == self.count => Some(Action::Remove),
            _ => None,
        }
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
