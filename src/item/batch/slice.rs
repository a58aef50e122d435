//! Slices: some consecutive items of one entry, which batches are made of.
//!
//! **Invariant**: the items of a slice are those of its entry, in order, each with its position in the request.

use std::sync::Arc;

use super::Entry;
use crate::{Action, ItemRef};
use base::order::ItemPosition;

/// Some consecutive items of one entry.
#[derive(Debug, Clone)]
pub struct Slice {
    /// The request that they came with.
    pub entry: Arc<Entry>,
    /// The first of them, counted in the entry.
    pub start: u32,
    /// One past the last.
    pub end: u32,
    /// Position, in the request, of the entry's first item: not 0 in an entry that was derived from a
    /// part of another.
    pub base: ItemPosition,
    /// They left what a sink receives: they are handed on as removals, whatever was sent.
    pub leaves: bool,
}

impl Slice {
    /// All items of a request.
    pub fn whole(entry: Arc<Entry>) -> Self {
        // The encoding counts items in 32 bits.
        let end = u32::try_from(entry.items.len()).unwrap_or(u32::MAX);
        Self {
            entry,
            start: 0,
            end,
            base: ItemPosition::default(),
            leaves: false,
        }
    }

    /// The same items as removals.
    #[must_use]
    pub fn leaving(self) -> Self {
        Self {
            leaves: true,
            ..self
        }
    }

    /// Adds the item at this place of the entry of `from` to slices: to the last one, where it continues that.
    pub fn add(slices: &mut Vec<Self>, from: &Self, at: u32) {
        match slices.last_mut() {
            Some(last) if last.end == at && last.is_of(from) => last.end += 1,
            _ => slices.push(Self {
                start: at,
                end: at + 1,
                ..from.clone()
            }),
        }
    }

    /// Whether both have items of one entry, handed out alike.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.leaves == other.leaves && Arc::ptr_eq(&self.entry, &other.entry)
    }

    /// Number of items.
    pub fn len(&self) -> u32 {
        self.end - self.start
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What is asked of all items; none if it is not the same of all.
    pub(super) fn action(&self) -> Option<Action> {
        if self.leaves {
            return Some(Action::Remove);
        }
        let of_entry = self.entry.items.action();
        if of_entry.is_some() {
            return of_entry;
        }
        let mut items = self.items().map(|(_, item)| item.action);
        let first = items.next().unwrap_or_default();
        items.all(|action| action == first).then_some(first)
    }

    /// The items, in order, each with its position in the request.
    pub fn items(&self) -> impl Iterator<Item = (ItemPosition, ItemRef<'_>)> {
        let base = self.base;
        (self.start..self.end)
            .zip(self.items_from(self.start))
            .map(move |(index, item)| (base + index, item))
    }

    /// The items of the entry from this one on, as they are handed out.
    pub(super) fn items_from(&self, index: u32) -> impl Iterator<Item = ItemRef<'_>> {
        let leaves = self.leaves;
        let items = self.entry.items.iter_from(index);
        items.map(move |item| match leaves {
            true => item.removed(),
            false => item,
        })
    }
}
