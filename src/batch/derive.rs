//! Making a batch of another: some of the items, some of the fields, other names, another stream.
//!
//! **Invariant**: a derived item keeps its key and its place in the order of acceptance, so what it does to
//! the pool is ordered like what it was made of. The same steps on the same items give the same id; a selection is
//! known by its items alone. A derived batch takes no more than the room that was given for it, and no more than that
//! is ever done to make it.

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
/// Items of a selection, of a batch that has fewer.
const SELECTED_MAX: usize = 100_000;
/// Names that a step may be about: more than an item has fields.
const NAMES_MAX: usize = 100_000;
/// What an entry takes, beside its items and its place in the batch.
const ENTRY_BYTES: usize = size_of::<Entry>() + 2 * size_of::<usize>();

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
    /// More items than a selection may have.
    #[error(
        "a selection of {count} items; the batch has {len}, a selection may have {max}: select in parts"
    )]
    TooMany {
        /// What was asked for.
        count: usize,
        /// Number of items.
        len: u32,
        /// How many there may be.
        max: usize,
    },
    /// More names than an item could have fields.
    #[error("{0} names of fields; there may be {NAMES_MAX}")]
    TooManyNames(usize),
    /// Two fields of an item would have the same name.
    #[error("an item would have the field {0} twice")]
    Twice(String),
    /// The derived items are more bytes than there is room for.
    #[error("the derived items are over {0} bytes")]
    TooLarge(usize),
    /// No stream can have this name.
    #[error(
        "the name of a stream has 1 to {STREAM_NAME_CHARS_MAX} characters and no control characters"
    )]
    StreamName,
}

