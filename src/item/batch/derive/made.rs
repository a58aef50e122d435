//! Items that a sink makes.
//!
//! **Invariant**: they are flattened as those of requests, and belong to the last item of the batch that they were made of.

use std::sync::Arc;

use thiserror::Error;

use crate::batch::{Action, Batch, BatchOrigin, Entry, Slice};
use crate::flatten::{FlattenLimits, ITEM_KEY_BYTES_MAX, flatten};
use crate::{Full, ItemMeta, Items, ItemsWriter, field_name, members};

/// Bytes of the fields of one item.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// Why there is no batch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MadeError {
    /// A line is no item.
    #[error("line {line}: {reason}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The items are more bytes than there is room for.
    #[error("{0}")]
    Full(#[from] Full),
    /// The batch has no items that they could belong to.
    #[error("items are made of the items of a batch, and there is none")]
    Nothing,
}

struct Line {
    key: String,
    /// None: it is removed.
    fields: Option<String>,
}

impl Batch {
    /// The items of `lines`, an object a line, in a stream that has this name.
    ///
    /// # Errors
    /// See [`MadeError`].
    pub fn make(&self, stream: &str, lines: &str, room: usize) -> Result<Self, MadeError> {
        let last = self.slices.last().ok_or(MadeError::Nothing)?;
        let mut items = ItemsWriter::new(room, lines.len());
        for (text, line) in lines.lines().zip(1..) {
            if text.trim().is_empty() {
                continue;
            }
            let read = Line::read(text, room);
            let read = read.map_err(|reason| MadeError::Line { line, reason })?;
            match read.fields {
                Some(fields) => items.push(&read.key, &fields)?,
                None => items.push_with(&read.key, "{}", Action::Remove, ItemMeta::default())?,
            }
        }
        let entry = Entry {
            stream: stream.into(),
            items: items.into_items(),
            ..Entry::clone(&last.entry)
        };
        let own_bytes = entry.items.byte_len() + self.entries_bytes();
        Ok(Self {
            suffix: Some(format!("/{stream}").into()),
            own_bytes,
            ..Self::of(
                BatchOrigin::Made,
                vec![Slice::whole(Arc::new(entry))],
                self.attempt,
            )
        })
    }
}

impl Line {
    fn read(text: &str, room: usize) -> Result<Self, String> {
        let limits = FlattenLimits {
            flattened_bytes_max: room,
            item_bytes_max: ITEM_BYTES_MAX,
        };
        let flat = flatten(text.as_bytes(), None, limits);
        let flat: Items = flat.map_err(|error| error.to_string())?;
        let only = flat
            .iter()
            .next()
            .filter(|_| text.trim_start().starts_with('{'));
        let only = only.ok_or("it is no object")?;
        let (mut key, mut is_removed, mut fields) = (None, false, None);
        for (name, value) in members(only.fields) {
            match (name, value) {
                ("\"key\"", text) if text.starts_with('"') => key = Some(field_name(text)),
                ("\"removed\"", "true") => is_removed = true,
                ("\"fields\"", "{}") => fields = Some("{".to_owned()),
                _ => {
                    let own = name.strip_prefix("\"fields.");
                    let own = own.ok_or_else(|| {
                        format!("{name} is not expected; an item has a text as `key`, and `fields` or `removed`")
                    })?;
                    let so_far: &mut String = fields.get_or_insert_with(|| "{".to_owned());
                    if so_far.len() > 1 {
                        so_far.push(',');
                    }
                    *so_far += &format!("\"{own}:{value}");
                }
            }
        }
        let key = key.filter(|key| (1..=ITEM_KEY_BYTES_MAX).contains(&key.len()));
        let key =
            key.ok_or_else(|| format!("a key is a text of 1 to {ITEM_KEY_BYTES_MAX} bytes"))?;
        if fields.is_some() == is_removed {
            return Err("it has either `fields` or `removed`".to_owned());
        }
        Ok(Self {
            key: key.into_owned(),
            fields: fields.map(|fields| fields + "}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::tests::batch;

    #[test]
    fn items_are_made_of_lines_and_mistakes_name_theirs() {
        let of = batch(&[&[r#"{"id":"x"}"#]]);
        let lines = "{\"key\": \"a\", \"fields\": {\"n\": 1.50, \"o\": {\"p\": 2}}}\n\n{\"key\": \"b\", \"removed\": true}";
        let made = of.make("totals", lines, 10_000).expect("a batch");
        assert!(made.is_made() && made.select(&[1], 1_000).expect("a part").is_made());
        let items: Vec<_> = made.slices()[0].items().map(|(_, item)| item).collect();
        assert_eq!(items[0].fields, "{\"n\":1.50,\"o.p\":2}");
        assert_eq!((items[1].key, items[1].action), ("b", Action::Remove));
        let last = of.slices().last().expect("a slice");
        assert_eq!(made.slices()[0].entry.request_id, last.entry.request_id);
        for (lines, words) in [
            ("{\"key\": \"a\", \"fields\": {}}\nno", "line 2: "),
            (
                "{\"key\": \"\", \"fields\": {}}",
                "line 1: a key is a text of 1 to",
            ),
            ("{\"key\": \"a\"}", "has either"),
            (
                "{\"key\": \"a\", \"fields\": [{}]}",
                "\"fields\" is not expected",
            ),
            (
                "{\"key\": \"a\", \"values\": {}}",
                "\"values\" is not expected",
            ),
        ] {
            let error = of.make("totals", lines, 10_000).expect_err("no batch");
            assert!(error.to_string().contains(words), "{words}: {error}");
        }
        assert!(of.make("totals", lines, 20).is_err(), "no room");
    }
}
