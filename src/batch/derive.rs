//! Making a batch of another: some of the items, some of the fields, other names, another stream.
//!
//! **Invariant**: a derived item keeps its key and its place in the order of acceptance, so what it does to
//! the pool is ordered like what it was made of. The same steps on the same items give the same id; a selection is
//! known by its items alone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::read::quoted;
use super::{Batch, Entry, Slice, short};
use crate::item::{Items, ItemsWriter, members};

/// Longest name of a stream, in characters.
const STREAM_NAME_CHARS_MAX: usize = 128;

/// Bytes of the items of one derived batch.
const DERIVED_BYTES_MAX: usize = 64 << 20;

/// Why a batch cannot be derived.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DeriveError {
    /// There is no such item.
    #[error("there is no item {index}; the batch has {len}")]
    Index {
        /// What was asked for.
        index: u32,
        /// Number of items.
        len: u32,
    },
    /// Two fields of an item would have the same name.
    #[error("an item would have the field {0} twice")]
    Twice(String),
    /// The derived items are too many bytes.
    #[error("the derived items are over {DERIVED_BYTES_MAX} bytes")]
    TooLarge,
    /// No stream can have this name.
    #[error(
        "the name of a stream has 1 to {STREAM_NAME_CHARS_MAX} characters and no control characters"
    )]
    StreamName,
}

impl Batch {
    /// These items, in this order.
    ///
    /// # Errors
    /// [`DeriveError::Index`].
    pub fn select(&self, indexes: &[u32]) -> Result<Self, DeriveError> {
        let mut slices: Vec<Slice> = Vec::new();
        let ends = self.ends();
        for index in indexes {
            let (slice, at) = self.locate(&ends, *index).ok_or(DeriveError::Index {
                index: *index,
                len: self.items,
            })?;
            match slices.last_mut() {
                Some(last) if last.end == at && Arc::ptr_eq(&last.entry, &slice.entry) => {
                    last.end += 1;
                }
                _ => slices.push(Slice {
                    start: at,
                    end: at + 1,
                    ..slice.clone()
                }),
            }
        }
        Ok(Self {
            suffix: self.suffix.clone(),
            own_bytes: slices.len() * size_of::<Slice>(),
            ..Self::new(slices, self.attempt)
        })
    }

    /// All items with these fields only, in the order of the names.
    ///
    /// # Errors
    /// [`DeriveError::TooLarge`].
    pub fn project(&self, names: &[String]) -> Result<Self, DeriveError> {
        let wanted: Vec<String> = names.iter().map(|name| quoted(name)).collect();
        let slices = self.rewritten(|item, out| {
            let fields: Vec<_> = members(item).collect();
            for name in &wanted {
                let found = fields.iter().find(|(own, _)| own == name);
                if let Some((name, value)) = found {
                    push_field(out, name, value);
                }
            }
        })?;
        let bytes = own_bytes(&slices);
        Ok(self.derived(slices, bytes, "project", texts(&wanted)))
    }

