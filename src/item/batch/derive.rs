//! Making a batch of another: some of the items, some of the fields, other names, another stream.
//!
//! **Invariant**: a derived item keeps its key and its place in the order of acceptance, so what it does to
//! the pool is ordered like what it was made of. The same steps on the same items give the same id; a selection is
//! known by its items alone. A derived batch takes no more than the room that was given for it, and no more than that
//! is ever done to make it.

mod fields;
mod made;
mod select;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{Batch, Entry, Slice, short};
pub use made::MadeError;

/// Longest name of a stream, in characters.
const STREAM_NAME_CHARS_MAX: usize = 128;

/// Names that a step may be about: more than an item has fields.
const NAMES_MAX: usize = 100_000;
/// What an entry takes, beside its items and its place in the batch. The two numbers are the counters of its `Arc`.
const ENTRY_BYTES: usize = size_of::<Entry>() + 2 * size_of::<usize>();

/// Why a batch cannot be derived.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeriveError {
    /// There is no such item.
    #[error("there is no item {index}; the batch has {len}")]
    Index {
        /// The place that was asked for, from 0.
        index: u32,
        len: u32,
    },
    /// More items than a selection may have.
    #[error(
        "a selection of {count} items; the batch has {len}, a selection may have {max}: select in parts"
    )]
    TooMany {
        count: usize,
        len: u32,
        /// How many there may be.
        max: usize,
    },
    /// More names than an item could have fields.
    #[error("{0} names of fields; there may be {NAMES_MAX}")]
    TooManyNames(usize),
    /// Two fields of an item would have the same name.
    #[error("an item would have the field {0} twice")]
    Twice(String),
    /// The derived items are more bytes than there is room for.
    #[error("the derived items are over {0} bytes")]
    TooLarge(usize),
    /// No stream can have this name.
    #[error(
        "the name of a stream has 1 to {STREAM_NAME_CHARS_MAX} characters and no control characters"
    )]
    StreamName,
}

impl Batch {
    /// All items as items of another stream.
    ///
    /// # Errors
    /// [`DeriveError::StreamName`], [`DeriveError::TooLarge`].
    pub fn in_stream(&self, stream: &str, room: usize) -> Result<Self, DeriveError> {
        let chars = stream.chars().count();
        if !(1..=STREAM_NAME_CHARS_MAX).contains(&chars) || stream.chars().any(char::is_control) {
            return Err(DeriveError::StreamName);
        }
        if self.entries_bytes() > room {
            return Err(DeriveError::TooLarge(room));
        }
        let name: Arc<str> = stream.into();
        let slices = self.slices.iter().map(|slice| Slice {
            entry: Arc::new(Entry {
                stream: Arc::clone(&name),
                ..Entry::clone(&slice.entry)
            }),
            ..slice.clone()
        });
        let moved = self.derived(slices.collect(), 0, "stream", stream.bytes());
        Ok(Self {
            moved: true,
            ..moved
        })
    }

    /// Bytes that this batch takes beside those of the batch that it was made of.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// What the entries of a batch made of this one take, beside their items.
    fn entries_bytes(&self) -> usize {
        self.slices.len() * (size_of::<Slice>() + ENTRY_BYTES)
    }

    /// The suffix includes the steps before, so that a batch which was made in another way has another id.
    fn derived(
        &self,
        slices: Vec<Slice>,
        item_bytes: usize,
        step: &str,
        about: impl Iterator<Item = u8>,
    ) -> Self {
        let mut digest = Sha256::new();
        digest.update(self.suffix.as_deref().unwrap_or_default());
        digest.update(step);
        digest.update(about.collect::<Vec<u8>>());
        let suffix = format!("/{}", short(&digest.finalize()));
        Self {
            suffix: Some(suffix.into()),
            own_bytes: item_bytes + self.entries_bytes(),
            moved: self.moved,
            origin: self.origin,
            fill: self.fill,
            ..Self::new(slices, self.attempt)
        }
    }
}
