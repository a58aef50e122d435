//! Writing items: the one place where the encoding is made.
//!
//! `flatten` writes what a request brings, `ingest` and derived batches what they make of it.
//!
//! **Invariant**: no more bytes are written than the bound says, and records are whole. Memory that the next writer of a
//! thread uses again is empty and small, whatever was written last.

use std::cell::Cell;

use bytes::Bytes;

use super::{
    Action, HEADER_BYTES, ItemMeta, ItemRef, Items, PLAIN, Places, RECORD_BYTES, Version,
    WITH_FLAGS, meta, shape,
};

/// Memory for more bytes than this is not used again. Otherwise one large request would keep its memory for all that
/// follow.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
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
    removals: u32,
    bytes_max: usize,
    /// Where the record being written starts; the end of `bytes` between records.
    record: usize,
}

impl ItemsWriter {
    /// A writer whose encoding stays at or under `bytes_max` bytes, with room for `bytes_expected`.
    pub fn new(bytes_max: usize, bytes_expected: usize) -> Self {
        // Lengths and the count are 32 bits wide: a bound beyond that could not be written down.
        let bytes_max = bytes_max.min(u32::MAX as usize);
        let bytes_expected = bytes_expected.min(bytes_max).max(HEADER_BYTES);
        let mut bytes = match bytes_expected <= KEPT_BYTES_MAX {
            true => KEPT.take(),
            false => Vec::new(),
        };
        bytes.reserve(bytes_expected);
        bytes.push(PLAIN);
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        Self {
            record: bytes.len(),
            bytes,
            count: 0,
            removals: 0,
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

    /// Appends what stands before a name, then the name in its two parts. Returns the name as it was written.
    ///
    /// # Errors
    /// [`Full`] if they would not fit; nothing is written then.
    #[inline]
    pub fn write_name(&mut self, before: &str, path: &str, name: &str) -> Result<&[u8], Full> {
        self.reserve(before.len() + path.len() + name.len())?;
        self.bytes.extend_from_slice(before.as_bytes());
        let start = self.bytes.len();
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.extend_from_slice(name.as_bytes());
        Ok(&self.bytes[start..])
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

    /// Like [`push`](Self::push), for an item that is more than an update in the order of acceptance.
    ///
    /// # Errors
    /// [`Full`] if it would not fit; the item is dropped then.
    pub fn push_with(
        &mut self,
        key: &str,
        fields: &str,
        action: Action,
        meta: ItemMeta,
    ) -> Result<(), Full> {
        self.push_item(&ItemRef {
            key,
            fields,
            shape: 0,
            action,
            meta,
            sent_version: "",
        })
    }

    /// Writes a whole item with all that is said of it. The shape is computed.
    ///
    /// # Errors
    /// [`Full`] if it would not fit; the item is dropped then.
    pub fn push_item(&mut self, item: &ItemRef<'_>) -> Result<(), Full> {
        let record = self.record;
        self.push(item.key, item.fields)?;
        let said = item.meta != ItemMeta::default();
        let text = match item.sent_version.len() {
            len @ 1..=Version::TEXT_BYTES_MAX if said => Some(len as u8),
            _ => None,
        };
        let meta_bytes = match (said, text) {
            (false, _) => 0,
            (true, text) => ItemMeta::BYTES + text.map_or(0, |len| 1 + usize::from(len)),
        };
        if let Err(full) = self.reserve(meta_bytes) {
            self.bytes.truncate(record);
            self.record = record;
            self.count -= 1;
            return Err(full);
        }
        let mut flags = item.action.flag();
        let at = record + RECORD_BYTES;
        if let Some(len) = text {
            flags |= meta::HAS_TEXT;
            let text = item.sent_version.bytes();
            self.bytes.splice(at..at, std::iter::once(len).chain(text));
        }
        if said {
            flags |= meta::HAS_META;
            if item.meta.is_whole {
                flags |= meta::IS_WHOLE;
            }
            self.bytes.splice(at..at, item.meta.to_bytes());
        }
        if flags != 0 {
            self.bytes[0] = WITH_FLAGS;
            // The highest byte of the length.
            self.bytes[record + 3] |= (flags >> 24) as u8;
            self.record = self.bytes.len();
        }
        self.removals += u32::from(item.action == Action::Remove);
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
        Items {
            bytes: into_bytes(self.bytes),
            count: self.count,
            removals: self.removals,
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

/// The bytes without room for more: they may wait in memory for the journal. Few of them are copied, and the next writer uses
/// their memory. Spare bytes would also make the shared buffer allocate its counter apart.
fn into_bytes(mut bytes: Vec<u8>) -> Bytes {
    if bytes.capacity() <= KEPT_BYTES_MAX {
        let exact = Bytes::copy_from_slice(&bytes);
        bytes.clear();
        KEPT.set(bytes);
        return exact;
    }
    // Of a guess that was about right nothing is given back: that may copy all of it.
    if bytes.capacity() - bytes.len() > bytes.len() / 4 + 64 {
        bytes.shrink_to_fit();
    }
    bytes.into()
}
