//! Which keys a run cannot hold: a Bloom filter in blocks, 64 bytes for 24 keys.
//!
//! Only `journal/claims.rs` uses it. All bits of a key lie in one block, which is one line of the processor's cache, so
//! that looking through the runs of a day costs a line for each. A key that was never put in passes about one time in
//! five thousand.
//!
//! **Invariant**: what was put in passes, always; a filter that was stored and came back otherwise is noticed.

/// Some 21 bits a key.
const BLOCK_KEYS: usize = 24;
const BLOCK_BYTES: usize = size_of::<Block>();

/// Keys are digests: their bytes are as good as any hash of them.
pub(super) type Key = [u8; 16];

/// The keys of one run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    blocks: Box<[Block]>,
}

/// A key has one bit in each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Block([u64; 8]);

/// A key as every filter looks for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    /// Says which block.
    place: u64,
    bits: [u64; 8],
}

impl Probe {
    /// The block by the key's first half, a bit of each of its words by the second.
    pub(super) fn new(key: &Key) -> Self {
        let halves = u128::from_be_bytes(*key);
        let second = halves as u64;
        Self {
            place: (halves >> 64) as u64,
            bits: std::array::from_fn(|word| 1 << ((second >> (6 * word)) & 63)),
        }
    }
}

impl Filter {
    /// The filter of these keys.
    pub(super) fn of<'a>(keys: impl ExactSizeIterator<Item = &'a Key>) -> Self {
        let blocks = keys.len().div_ceil(BLOCK_KEYS).max(1);
        let mut filter = Self {
            blocks: vec![Block([0; 8]); blocks].into(),
        };
        for key in keys {
            let probe = Probe::new(key);
            let block = filter.block(&probe);
            for (word, bit) in filter.blocks[block].0.iter_mut().zip(probe.bits) {
                *word |= bit;
            }
        }
        filter
    }

    /// False: the key was never put in.
    pub(super) fn passes(&self, probe: &Probe) -> bool {
        let words = self.blocks[self.block(probe)].0.iter();
        words.zip(probe.bits).all(|(word, bit)| word & bit != 0)
    }

    fn block(&self, probe: &Probe) -> usize {
        ((u128::from(probe.place) * self.blocks.len() as u128) >> 64) as usize
    }

    /// As it is stored: a checksum, then the words, little endian.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let words = self.blocks.iter().flat_map(|block| block.0);
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        [&crc32fast::hash(&words).to_le_bytes()[..], &words].concat()
    }

    /// The same back; `None` if these are not the bytes that were stored.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (checksum, words) = bytes.split_first_chunk()?;
        let whole = !words.is_empty() && words.len().is_multiple_of(BLOCK_BYTES);
        if !whole || crc32fast::hash(words) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (words, _) = words.as_chunks();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let blocks = words.len() / 8;
        let mut block = || Block(std::array::from_fn(|_| words.next().unwrap_or_default()));
        Some(Self {
            blocks: (0..blocks).map(|_| block()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sha2::{Digest, Sha256};

    use super::*;

    fn key(number: u64) -> Key {
        let digest = Sha256::digest(number.to_le_bytes());
        std::array::from_fn(|at| digest[at])
    }

    proptest! {
        #[test]
        fn what_was_put_in_passes(numbers in prop::collection::vec(0..1_u64 << 40, 0..4_000)) {
            let keys: Vec<Key> = numbers.into_iter().map(key).collect();
            let filter = Filter::of(keys.iter());
            let stored = Filter::from_bytes(&filter.to_bytes());
            prop_assert_eq!(stored.as_ref(), Some(&filter));
            for key in &keys {
                prop_assert!(filter.passes(&Probe::new(key)));
            }
        }

        #[test]
        fn a_stored_filter_that_was_changed_is_noticed(at in 0..324_usize, bit in 0..8_u32) {
            let keys: Vec<Key> = (0..100).map(key).collect();
            let mut bytes = Filter::of(keys.iter()).to_bytes();
            assert_eq!(bytes.len(), 324);
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(Filter::from_bytes(&bytes), None);
            prop_assert_eq!(Filter::from_bytes(&bytes[..at]), None);
        }
    }

    #[test]
    fn few_others_pass_and_a_key_takes_under_three_bytes() {
        const KEYS: u64 = 100_000;
        let keys: Vec<Key> = (0..KEYS).map(key).collect();
        let filter = Filter::of(keys.iter());
        let others = KEYS..11 * KEYS;
        let passed = others.filter(|number| filter.passes(&Probe::new(&key(*number))));
        let share = passed.count() as f64 / (10 * KEYS) as f64;
        assert!(share < 0.000_5, "{share}");
        let bytes = filter.to_bytes().len() as f64 / KEYS as f64;
        assert!(bytes < 2.7, "{bytes} bytes a key");
    }
}
