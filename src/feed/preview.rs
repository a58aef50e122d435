//! Preview of a feed, for the page that builds its URL: a few rows, and an example of each field.
//!
//! **Invariant**: the cost does not depend on the size of the stream: only the first items by key are read.

use http::error::ApiError;
use pool::{Item, PageLimit, Pool};
use select::{FieldEntry, Fields, Own, Scope, Source, Value};
use table::{Format, Found, Query, Row, body, columns, wanted};

const FIRST: PageLimit = PageLimit {
    rows: 10,
    bytes: 1 << 20,
};

/// The first items of a stream.
#[derive(Debug)]
pub struct Preview {
    stream: String,
    items: Vec<Item>,
    fields: Vec<String>,
}

/// A column that a feed can have.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its position among the selected columns; 1 is the first.
    pub place: Option<usize>,
    /// The source of its values.
    pub field: String,
    /// Its new name, if it is renamed.
    pub name: String,
    /// An example of its values.
    pub sample: String,
}

impl Preview {
    pub async fn read(pool: &Pool, stream: &str) -> Result<Self, ApiError> {
        Ok(Self {
            stream: stream.to_owned(),
            items: pool.items(stream, None, FIRST).await?,
            fields: pool.fields(stream).await?,
        })
    }

    /// The columns that a feed can have: the selected ones (`fields=`) in their order; then the columns that identify
    /// an item, and its fields in the order in which they were first seen; columns that must be selected are last.
    pub fn choices(&self, fields: &str) -> Vec<Choice> {
        // What cannot be read chooses nothing; the preview says why.
        let fields = Fields::parse(fields, Scope::FEED).unwrap_or_default();
        let chosen = match fields.is_empty() {
            true => Vec::new(),
            false => wanted(&fields, true, &self.fields),
        };
        let others = std::iter::once(Source::Own(Own::Key))
            .chain(self.fields.iter().cloned().map(Source::Field))
            .chain([Own::UpdatedAt, Own::Position].map(Source::Own))
            .filter(|source| chosen.iter().all(|column| column.source != *source));
        let others = others.map(|source| (None, String::new(), source));
        let first = chosen.iter().zip(1..).map(|(column, place)| {
            let name = column.name.clone().unwrap_or_default();
            (Some(place), name, column.source.clone())
        });
        let choices = first.chain(others).map(|(place, name, source)| Choice {
            place,
            name,
            field: source.name().into_owned(),
            sample: self.sample(&source),
        });
        choices.collect()
    }

    /// An example of a column's values; empty if none of the first items has one.
    fn sample(&self, source: &Source) -> String {
        let values = self.items.iter().zip(1..).map(|(item, position)| {
            let row = Row {
                item,
                stream: &self.stream,
                position,
            };
            row.record().value(source)
        });
        let found = values.into_iter().find(|value| *value != Value::Empty);
        found.map_or_else(String::new, |value| value.text().to_owned())
    }

    /// The first rows with these columns (`fields=`), or with all columns.
    pub fn first_rows(&self, format: Format, fields: &str) -> String {
        let fields = match Fields::parse(fields, Scope::FEED) {
            Ok(fields) => fields,
            Err(error) => return error.to_string(),
        };
        let query = Query::of(format).with_fields(fields);
        let columns = columns(&query, self.fields.clone());
        let found = Found {
            items: self.items.clone(),
            total: self.items.len(),
        };
        // A sentence is as good a preview.
        body(&query, &self.stream, &columns, &found).unwrap_or_else(|sentence| sentence)
    }
}

/// A column as in `fields=`: a field, and its new name.
pub fn entry(field: &str, name: &str) -> String {
    let entry = FieldEntry::One {
        name: (!name.is_empty()).then(|| name.to_owned()),
        source: Source::field(field),
    };
    entry.to_string()
}
