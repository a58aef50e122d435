//! Which rows of `items` had the keys that were written last.
//!
//! SQLite updates a row whose number it is given for a fifth less than one whose key it looks up.
//!
//! **Invariant**: a number may be wrong by now: the row was removed, has got another number, or was never committed. Whoever
//! uses it has SQLite compare the key of the row as well, and then a wrong one changes nothing.

use std::hash::{BuildHasher, RandomState};

/// Keys that are remembered: 512 KiB when all of them are. Its size is fixed, so that many keys cost no more memory.
const SLOTS: usize = 1 << 16;

/// The numbers of some rows. A key that comes to the slot of another one takes it.
#[derive(Debug)]
pub(crate) struct RowNumbers {
    /// The half of a key's hash that did not choose the slot, and the number of its row; 0: none. Zeros take no memory.
    slots: Box<[u64]>,
    /// Senders choose keys, so the seed is random.
    hasher: RandomState,
}

/// What is remembered of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct RememberedRow {
    /// The number of the row that may have the key.
    pub(super) number: Option<u32>,
    slot: usize,
    tag: u64,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self {
            slots: vec![0; SLOTS].into(),
            hasher: RandomState::new(),
        }
    }
}

impl RowNumbers {
    pub(super) fn find(&self, stream: &str, key: &str) -> RememberedRow {
        let hash = self.hasher.hash_one((stream, key));
        let (tag, slot) = (hash & !u64::from(u32::MAX), hash as u32 as usize % SLOTS);
        // What is left of it has no tag if that is the key's.
        let number = self.slots.get(slot).map_or(0, |slot| slot ^ tag);
        RememberedRow {
            number: u32::try_from(number).ok().filter(|number| *number > 0),
            slot,
            tag,
        }
    }

    /// The row of this number has the key. A number that is too large is not remembered, because the other half of a
    /// slot is a tag.
    pub(super) fn note(&mut self, remembered: RememberedRow, number: i64) {
        if let (Some(slot), Ok(number)) =
            (self.slots.get_mut(remembered.slot), u32::try_from(number))
        {
            *slot = remembered.tag | u64::from(number);
        }
    }
}
