//! Which keys a run cannot hold: a Bloom filter in blocks, 64 bytes for 24 keys.
//!
//! Only `journal/file/claims.rs` uses it. All bits of a key lie in one block, which is one line of the processor's cache. The
//! filters of all runs stand in memory block by block: what is asked of all of them lies side by side, because memory
//! that is read in order costs a tenth of the same in many places. A key that was never put in passes less than once in
//! four thousand times. With 20 keys a block it would be once in ten thousand, and a day's filters a fifth larger.
//!
//! **Invariant**: what was put in passes, always; a filter that was stored and came back otherwise is noticed.

/// Some 21 bits a key.
const BLOCK_KEYS: usize = 24;
const BLOCK_BYTES: usize = size_of::<Block>();

/// Keys are digests: their bytes are as good as any hash of them.
pub(super) type Key = [u8; 16];

/// A key has one bit in each word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Block([u64; 8]);

impl Block {
    /// The bits of a key: by its second half.
    fn of(key: &Key) -> Self {
        let half = u128::from_be_bytes(*key) as u64;
        Self(std::array::from_fn(|word| 1 << ((half >> (6 * word)) & 63)))
    }

    fn has(&self, bits: &Self) -> bool {
        // Without a branch for each word, so that several blocks are looked at together.
        let words = self.0.iter().zip(bits.0);
        words.fold(0, |missing, (word, bit)| missing | (!word & bit)) == 0
    }
}

/// How many blocks a filter has for about so many keys.
pub(super) fn blocks_for(keys: usize) -> usize {
    keys.div_ceil(BLOCK_KEYS).max(1)
}

/// Which of so many blocks is a key's: by its first half. Another half than that of the bits, so that keys of one block
/// do not share bits.
fn place(key: &Key, blocks: usize) -> usize {
    let half = u128::from_be_bytes(*key) >> 64;
    ((half * blocks as u128) >> 64) as usize
}

/// The keys of one run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Filter {
    blocks: Box<[Block]>,
}

impl Filter {
    /// The filter of these keys.
    pub(super) fn of<'a>(blocks: usize, keys: impl Iterator<Item = &'a Key>) -> Self {
        let mut filter = Self {
            blocks: vec![Block([0; 8]); blocks].into(),
        };
        for key in keys {
            let block = &mut filter.blocks[place(key, blocks)];
            for (word, bit) in block.0.iter_mut().zip(Block::of(key).0) {
                *word |= bit;
            }
        }
        filter
    }

    /// As it is stored: a checksum, then the words, little endian. The checksum is needed, because a lost bit would let
    /// a repeat pass as new.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let words = self.blocks.iter().flat_map(|block| block.0);
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        [&crc32fast::hash(&words).to_le_bytes()[..], &words].concat()
    }

    /// The same back; `None` if these are not the bytes that were stored, or of another number of blocks.
    pub(super) fn from_bytes(blocks: usize, bytes: &[u8]) -> Option<Self> {
        let (checksum, words) = bytes.split_first_chunk()?;
        let whole = words.len() == blocks * BLOCK_BYTES;
        if !whole || crc32fast::hash(words) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (words, _) = words.as_chunks();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let mut block = || Block(std::array::from_fn(|_| words.next().unwrap_or_default()));
        Some(Self {
            blocks: (0..blocks).map(|_| block()).collect(),
        })
    }
}

/// The filters of all runs.
#[derive(Debug)]
pub(super) struct Filters {
    /// For each block that of every filter. A key is looked up in the same block of each filter, so one row is read in
    /// order.
    rows: Vec<Vec<Block>>,
}

impl Filters {
    /// For filters of so many blocks.
    pub(super) fn new(blocks: usize) -> Self {
        Self {
            rows: vec![Vec::new(); blocks],
        }
    }

    /// How many blocks each of them has.
    pub(super) fn blocks(&self) -> usize {
        self.rows.len()
    }

    /// Adds one at the end.
    pub(super) fn push(&mut self, filter: &Filter) {
        for (row, block) in self.rows.iter_mut().zip(&filter.blocks) {
            if row.len() == row.capacity() {
                row.reserve_exact(1 + row.len() / 8);
            }
            row.push(*block);
        }
    }

    /// Takes one out; the last takes its place.
    pub(super) fn swap_remove(&mut self, at: usize) -> Filter {
        let blocks = self.rows.iter_mut().map(|row| row.swap_remove(at));
        Filter {
            blocks: blocks.collect(),
        }
    }

    /// The places of those that the key passes: in all others it was never put.
    pub(super) fn passing(&self, key: &Key) -> impl Iterator<Item = usize> + use<'_> {
        let bits = Block::of(key);
        let row = self.rows[place(key, self.blocks())].iter().enumerate();
        row.filter(move |(_, block)| block.has(&bits))
            .map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests;
