//! One record of the encoding, and the item that is read from it.
//!
//! **Invariant**: a record is split before it is read: what only passes it reads no text.

use std::borrow::Cow;

use super::fields::ShapeHash;
use super::meta::{self, Action, ItemMeta};
use super::{NO_FIELDS, WITH_FLAGS};

/// One item, borrowed from its [`Items`](super::Items).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRef<'a> {
    /// Identifies the item in its stream: the value of the item-key field, or the position in the payload.
    pub key: &'a str,
    /// JSON text of the flat object, without white space between tokens.
    pub fields: &'a str,
    /// Hash of the ordered field names, see [`shape`](super::shape). Equal shapes: no new field has appeared.
    pub shape: u64,
    /// What is asked of it. A removal has no fields (`{}`).
    pub action: Action,
    /// What decides beside the order of acceptance.
    pub meta: ItemMeta,
    /// The version as it was sent; empty: as the version itself is written. See [`ItemRef::version_text`].
    pub sent_version: &'a str,
}

impl<'a> ItemRef<'a> {
    /// What removes the item.
    pub(crate) fn removed(self) -> Self {
        Self {
            fields: NO_FIELDS,
            shape: ShapeHash::default().finish(),
            action: Action::Remove,
            meta: ItemMeta {
                expire_after_seconds: None,
                is_whole: false,
                ..self.meta
            },
            ..self
        }
    }

    /// The version as it was sent.
    pub fn version_text(&self) -> Option<Cow<'a, str>> {
        let version = self.meta.version?;
        Some(match self.sent_version {
            "" => version.to_string().into(),
            sent => sent.into(),
        })
    }
}

/// Iterates over [`Items`](super::Items), see [`Items::iter`](super::Items::iter).
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    pub(super) rest: &'a [u8],
    pub(super) left: u32,
}

impl<'a> Iter<'a> {
    pub(super) fn record(&mut self) -> Option<RawRecord<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (record, rest) = RawRecord::split(WITH_FLAGS, self.rest)
            .expect("Items has `count` whole records by construction");
        self.rest = rest;
        Some(record)
    }

    /// Leaves so many out, without reading them.
    pub(super) fn pass(&mut self, count: u32) {
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
pub(super) struct RawRecord<'a> {
    shape: u64,
    pub(super) action: Action,
    meta: ItemMeta,
    sent_version: &'a [u8],
    key: &'a [u8],
    fields: &'a [u8],
}

impl<'a> RawRecord<'a> {
    /// The first record and what follows it, or `None` if the bytes end inside it.
    pub(super) fn split(encoding: u8, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (key_len, rest) = bytes.split_first_chunk()?;
        let (fields_len, rest) = rest.split_first_chunk()?;
        let (shape, mut rest) = rest.split_first_chunk()?;
        let key_len = u32::from_le_bytes(*key_len);
        let mut action = Action::Upsert;
        let mut meta = ItemMeta::default();
        let mut sent_version: &[u8] = &[];
        let flags = key_len & meta::FLAGS;
        if flags != 0 {
            let said = meta::split(encoding, flags, rest)?;
            (action, meta) = (said.action, said.meta);
            (sent_version, rest) = (said.sent_version, said.rest);
        }
        let (key, rest) = rest.split_at_checked((key_len & !meta::FLAGS) as usize)?;
        let (fields, rest) = rest.split_at_checked(u32::from_le_bytes(*fields_len) as usize)?;
        let record = Self {
            shape: u64::from_le_bytes(*shape),
            action,
            meta,
            sent_version,
            key,
            fields,
        };
        Some((record, rest))
    }

    /// The record as text, or `None` if it is not UTF-8.
    pub(super) fn read(&self) -> Option<ItemRef<'a>> {
        Some(ItemRef {
            key: std::str::from_utf8(self.key).ok()?,
            fields: simdutf8::basic::from_utf8(self.fields).ok()?,
            shape: self.shape,
            action: self.action,
            meta: self.meta,
            sent_version: std::str::from_utf8(self.sent_version).ok()?,
        })
    }
}