impl Batch {
    /// These items, in this order. What is selected twice counts as bytes of its own: whoever reads the selection reads
    /// it twice.
    ///
    /// # Errors
    /// [`DeriveError::TooMany`], [`DeriveError::Index`], [`DeriveError::TooLarge`].
    pub fn select(&self, indexes: &[u32], room: usize) -> Result<Self, DeriveError> {
        let max = SELECTED_MAX.max(self.items as usize);
        if indexes.len() > max {
            return Err(DeriveError::TooMany {
                count: indexes.len(),
                len: self.items,
                max,
            });
        }
        let ends = self.ends();
        let (runs, is_repeated) = self.runs_of(indexes, &ends)?;
        let mut own_bytes = runs * size_of::<Slice>();
        if own_bytes > room {
            return Err(DeriveError::TooLarge(room));
        }
        let mut slices: Vec<Slice> = Vec::with_capacity(runs);
        let mut hint = 0;
        for index in indexes {
            let (slice, at) = self.locate(&ends, *index, &mut hint)?;
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
        if is_repeated {
            for (_, item) in slices.iter().flat_map(Slice::items) {
                own_bytes += item.key.len() + item.fields.len();
                if own_bytes > room {
                    return Err(DeriveError::TooLarge(room));
                }
            }
        }
        Ok(Self {
            suffix: self.suffix.clone(),
            own_bytes,
            moved: self.moved,
            ..Self::new(slices, self.attempt)
        })
    }

    /// How many slices a selection is, and whether it has an item more than once.
    fn runs_of(&self, indexes: &[u32], ends: &[u32]) -> Result<(usize, bool), DeriveError> {
        let mut seen = vec![0_u64; (self.items as usize).div_ceil(64)];
        let (mut runs, mut is_repeated, mut hint) = (0, false, 0);
        let mut last: Option<(&Slice, u32)> = None;
        for index in indexes {
            let (slice, at) = self.locate(ends, *index, &mut hint)?;
            let goes_on = last
                .is_some_and(|(before, end)| end == at && Arc::ptr_eq(&before.entry, &slice.entry));
            runs += usize::from(!goes_on);
            last = Some((slice, at + 1));
            let (word, bit) = (*index as usize / 64, 1 << (index % 64));
            is_repeated |= seen[word] & bit != 0;
            seen[word] |= bit;
        }
        Ok((runs, is_repeated))
    }

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

    /// All items as items of another stream.
    ///
    /// # Errors
    /// [`DeriveError::StreamName`], [`DeriveError::TooLarge`].
    pub fn in_stream(&self, stream: &str, room: usize) -> Result<Self, DeriveError> {
        let chars = stream.chars().count();
        if !(1..=STREAM_NAME_CHARS_MAX).contains(&chars) || stream.chars().any(char::is_control) {
            return Err(DeriveError::StreamName);
        }
        if self.entries_bytes() > room {
            return Err(DeriveError::TooLarge(room));
        }
        let name: Arc<str> = stream.into();
        let slices = self.slices.iter().map(|slice| Slice {
            entry: Arc::new(Entry {
                stream: Arc::clone(&name),
                ..Entry::clone(&slice.entry)
            }),
            ..slice.clone()
        });
        let moved = self.derived(slices.collect(), 0, "stream", stream.bytes());
        Ok(Self {
            moved: true,
            ..moved
        })
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

    /// The slice of an item, and its place in the slice's entry. `hint` is where the one before was found: neighbours
    /// are looked up together.
    fn locate(
        &self,
        ends: &[u32],
        index: u32,
        hint: &mut usize,
    ) -> Result<(&Slice, u32), DeriveError> {
        let is_there = |at: usize| {
            let begin = at.checked_sub(1).map_or(0, |before| ends[before]);
            (begin..ends[at]).contains(&index)
        };
        if index >= self.items {
            return Err(DeriveError::Index {
                index,
                len: self.items,
            });
        }
        if !is_there(*hint) {
            *hint = ends.partition_point(|end| *end <= index);
        }
        let slice = &self.slices[*hint];
        Ok((slice, slice.end - (ends[*hint] - index)))
    }

    /// What the entries of a batch made of this one take, beside their items.
    fn entries_bytes(&self) -> usize {
        self.slices.len() * (size_of::<Slice>() + ENTRY_BYTES)
    }

    /// Slices of new entries: `write` gets the fields of an item and appends those of the new one.
    fn rewritten(
        &self,
        room: usize,
        mut write: impl FnMut(&str, &mut String),
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
                fields.push('{');
                write(item.fields, &mut fields);
                fields.push('}');
                writer
                    .push_with(item.key, &fields, item.standing)
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
            own_bytes: item_bytes + self.entries_bytes(),
            moved: self.moved,
            ..Self::new(slices, self.attempt)
        }
    }
}

fn few_enough(names: usize) -> Result<(), DeriveError> {
    match names <= NAMES_MAX {
        true => Ok(()),
        false => Err(DeriveError::TooManyNames(names)),
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

    const ROOM: usize = 1 << 30;

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
        let some = batch.select(&[3, 1, 2], ROOM).expect("they exist");
        assert_eq!(some.keys(Span::ALL), ["d", "b", "c"]);
        assert_eq!(positions(&some), [(2, 0), (1, 1), (1, 2)]);
        assert_eq!(some.slices().len(), 2);
        let error = batch.select(&[0, 4], ROOM).expect_err("there are four");
        assert_eq!(error, DeriveError::Index { index: 4, len: 4 });
        assert!(batch.select(&[], ROOM).expect("nothing").is_empty());
    }

    #[test]
    fn fields_can_be_kept_dropped_and_renamed() {
        let batch = sample();
        assert_eq!(
            fields(
                &batch
                    .project(&strings(&["n", "id"]), ROOM)
                    .expect("it fits")
            ),
            r#"[{"n":1,"id":"a"},{"n":2,"id":"b"},{"id":"c"},{"n":4,"id":"d"}]"#
        );
        assert_eq!(
            fields(
                &batch
                    .without(&strings(&["id", "x.y"]), ROOM)
                    .expect("it fits")
            ),
            r#"[{"n":1},{"n":2},{},{"n":4}]"#
        );
        let names = [("n".to_owned(), "count".to_owned())];
        assert_eq!(
            fields(&batch.rename(&names, ROOM).expect("no clash")),
            r#"[{"id":"a","count":1},{"id":"b","count":2},{"id":"c"},{"id":"d","count":4,"x.y":"z"}]"#
        );
        let clash = [("n".to_owned(), "id".to_owned())];
        assert!(batch.rename(&clash, ROOM).is_err());
    }

    #[test]
    fn steps_can_follow_each_other_and_keep_places() {
        let batch = sample();
        let step = batch.select(&[2, 3], ROOM).expect("they exist");
        let step = step.project(&strings(&["id"]), ROOM).expect("it fits");
        let step = step.in_stream("other", ROOM).expect("a name");
        let step = step.select(&[1, 0], ROOM).expect("they exist");
        assert_eq!(positions(&step), [(2, 0), (1, 2)]);
        assert_eq!(step.streams(Span::ALL), ["other", "other"]);
        assert_eq!(fields(&step), r#"[{"id":"d"},{"id":"c"}]"#);
        assert!(batch.in_stream("", ROOM).is_err());
        assert!(batch.in_stream("a\n", ROOM).is_err());
    }

    #[test]
    fn ids_tell_derived_batches_apart_and_stay_the_same() {
        let ids = || {
            let batch = sample();
            let select = |indexes: &[u32]| batch.select(indexes, ROOM).expect("they exist");
            [
                batch.id(),
                select(&[0, 3]).id(),
                select(&[0, 2, 3]).id(),
                batch
                    .project(&strings(&["ab", "c"]), ROOM)
                    .expect("it fits")
                    .id(),
                batch
                    .project(&strings(&["a", "bc"]), ROOM)
                    .expect("it fits")
                    .id(),
                batch.in_stream("other", ROOM).expect("a name").id(),
                select(&[0, 3])
                    .in_stream("other", ROOM)
                    .expect("a name")
                    .id(),
            ]
        };
        assert_eq!(ids(), ids());
        assert_eq!(ids().into_iter().collect::<HashSet<_>>().len(), 7);
        let batch = sample();
        let all = batch.select(&[0, 1, 2, 3], ROOM).expect("they exist");
        assert_eq!(all.id(), batch.id());
        let derived = batch.in_stream("other", ROOM).expect("a name");
        assert_eq!(derived.identity(Span::ALL), batch.identity(Span::ALL));
    }

    #[test]
    fn only_what_is_new_counts_and_must_have_room() {
        let batch = sample();
        let selected = batch.select(&[0], ROOM).expect("it exists");
        assert_eq!(selected.own_bytes(), size_of::<Slice>());
        let projected = batch.project(&strings(&["id"]), ROOM).expect("it fits");
        let entries = 2 * (size_of::<Slice>() + ENTRY_BYTES);
        assert!(projected.own_bytes() > entries);
        let long = [("id".to_owned(), "x".repeat(20 << 20))];
        let too_large = Some(DeriveError::TooLarge(DERIVED_BYTES_MAX));
        assert_eq!(batch.rename(&long, ROOM).err(), too_large);

        let room = projected.own_bytes();
        assert!(batch.project(&strings(&["id"]), room).is_ok());
        for room in [0, entries, room - 1] {
            let too_large = Some(DeriveError::TooLarge(room));
            assert_eq!(batch.project(&strings(&["id"]), room).err(), too_large);
        }
        assert!(batch.in_stream("other", entries).is_ok());
        let too_large = Some(DeriveError::TooLarge(entries - 1));
        assert_eq!(batch.in_stream("other", entries - 1).err(), too_large);
        let empty = super::super::tests::batch(&[&[]]);
        let room = empty.project(&[], ROOM).expect("it fits").own_bytes();
        assert!(empty.project(&[], room).is_ok());
        let too_large = Some(DeriveError::TooLarge(room - 1));
        assert_eq!(empty.project(&[], room - 1).err(), too_large);
        let room = size_of::<Slice>();
        assert!(batch.select(&[0, 1, 2], room).is_ok(), "they lie together");
        let too_large = Some(DeriveError::TooLarge(room));
        assert_eq!(batch.select(&[0, 2], room).err(), too_large);
    }

    #[test]
    fn names_are_taken_in_their_order_and_once_however_many_there_are() {
        let batch = sample();
        let names = strings(&["n", "id", "n"]);
        let projected = batch.project(&names, ROOM).expect("it fits");
        let once = batch.project(&names[..2], ROOM).expect("it fits");
        assert_eq!(fields(&projected), fields(&once));
        let mut names: Vec<String> = (2..NAMES_MAX).map(|name| name.to_string()).collect();
        names.extend(strings(&["n", "id"]));
        let projected = batch.project(&names, ROOM).expect("it fits");
        assert_eq!(fields(&projected), fields(&once));
        names.push("x".to_owned());
        let too_many = Some(DeriveError::TooManyNames(NAMES_MAX + 1));
        assert_eq!(batch.project(&names, ROOM).err(), too_many);
        assert_eq!(batch.without(&names, ROOM).err(), too_many);
        let pairs: Vec<_> = names
            .iter()
            .map(|name| (name.clone(), String::new()))
            .collect();
        assert_eq!(batch.rename(&pairs, ROOM).err(), too_many);
    }

    #[test]
    fn a_selection_is_bounded_and_pays_for_what_it_repeats() {
        let batch = sample();
        let all_over = vec![0; SELECTED_MAX];
        let once = batch.select(&[3], ROOM).expect("it exists").own_bytes();
        let twice = batch.select(&[3, 3], ROOM).expect("it exists");
        let bytes = r#"d{"id":"d","n":4,"x.y":"z"}"#.len();
        assert_eq!(twice.own_bytes(), 2 * (once + bytes));
        assert_eq!(twice.keys(Span::ALL), ["d", "d"]);
        let turned = batch.select(&[3, 2, 1, 0], ROOM).expect("they exist");
        assert_eq!(turned.own_bytes(), 4 * once, "none is there twice");
        assert!(batch.select(&all_over, ROOM).is_ok());
        let room = all_over.len() * size_of::<Slice>() + 1_000;
        let too_large = Some(DeriveError::TooLarge(room));
        assert_eq!(batch.select(&all_over, room).err(), too_large);
        let too_many = DeriveError::TooMany {
            count: SELECTED_MAX + 1,
            len: 4,
            max: SELECTED_MAX,
        };
        let one_more = vec![9; SELECTED_MAX + 1];
        assert_eq!(batch.select(&one_more, ROOM).err(), Some(too_many));

        let items: Vec<String> = (0..=SELECTED_MAX)
            .map(|n| format!("{{\"id\":{n}}}"))
            .collect();
        let items: Vec<&str> = items.iter().map(String::as_str).collect();
        let large = super::super::tests::batch(&[&items]);
        let all: Vec<u32> = (0..large.len()).collect();
        let selected = large.select(&all, size_of::<Slice>());
        assert_eq!(selected.map(|selected| selected.len()), Ok(large.len()));
    }
}
