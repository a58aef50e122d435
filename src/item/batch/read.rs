//! What a sink may learn of a batch, a column or a range at a time.
//!
//! **Invariant**: a range that reaches past the end is shortened; nothing here fails.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;

use super::{Action, Batch, Fill, Slice};
use crate::{ItemRef, field_name, members, string_into};
use base::clock::{self, Unix};
use base::order::{ItemPosition, Seq};

/// Items `start .. start + count` of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub count: u32,
}

impl Span {
    pub const ALL: Self = Self {
        start: 0,
        count: u32::MAX,
    };
}

/// How [`Batch::json`] writes items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The fields of an item as an object, an item a line (NDJSON).
    FieldLines,
    /// The same objects in an array.
    FieldArray,
    /// Objects with `stream`, `key`, `request_id`, `fill` once the sink was filled, `received_at`, `place`, `version` where
    /// there is one, and `fields`, an item a line; of a removal with `removed` in place of `fields`.
    ItemLines,
    /// The same objects in an array.
    ItemArray,
}

impl Batch {
    /// The items of a range, in order, each with what it came with and its position there.
    pub fn range(&self, span: Span) -> impl Iterator<Item = (&Slice, ItemPosition, ItemRef<'_>)> {
        let mut skip = span.start;
        let mut left = span.count;
        self.slices.iter().flat_map(move |slice| {
            let skipped = slice.len().min(skip);
            skip -= skipped;
            let taken = (slice.len() - skipped).min(left);
            left -= taken;
            let first = slice.start + skipped;
            let items = slice.items_from(first).take(taken as usize);
            items
                .zip(first..)
                .map(move |(item, index)| (slice, slice.base + index, item))
        })
    }

    /// The keys of a range of items.
    pub fn keys(&self, span: Span) -> Vec<String> {
        self.range(span)
            .map(|(_, _, item)| item.key.to_owned())
            .collect()
    }

    /// The streams that the items of a range belong to.
    pub fn streams(&self, span: Span) -> Vec<String> {
        self.range(span)
            .map(|(slice, ..)| slice.entry.stream.to_string())
            .collect()
    }

    /// When the items of a range arrived.
    pub fn times(&self, span: Span) -> Vec<Unix> {
        self.range(span)
            .map(|(slice, ..)| slice.entry.received_at)
            .collect()
    }

    /// What is asked of the items of a range.
    pub fn actions(&self, span: Span) -> Vec<Action> {
        self.range(span).map(|(_, _, item)| item.action).collect()
    }

    /// The versions of the items of a range, as they were sent.
    pub fn versions(&self, span: Span) -> Vec<Option<String>> {
        let items = self.range(span);
        let text = |item: ItemRef<'_>| item.version_text().map(Cow::into_owned);
        items.map(|(_, _, item)| text(item)).collect()
    }

    /// The places of the items of a range in the order of acceptance: entry, and position in it.
    pub fn places(&self, span: Span) -> Vec<(Seq, ItemPosition)> {
        self.range(span)
            .map(|(slice, position, _)| (slice.entry.seq, position))
            .collect()
    }

    /// The names of all fields, in the order of their first appearance. Of items with one shape only the first is read,
    /// because the others have the same names.
    pub fn field_names(&self) -> Vec<String> {
        let mut shapes = HashSet::new();
        let mut known = HashSet::new();
        let mut names = Vec::new();
        for (_, _, item) in self.range(Span::ALL) {
            if !shapes.insert(item.shape) {
                continue;
            }
            for (name, _) in members(item.fields) {
                if known.insert(name) {
                    names.push(field_name(name).into_owned());
                }
            }
        }
        names
    }

    /// The JSON text of one field of one item; `None` if it has no such field.
    pub fn field(&self, index: u32, name: &str) -> Option<String> {
        let span = Span {
            start: index,
            count: 1,
        };
        let (_, _, item) = self.range(span).next()?;
        value(&item, &quoted(name)).map(str::to_owned)
    }

    /// One field of a range of items as text: strings without quotes, everything else as JSON; `None`
    /// where it is absent or null.
    pub fn texts(&self, name: &str, span: Span) -> Vec<Option<String>> {
        let name = quoted(name);
        self.range(span)
            .map(|(_, _, item)| {
                let text = value(&item, &name).filter(|text| *text != "null")?;
                Some(match text.starts_with('"') {
                    true => field_name(text).into_owned(),
                    false => text.to_owned(),
                })
            })
            .collect()
    }

    /// One field of a range of items as numbers; NaN where it is absent or no number.
    pub fn numbers(&self, name: &str, span: Span) -> Vec<f64> {
        let name = quoted(name);
        self.range(span)
            .map(|(_, _, item)| {
                let text = value(&item, &name).unwrap_or_default();
                let number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
                number
                    .then(|| text.parse().ok())
                    .flatten()
                    .unwrap_or(f64::NAN)
            })
            .collect()
    }

    /// A range of items as JSON.
    pub fn json(&self, span: Span, form: Form) -> String {
        let array = matches!(form, Form::FieldArray | Form::ItemArray);
        let mut json = String::new();
        for (slice, position, item) in self.range(span) {
            if array {
                json.push(if json.is_empty() { '[' } else { ',' });
            }
            match form {
                Form::FieldLines | Form::FieldArray => json.push_str(item.fields),
                Form::ItemLines | Form::ItemArray => {
                    write_item(slice, position, &item, self.fill(), &mut json)
                }
            }
            if !array {
                json.push('\n');
            }
        }
        if array {
            json.push_str(if json.is_empty() { "[]" } else { "]" });
        }
        json
    }
}

fn write_item(
    slice: &Slice,
    position: ItemPosition,
    item: &ItemRef<'_>,
    fill: Option<Fill>,
    json: &mut String,
) {
    let entry = &slice.entry;
    json.push_str(r#"{"stream":"#);
    string_into(&entry.stream, json);
    json.push_str(r#","key":"#);
    string_into(item.key, json);
    json.push_str(r#","request_id":""#);
    json.push_str(&entry.request_id.to_string());
    json.push('"');
    if let Some(fill) = fill {
        let _ = write!(json, r#","fill":{}"#, fill.number);
    }
    json.push_str(r#","received_at":""#);
    json.push_str(&clock::rfc3339(entry.received_at));
    // A `String` takes all that is written.
    let _ = write!(json, r#"","place":[{},{position}]"#, entry.seq);
    if let Some(version) = item.version_text() {
        json.push_str(r#","version":"#);
        string_into(&version, json);
    }
    match item.action {
        Action::Upsert => {
            json.push_str(r#","fields":"#);
            json.push_str(item.fields);
            json.push('}');
        }
        Action::Remove => json.push_str(r#","removed":true}"#),
    }
}

/// A field's name as it stands in JSON.
pub(super) fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    string_into(name, &mut text);
    text
}

fn value<'a>(item: &ItemRef<'a>, quoted: &str) -> Option<&'a str> {
    members(item.fields)
        .find(|(name, _)| *name == quoted)
        .map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
