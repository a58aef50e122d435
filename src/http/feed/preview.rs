//! What a feed will look like, for the page that puts its URL together: a few rows, and a sample of each field.
//!
//! **Invariant**: it costs the same however large the stream is: the first items by key are looked at, no others.

use super::cell::{Cell, Row};
use super::column::{Source, columns};
use super::list::escaped;
use super::query::{Format, Numbers, Query, listed};
use super::rows::Found;
use super::write;
use crate::http::error::ApiError;
use crate::item::field_name;
use crate::pool::{Item, PageLimit, Pool};

/// Rows that are shown.
const FIRST: PageLimit = PageLimit {
    rows: 10,
    bytes: 1 << 20,
};

/// The beginning of a stream.
#[derive(Debug)]
pub(in crate::http) struct Preview {
    stream: String,
    items: Vec<Item>,
    fields: Vec<String>,
}

impl Preview {
    /// Reads it.
    pub(in crate::http) async fn read(pool: &Pool, stream: &str) -> Result<Self, ApiError> {
        Ok(Self {
            stream: stream.to_owned(),
            items: pool.items(stream, None, FIRST).await?,
            fields: pool.fields(stream).await?,
        })
    }

    /// The names of all columns that a feed can have with a value of each, in the order in which they were first seen;
    /// what identifies the item first.
    pub(in crate::http) fn samples(&self) -> Vec<(String, String)> {
        let own = ["_key", "_updated_at", "_position"].map(str::to_owned);
        let fields = self
            .fields
            .iter()
            .map(|field| field_name(field).into_owned());
        let sample = |name: String| {
            let source = Source::of(&name);
            let values = self.items.iter().zip(1..).map(|(item, position)| {
                let row = Row { item, position };
                row.value(&source, Numbers::default())
            });
            let found = values.into_iter().find(|value| *value != Cell::Empty);
            let text = found.map_or_else(String::new, |value| value.text().to_owned());
            (name, text)
        };
        own.into_iter().chain(fields).map(sample).collect()
    }

    /// The first rows with these columns (`fields=`), or with all.
    pub(in crate::http) fn first_rows(&self, format: Format, fields: &str) -> String {
        let query = Query {
            fields: listed(fields),
            ..Query::of(format)
        };
        let columns = columns(&query, self.fields.clone());
        let found = Found {
            items: self.items.clone(),
            total: self.items.len(),
        };
        // A sentence is as good a preview.
        write::body(&query, &self.stream, &columns, &found).unwrap_or_else(|sentence| sentence)
    }
}

/// A column as `fields=` has it: a field, and what it is to be called.
pub(in crate::http) fn entry(field: &str, name: &str) -> String {
    match name.is_empty() {
        true => escaped(field),
        false => format!("{}:{}", escaped(name), escaped(field)),
    }
}