    /// All items without these fields.
    ///
    /// # Errors
    /// [`DeriveError::TooLarge`].
    pub fn without(&self, names: &[String]) -> Result<Self, DeriveError> {
        let dropped: HashSet<String> = names.iter().map(|name| quoted(name)).collect();
        let slices = self.rewritten(|item, out| {
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
    /// [`DeriveError::Twice`], [`DeriveError::TooLarge`].
    pub fn rename(&self, names: &[(String, String)]) -> Result<Self, DeriveError> {
        let new_names: HashMap<String, String> = names
            .iter()
            .map(|(old, new)| (quoted(old), quoted(new)))
            .collect();
        let mut twice = None;
        let slices = self.rewritten(|item, out| {
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

    /// All items as items of another stream.
    ///
    /// # Errors
    /// [`DeriveError::StreamName`].
    pub fn in_stream(&self, stream: &str) -> Result<Self, DeriveError> {
        let chars = stream.chars().count();
        if !(1..=STREAM_NAME_CHARS_MAX).contains(&chars) || stream.chars().any(char::is_control) {
            return Err(DeriveError::StreamName);
        }
        let name: Arc<str> = stream.into();
        let slices = self.slices.iter().map(|slice| Slice {
            entry: Arc::new(Entry {
                stream: Arc::clone(&name),
                ..Entry::clone(&slice.entry)
            }),
            ..slice.clone()
        });
        Ok(self.derived(slices.collect(), 0, "stream", stream.bytes()))
    }

    /// Bytes that this batch takes beside those of the batch that it was made of.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// One past the index of the last item of each slice.
    fn ends(&self) -> Vec<u32> {
        let mut end = 0;
        let ends = self.slices.iter().map(|slice| {
            end += slice.len();
            end
        });
        ends.collect()
    }

    /// The slice of an item, and its place in the slice's entry.
    fn locate(&self, ends: &[u32], index: u32) -> Option<(&Slice, u32)> {
        let at = ends.partition_point(|end| *end <= index);
        let slice = self.slices.get(at)?;
        Some((slice, slice.end - (ends[at] - index)))
    }

    /// Slices of new entries: `write` gets the fields of an item and appends those of the new one.
    fn rewritten(
        &self,
        mut write: impl FnMut(&str, &mut String),
    ) -> Result<Vec<Slice>, DeriveError> {
        let mut fields = String::new();
        let mut slices = Vec::with_capacity(self.slices.len());
        let mut room = DERIVED_BYTES_MAX;
        for slice in self.slices.iter() {
            let mut writer = ItemsWriter::new(room, slice.entry.items.byte_len());
            for (_, item) in slice.items() {
                fields.clear();
                fields.push('{');
                write(item.fields, &mut fields);
                fields.push('}');
                writer
                    .push_with(item.key, &fields, item.standing)
                    .map_err(|_| DeriveError::TooLarge)?;
            }
            let items = writer.into_items();
            room = room.saturating_sub(items.byte_len());
            slices.push(self.replaced(slice, items));
        }
        Ok(slices)
    }

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
            own_bytes: item_bytes + slices.len() * size_of::<Slice>(),
            ..Self::new(slices, self.attempt)
        }
    }
}

/// Of rewritten slices.
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

fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> impl Iterator<Item = u8> {
    texts
        .into_iter()
        .flat_map(|text| text.bytes().chain(std::iter::once(0)))
}

#[cfg(test)]
mod tests {
    use super::super::read::{Form, Span};
    use super::super::tests::batch;
    use super::*;

    fn sample() -> Batch {
        batch(&[
            &[
                r#"{"id":"a","n":1}"#,
                r#"{"id":"b","n":2}"#,
                r#"{"id":"c"}"#,
            ],
            &[r#"{"id":"d","n":4,"x.y":"z"}"#],
        ])
    }

    fn fields(batch: &Batch) -> String {
        batch.json(Span::ALL, Form::FieldArray)
    }

    fn positions(batch: &Batch) -> Vec<(u64, u32)> {
        let slices = batch.slices().iter();
        slices
            .flat_map(|slice| slice.items().map(|(at, _)| (slice.entry.seq, at)))
            .collect()
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn selected_items_keep_keys_and_places() {
        let batch = sample();
        let some = batch.select(&[3, 1, 2]).expect("they exist");
        assert_eq!(some.keys(Span::ALL), ["d", "b", "c"]);
        assert_eq!(positions(&some), [(2, 0), (1, 1), (1, 2)]);
        assert_eq!(some.slices().len(), 2);
        let error = batch.select(&[0, 4]).expect_err("there are four");
        assert_eq!(error, DeriveError::Index { index: 4, len: 4 });
        assert!(batch.select(&[]).expect("nothing").is_empty());
    }

    #[test]
    fn fields_can_be_kept_dropped_and_renamed() {
        let batch = sample();
        assert_eq!(
            fields(&batch.project(&strings(&["n", "id"])).expect("it fits")),
            r#"[{"n":1,"id":"a"},{"n":2,"id":"b"},{"id":"c"},{"n":4,"id":"d"}]"#
        );
        assert_eq!(
            fields(&batch.without(&strings(&["id", "x.y"])).expect("it fits")),
            r#"[{"n":1},{"n":2},{},{"n":4}]"#
        );
        let names = [("n".to_owned(), "count".to_owned())];
        assert_eq!(
            fields(&batch.rename(&names).expect("no clash")),
            r#"[{"id":"a","count":1},{"id":"b","count":2},{"id":"c"},{"id":"d","count":4,"x.y":"z"}]"#
        );
        let clash = [("n".to_owned(), "id".to_owned())];
        assert!(batch.rename(&clash).is_err());
    }

    #[test]
    fn steps_can_follow_each_other_and_keep_places() {
        let batch = sample();
        let step = batch.select(&[2, 3]).expect("they exist");
        let step = step.project(&strings(&["id"])).expect("it fits");
        let step = step.in_stream("other").expect("a name");
        let step = step.select(&[1, 0]).expect("they exist");
        assert_eq!(positions(&step), [(2, 0), (1, 2)]);
        assert_eq!(step.streams(Span::ALL), ["other", "other"]);
        assert_eq!(fields(&step), r#"[{"id":"d"},{"id":"c"}]"#);
        assert!(batch.in_stream("").is_err());
        assert!(batch.in_stream("a\n").is_err());
    }

    #[test]
    fn ids_tell_derived_batches_apart_and_stay_the_same() {
        let ids = || {
            let batch = sample();
            let select = |indexes: &[u32]| batch.select(indexes).expect("they exist");
            [
                batch.id(),
                select(&[0, 3]).id(),
                select(&[0, 2, 3]).id(),
                batch.project(&strings(&["ab", "c"])).expect("it fits").id(),
                batch.project(&strings(&["a", "bc"])).expect("it fits").id(),
                batch.in_stream("other").expect("a name").id(),
                select(&[0, 3]).in_stream("other").expect("a name").id(),
            ]
        };
        assert_eq!(ids(), ids());
        assert_eq!(ids().into_iter().collect::<HashSet<_>>().len(), 7);
        let batch = sample();
        let all = batch.select(&[0, 1, 2, 3]).expect("they exist");
        assert_eq!(all.id(), batch.id());
        let derived = batch.in_stream("other").expect("a name");
        assert_eq!(derived.identity(Span::ALL), batch.identity(Span::ALL));
    }

    #[test]
    fn only_what_is_new_counts() {
        let batch = sample();
        let selected = batch.select(&[0]).expect("it exists");
        assert_eq!(selected.own_bytes(), size_of::<Slice>());
        let projected = batch.project(&strings(&["id"])).expect("it fits");
        assert!(projected.own_bytes() > 2 * size_of::<Slice>());
        let long = [("id".to_owned(), "x".repeat(20 << 20))];
        assert_eq!(batch.rename(&long).err(), Some(DeriveError::TooLarge));
    }
}
