//! Which rows of `items` had the keys that were written last.
//!
//! SQLite updates a row whose number it is given for a fifth less than one whose key it looks up.
//!
//! **Invariant**: a number is a guess. Whoever uses it has SQLite compare the key of the row as well, so that a row that was
//! removed, moved or taken back since is only a guess in vain.

use std::hash::{BuildHasher, RandomState};

/// Keys that are remembered: 512 KiB when all of them are.
const SLOTS: usize = 1 << 16;

/// The numbers of some rows. A key that comes to the slot of another one takes it.
#[derive(Debug)]
pub(crate) struct RowNumbers {
    slots: Box<[Slot]>,
    hasher: RandomState,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Bits of the key's hash that did not choose the slot.
    tag: u32,
    /// 0: none.
    number: u32,
}

/// What is remembered of a key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Guess {
    /// The number of the row that may have the key.
    pub(super) number: Option<i64>,
    slot: usize,
    tag: u32,
}

impl Default for RowNumbers {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into(),
            hasher: RandomState::new(),
        }
    }
}

impl RowNumbers {
    pub(super) fn guess(&self, stream: &str, key: &str) -> Guess {
        let hash = self.hasher.hash_one((stream, key));
        let (tag, low) = ((hash >> 32) as u32, hash as u32);
        let slot = low as usize % SLOTS;
        let there = self.slots.get(slot).copied().unwrap_or_default();
        Guess {
            number: (there.number != 0 && there.tag == tag).then(|| there.number.into()),
            slot,
            tag,
        }
    }

    /// The row of this number has the key. A number that is too large is not remembered.
    pub(super) fn note(&mut self, guess: Guess, number: i64) {
        if let (Some(slot), Ok(number)) = (self.slots.get_mut(guess.slot), number.try_into()) {
            *slot = Slot {
                tag: guess.tag,
                number,
            };
        }
    }
}
