//! Some of the fields of all items, or other names for them: the items are written anew.
//!
//! **Invariant**: no more is written than there is room for, and what it is made of stays as it is.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{DeriveError, NAMES_MAX};
use crate::batch::read::quoted;
use crate::batch::{Batch, Entry, Slice};
use crate::{Action, ItemRef, Items, ItemsWriter, members};

/// Bytes of the items of one derived batch.
pub(super) const DERIVED_BYTES_MAX: usize = 64 << 20;

impl Batch {
    /// All items with these fields only, in the order of the names.
    ///
    /// # Errors
    /// [`DeriveError::TooManyNames`], [`DeriveError::TooLarge`].
    pub fn project(&self, names: &[String], room: usize) -> Result<Self, DeriveError> {
        few_enough(names.len())?;
        let quoted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let mut wanted: Vec<(&str, usize)> = quoted.iter().map(String::as_str).zip(0..).collect();
        wanted.sort_unstable();
        wanted.dedup_by_key(|(name, _)| *name);
        let slices = self.rewritten(room, |item, out| {
            let place = |name: &str| {
                let at = wanted.binary_search_by_key(&name, |(name, _)| name);
                at.map(|at| wanted[at].1)
            };
            let fields = members(item);
            let found = fields.filter_map(|(name, value)| Some((place(name).ok()?, name, value)));
            let mut found: Vec<_> = found.collect();
            found.sort_unstable_by_key(|(place, ..)| *place);
            for (_, name, value) in found {
                push_field(out, name, value);
            }
        })?;
        let bytes = own_bytes(&slices);
        Ok(self.derived(slices, bytes, "project", texts(&quoted)))
    }

    /// All items without these fields.
    ///
    /// # Errors
    /// [`DeriveError::TooManyNames`], [`DeriveError::TooLarge`].
    pub fn without(&self, names: &[String], room: usize) -> Result<Self, DeriveError> {
        few_enough(names.len())?;
        let dropped: HashSet<String> = names.iter().map(|name| quoted(name)).collect();
        let slices = self.rewritten(room, |item, out| {
            for (name, value) in members(item).filter(|(name, _)| !dropped.contains(*name)) {
                push_field(out, name, value);
            }
        })?;
        let bytes = own_bytes(&slices);
        Ok(self.derived(slices, bytes, "without", texts(names)))
    }

    /// All items with other names for some of their fields: old name, new name.
    ///
    /// # Errors
    /// [`DeriveError::TooManyNames`], [`DeriveError::Twice`], [`DeriveError::TooLarge`].
    pub fn rename(&self, names: &[(String, String)], room: usize) -> Result<Self, DeriveError> {
        few_enough(names.len())?;
        let new_names: HashMap<String, String> = names
            .iter()
            .map(|(old, new)| (quoted(old), quoted(new)))
            .collect();
        let mut twice = None;
        let slices = self.rewritten(room, |item, out| {
            let mut taken = HashSet::new();
            for (name, value) in members(item) {
                let name = new_names.get(name).map_or(name, String::as_str);
                if !taken.insert(name.to_owned()) {
                    twice = Some(name.to_owned());
                }
                push_field(out, name, value);
            }
        })?;
        if let Some(name) = twice {
            return Err(DeriveError::Twice(name));
        }
        let step = names.iter().flat_map(|(old, new)| [old, new]);
        let bytes = own_bytes(&slices);
        Ok(self.derived(slices, bytes, "rename", texts(step)))
    }

    /// All items with other fields: `write` gets an update and appends its new fields, a whole object. A removal stays as
    /// it is. `about` tells what is written from all else that could be.
    ///
    /// # Errors
    /// [`DeriveError::TooLarge`].
    pub fn with_fields(
        &self,
        about: &str,
        room: usize,
        mut write: impl FnMut(&Slice, &ItemRef<'_>, &mut String),
    ) -> Result<Self, DeriveError> {
        let slices = self.rewritten_items(room, |slice, item, out| match item.action {
            Action::Upsert => write(slice, item, out),
            Action::Remove => out.push_str(item.fields),
        })?;
        let bytes = own_bytes(&slices);
        Ok(self.derived(slices, bytes, "fields", about.bytes()))
    }

    /// Slices of new entries: `write` gets the fields of an item and appends those of the new one.
    fn rewritten(
        &self,
        room: usize,
        mut write: impl FnMut(&str, &mut String),
    ) -> Result<Vec<Slice>, DeriveError> {
        self.rewritten_items(room, |_, item, out| {
            out.push('{');
            write(item.fields, out);
            out.push('}');
        })
    }

    /// The same with `write` that gets an item and appends a whole object.
    fn rewritten_items(
        &self,
        room: usize,
        mut write: impl FnMut(&Slice, &ItemRef<'_>, &mut String),
    ) -> Result<Vec<Slice>, DeriveError> {
        let too_large = DeriveError::TooLarge(room.min(DERIVED_BYTES_MAX));
        let mut room = room.saturating_sub(self.entries_bytes());
        if room == 0 {
            return Err(too_large);
        }
        room = room.min(DERIVED_BYTES_MAX);
        let mut fields = String::new();
        let mut slices = Vec::with_capacity(self.slices.len());
        for slice in self.slices.iter() {
            let expected = slice.entry.items.byte_len() / slice.entry.items.len().max(1);
            let mut writer = ItemsWriter::new(room, expected * slice.len() as usize);
            for (_, item) in slice.items() {
                fields.clear();
                write(slice, &item, &mut fields);
                writer
                    .push_item(&ItemRef {
                        fields: &fields,
                        ..item
                    })
                    .map_err(|_| too_large.clone())?;
            }
            let items = writer.into_items();
            // The head of the encoding, where there is no item.
            let left = room.checked_sub(items.byte_len());
            room = left.ok_or_else(|| too_large.clone())?;
            slices.push(self.replaced(slice, items));
        }
        Ok(slices)
    }

    /// The base keeps the positions of the items, because ids and the order of acceptance are made of them.
    fn replaced(&self, slice: &Slice, items: Items) -> Slice {
        let entry = Entry {
            items,
            ..Entry::clone(&slice.entry)
        };
        Slice {
            base: slice.base + slice.start,
            ..Slice::whole(Arc::new(entry))
        }
    }
}

fn few_enough(names: usize) -> Result<(), DeriveError> {
    match names <= NAMES_MAX {
        true => Ok(()),
        false => Err(DeriveError::TooManyNames(names)),
    }
}

fn own_bytes(slices: &[Slice]) -> usize {
    slices
        .iter()
        .map(|slice| slice.entry.items.byte_len())
        .sum()
}

fn push_field(out: &mut String, name: &str, value: &str) {
    if out.len() > 1 {
        out.push(',');
    }
    out.push_str(name);
    out.push(':');
    out.push_str(value);
}

/// A zero ends each text. Otherwise `ab`, `c` would be the same as `a`, `bc`.
fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> impl Iterator<Item = u8> {
    texts
        .into_iter()
        .flat_map(|text| text.bytes().chain(std::iter::once(0)))
}
