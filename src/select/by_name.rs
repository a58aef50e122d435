//! Values by the names of fields, asked for each field of each item.
//!
//! **Invariant**: a name has one value.

use std::collections::BTreeMap;

/// Values by name. Most fields of an item have none, and are told by the length of their name.
#[derive(Debug, Clone)]
pub(crate) struct ByName<K, V> {
    /// In the order of the names. The order makes a binary search possible.
    entries: Vec<(K, V)>,
    /// A bit for each length that a name has. Most other fields are excluded so without a comparison of texts.
    lengths: u64,
}

impl<K: AsRef<str>, V> ByName<K, V> {
    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&V> {
        if self.lengths & bit(name) == 0 {
            return None;
        }
        let found = self
            .entries
            .binary_search_by(|(known, _)| known.as_ref().cmp(name));
        found.ok().map(|at| &self.entries[at].1)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<K, V> Default for ByName<K, V> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            lengths: 0,
        }
    }
}

impl<K: AsRef<str>, V> From<BTreeMap<K, V>> for ByName<K, V> {
    fn from(entries: BTreeMap<K, V>) -> Self {
        let entries: Vec<_> = entries.into_iter().collect();
        let lengths = entries.iter().map(|(name, _)| bit(name.as_ref()));
        Self {
            lengths: lengths.fold(0, |all, bit| all | bit),
            entries,
        }
    }
}

/// The bit of a name's length; all long names have the last one. A shift by more bits than the number has would panic.
fn bit(name: &str) -> u64 {
    1 << name.len().min(63)
}
