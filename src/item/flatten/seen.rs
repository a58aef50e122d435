//! The keys of one item, to notice one that stands twice in its object.
//!
//! Owns the question "has this object this key already?" for all objects of the item being read. Called by
//! `walk` for each key.
//!
//! **Invariant**: [`Seen::insert`] is constant time on average whatever the keys: few are compared one by
//! one, if a bit of their hash was met before; many are found by a hash with a random key, which a sender cannot
//! aim at.

use std::hash::{BuildHasher, RandomState};

/// Up to this many keys of an item are compared one by one, which costs less than a keyed hash for each. An order of
/// 2 KB has a hundred.
const LINEAR_MAX: usize = 128;
/// Bits of a [`Few`], sixteen for each hash: nearly all that are new are known to be new by theirs.
const BITS: usize = 16 * LINEAR_MAX;
/// Room for so many to begin with.
const NAMES: usize = 32;

/// A key of an object: where its canonical text is, see [`Texts`].
#[derive(Clone, Copy)]
pub(super) struct Name {
    pub(super) object: u32,
    pub(super) start: u32,
    pub(super) len: u32,
}

/// Where canonical names are: in the body, or if they were written with escapes, in a buffer whose positions
/// continue those of the body.
#[derive(Clone, Copy)]
pub(super) struct Texts<'t> {
    pub(super) body: &'t str,
    pub(super) rewritten: &'t str,
}

impl<'t> Texts<'t> {
    #[inline]
    pub(super) fn get(self, name: Name) -> &'t str {
        let start = name.start as usize;
        let (text, start) = match start.checked_sub(self.body.len()) {
            Some(start) => (self.rewritten, start),
            None => (self.body, start),
        };
        &text[start..start + name.len as usize]
    }
}

/// Up to [`LINEAR_MAX`] hashes.
struct Few {
    /// A bit for each of them.
    bits: [u64; BITS / 64],
    hashes: Vec<u64>,
}

impl Few {
    fn new() -> Self {
        Self {
            bits: [0; BITS / 64],
            hashes: Vec::with_capacity(NAMES),
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.bits.fill(0);
        self.hashes.clear();
    }

    /// Adds a hash. Returns true if it was there already.
    #[inline]
    fn insert(&mut self, hash: u64) -> bool {
        let bit = (hash >> 32) as usize % BITS;
        let (word, bit) = (&mut self.bits[bit / 64], 1 << (bit % 64));
        let was_met = *word & bit != 0 && self.hashes.contains(&hash);
        *word |= bit;
        self.hashes.push(hash);
        was_met
    }
}

/// The keys of one item. Its memory is reused for the next one.
pub(super) struct Seen {
    names: Vec<Name>,
    /// The fixed hash of the whole path of each name, while there are few.
    few: Few,
    /// Whether two paths of different places had the same hash.
    alike: bool,
    /// The keyed hash of each name, once there are many.
    hashes: Vec<u64>,
    /// Open addressing, a power of two long, at most half full of this item's names.
    slots: Vec<Slot>,
    /// Slots of other generations are empty: nothing has to be cleared between items.
    generation: u32,
    /// Made when an item has many keys for the first time.
    random: Option<RandomState>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    generation: u32,
    name: u32,
}

impl Seen {
    pub(super) fn new() -> Self {
        Self {
            names: Vec::with_capacity(NAMES),
            few: Few::new(),
            alike: false,
            hashes: Vec::new(),
            slots: Vec::new(),
            generation: 0,
            random: None,
        }
    }

    /// Whether it never had many keys at once.
    pub(super) fn is_small(&self) -> bool {
        self.slots.is_empty() && self.names.capacity() <= LINEAR_MAX
    }

    /// Forgets all keys: another item begins.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.names.clear();
        self.few.clear();
        self.alike = false;
        self.hashes.clear();
    }

    /// Adds a key, given with a hash of its whole path. Returns false if its object has it already.
    ///
    /// The path is hashed for few keys only: a path has all keys above it, so those of a deep body are long together.
    #[inline]
    pub(super) fn insert(
        &mut self,
        name: Name,
        hash: impl FnOnce() -> u64,
        texts: Texts<'_>,
    ) -> bool {
        if self.names.len() >= LINEAR_MAX {
            return self.insert_keyed(name, texts);
        }
        if self.few.insert(hash()) {
            if self.is_known(name, texts) {
                return false;
            }
            self.alike = true;
        }
        self.names.push(name);
        true
    }

    #[cold]
    fn is_known(&self, name: Name, texts: Texts<'_>) -> bool {
        self.names.iter().any(|other| same(*other, name, texts))
    }

    /// Whether two fields can have the same path: not, if all have hashes of their own.
    pub(super) fn may_have_equal_paths(&self, texts: Texts<'_>) -> bool {
        if self.names.len() <= LINEAR_MAX {
            return self.alike;
        }
        // Keys of one object differ, so it takes one with a dot in it.
        let mut keys = self.names.iter().map(|name| texts.get(*name));
        keys.any(|key| memchr::memchr(b'.', key.as_bytes()).is_some())
    }

    fn insert_keyed(&mut self, name: Name, texts: Texts<'_>) -> bool {
        if self.names.len() == LINEAR_MAX {
            for at in 0..LINEAR_MAX {
                let hash = self.keyed(self.names[at], texts);
                self.hashes.push(hash);
            }
            self.rebuild();
        } else if self.names.len() * 2 >= self.slots.len() {
            self.rebuild();
        }
        let hash = self.keyed(name, texts);
        let mut at = self.home(hash);
        while self.slots[at].generation == self.generation {
            let met = self.slots[at].name as usize;
            if self.hashes[met] == hash && same(self.names[met], name, texts) {
                return false;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = self.slot(self.names.len());
        self.names.push(name);
        self.hashes.push(hash);
        true
    }

    /// Fills the slots with all names, after making room for as many again.
    fn rebuild(&mut self) {
        let wanted = (self.names.len() * 4).next_power_of_two();
        if self.slots.len() < wanted {
            self.slots.clear();
            self.slots.resize(wanted, Slot::default());
        }
        // Cannot wrap around: a request has fewer items than 2^32, and few rebuilds each.
        self.generation += 1;
        for name in 0..self.names.len() {
            let mut at = self.home(self.hashes[name]);
            while self.slots[at].generation == self.generation {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = self.slot(name);
        }
    }

    /// Where to start looking for a hash.
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// A slot for the name at this index; there are fewer names than bytes in a body.
    fn slot(&self, name: usize) -> Slot {
        Slot {
            generation: self.generation,
            name: name as u32,
        }
    }

    fn keyed(&mut self, name: Name, texts: Texts<'_>) -> u64 {
        self.random
            .get_or_insert_with(RandomState::new)
            .hash_one((name.object, texts.get(name)))
    }
}

fn same(a: Name, b: Name, texts: Texts<'_>) -> bool {
    a.object == b.object && texts.get(a) == texts.get(b)
}
