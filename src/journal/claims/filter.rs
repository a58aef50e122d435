//! Which keys an hour cannot hold: a Bloom filter in blocks, 64 bytes for 40 keys.
//!
//! Only `journal/claims.rs` uses it. All bits of a key lie in one block, which is one line of the processor's cache, so
//! that looking through a day costs some 24 of them. A key that was never inserted passes one time in some hundred.
//!
//! **Invariant**: what was inserted passes, always.

/// About 13 bits a key.
const BLOCK_KEYS: usize = 40;
/// The first part of a filter of which nothing is known holds so many.
const KEYS_MIN: usize = 1_000;

/// Keys are digests: their bytes are as good as any hash of them.
pub(super) type Key = [u8; 16];

/// Grows by a further part when the last is full; takes no memory while it is empty.
#[derive(Debug, Default)]
pub(super) struct Filter {
    parts: Vec<Part>,
    /// The next part holds at least so many keys.
    next_keys: usize,
}

#[derive(Debug)]
struct Part {
    blocks: Vec<Block>,
    keys: usize,
    keys_max: usize,
}

/// A key has one bit in each word.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Block([u64; 8]);

impl Filter {
    /// A filter that will hold about so many keys.
    pub(super) fn expecting(keys: usize) -> Self {
        Self {
            parts: Vec::new(),
            next_keys: keys,
        }
    }

    /// How many keys were inserted.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.keys).sum()
    }

    /// From now on the key passes.
    pub(super) fn insert(&mut self, key: &Key) {
        let full = self
            .parts
            .last()
            .is_none_or(|part| part.keys >= part.keys_max);
        if full {
            self.parts.push(Part::new(self.next_keys.max(KEYS_MIN)));
            self.next_keys = self.len() / 2;
        }
        if let Some(part) = self.parts.last_mut() {
            part.insert(key);
        }
    }

    /// False: the key was never inserted.
    pub(super) fn passes(&self, key: &Key) -> bool {
        self.parts.iter().any(|part| part.passes(key))
    }

    /// From now on what passes the other passes too.
    pub(super) fn take_in(&mut self, other: Self) {
        // In front: the last part is the one that is filled.
        self.parts.splice(0..0, other.parts);
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        let blocks: usize = self.parts.iter().map(|part| part.blocks.len()).sum();
        blocks * size_of::<Block>()
    }
}

impl Part {
    fn new(keys_max: usize) -> Self {
        Self {
            blocks: vec![Block([0; 8]); keys_max.div_ceil(BLOCK_KEYS)],
            keys: 0,
            keys_max,
        }
    }

    fn insert(&mut self, key: &Key) {
        let (block, bits) = self.place(key);
        for (word, bit) in self.blocks[block].0.iter_mut().zip(bits) {
            *word |= bit;
        }
        self.keys += 1;
    }

    fn passes(&self, key: &Key) -> bool {
        let (block, bits) = self.place(key);
        let mut words = self.blocks[block].0.iter().zip(bits);
        words.all(|(word, bit)| word & bit != 0)
    }

    /// The block by the key's first half, a bit of each of its words by the second.
    fn place(&self, key: &Key) -> (usize, [u64; 8]) {
        let halves = u128::from_be_bytes(*key);
        let (first, second) = ((halves >> 64) as u64, halves as u64);
        let block = (u128::from(first) * self.blocks.len() as u128) >> 64;
        let bits = std::array::from_fn(|word| 1 << ((second >> (6 * word)) & 63));
        (block as usize, bits)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn key(number: u64) -> Key {
        let digest = Sha256::digest(number.to_le_bytes());
        std::array::from_fn(|at| digest[at])
    }

    proptest! {
        #[test]
        fn what_was_inserted_passes(
            expected in 0..3_000_usize,
            numbers in prop::collection::vec(0..1_u64 << 40, 0..4_000),
            others in prop::collection::vec(0..1_u64 << 40, 0..4_000),
        ) {
            let mut filter = Filter::expecting(expected);
            let mut other = Filter::default();
            let mut inserted = HashSet::new();
            let half = numbers.len() / 2;
            for number in &numbers[..half] {
                filter.insert(&key(*number));
                inserted.insert(*number);
            }
            for number in others {
                other.insert(&key(number));
                inserted.insert(number);
            }
            filter.take_in(other);
            for number in &numbers[half..] {
                filter.insert(&key(*number));
                inserted.insert(*number);
            }
            for number in &inserted {
                prop_assert!(filter.passes(&key(*number)), "{number}");
            }
        }
    }

    #[test]
    fn few_others_pass_and_a_key_takes_two_bytes() {
        const KEYS: u64 = 100_000;
        for (expected, bytes_max) in [(KEYS as usize, 1.7), (0, 2.6)] {
            let mut filter = Filter::expecting(expected);
            assert_eq!(filter.bytes(), 0);
            for number in 0..KEYS {
                filter.insert(&key(number));
            }
            assert_eq!(filter.len(), KEYS as usize);
            let passed = (KEYS..2 * KEYS).filter(|number| filter.passes(&key(*number)));
            let share = passed.count() as f64 / KEYS as f64;
            assert!(share < 0.01 * filter.parts.len() as f64, "{share}");
            let bytes = filter.bytes() as f64 / KEYS as f64;
            assert!(bytes < bytes_max, "{bytes} bytes a key");
        }
    }
}
