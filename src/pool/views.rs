//! The views: for each stream one, `stream_<name>`, with a column for each field that was ever seen.
//!
//! `apply` notes every item; an unknown set of field names (an item's `shape`) is looked at once.
//! Views change inside the transaction that brings the first item with the new field.
//!
//! SQLite reads JSON to a depth of 1,000, and one item beyond that would make its whole view
//! unreadable: `ingest::flatten` refuses it.
//!
//! **Invariant**: no text from outside enters SQL unquoted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use rusqlite::Connection;

use crate::item::{ItemRef, field_name, members};

/// SQLite's own limit is 2,000. Fields beyond it are in `fields` all the same.
const COLUMNS_MAX: usize = 1_000;
/// Longer names make no column.
const NAME_BYTES_MAX: usize = 256;
/// Shapes remembered for each stream; when there are more, they are looked at again.
const SHAPES_MAX: usize = 10_000;

/// Columns that every view has beside its fields.
const OWN_COLUMNS: [(&str, &str); 4] = [
    ("_key", "key"),
    ("_seq", "seq"),
    ("_created_at", "created_at"),
    ("_updated_at", "updated_at"),
];

#[derive(Debug, Default)]
pub(super) struct Views {
    streams: HashMap<Arc<str>, StreamView>,
    /// Names of views in use, in lower case: SQLite does not tell `A` from `a`.
    names: HashSet<String>,
    /// Streams whose view must be made again.
    stale: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
struct StreamView {
    /// Absent until the view exists.
    name: Option<String>,
    /// Field names as written in JSON, quotes and escapes included.
    fields: Vec<String>,
    known: HashSet<String>,
    shapes: HashSet<u64>,
    /// How many of `fields` the file knows.
    stored: usize,
}

impl Views {
    pub(super) fn load(connection: &Connection) -> Result<Self, rusqlite::Error> {
        let mut views = Self::default();
        let mut statement = connection.prepare("SELECT stream, view FROM views")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stream: String = row.get(0)?;
            let name: String = row.get(1)?;
            views.names.insert(name.to_ascii_lowercase());
            views.streams.entry(stream.into()).or_default().name = Some(name);
        }
        let mut statement =
            connection.prepare("SELECT stream, name FROM view_fields ORDER BY stream, position")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let stream: String = row.get(0)?;
            let view = views.streams.entry(stream.into()).or_default();
            view.add(row.get(1)?);
            view.stored = view.fields.len();
        }
        Ok(views)
    }

    /// Takes notice of the fields of a stream's items. Cheap for shapes that were seen before.
    pub(super) fn note<'a>(
        &mut self,
        stream: &Arc<str>,
        items: impl Iterator<Item = &'a ItemRef<'a>>,
    ) {
        if !self.streams.contains_key(stream) {
            self.streams
                .insert(Arc::clone(stream), StreamView::default());
        }
        let Some(view) = self.streams.get_mut(stream) else {
            return;
        };
        let mut changed = view.name.is_none();
        for item in items {
            if view.shapes.contains(&item.shape) {
                continue;
            }
            if view.shapes.len() >= SHAPES_MAX {
                view.shapes.clear();
            }
            view.shapes.insert(item.shape);
            for (name, _) in members(item.fields) {
                if view.fields.len() < COLUMNS_MAX
                    && name.len() <= NAME_BYTES_MAX
                    && !view.known.contains(name)
                {
                    view.add(name.to_owned());
                    changed = true;
                }
            }
        }
        if changed {
            self.stale.push(Arc::clone(stream));
        }
    }

    /// Makes every view again that has new columns. Runs inside the caller's transaction.
    pub(super) fn refresh(&mut self, connection: &Connection) -> Result<(), rusqlite::Error> {
        while let Some(stream) = self.stale.pop() {
            let Some(view) = self.streams.get_mut(&stream) else {
                continue;
            };
            let name = match &view.name {
                Some(name) => name.clone(),
                None => {
                    let name = free(&mut self.names, &format!("stream_{stream}"));
                    connection.execute(
                        "INSERT INTO views (stream, view) VALUES (?1, ?2)",
                        [&*stream, &name],
                    )?;
                    view.name = Some(name.clone());
                    name
                }
            };
            for (position, field) in view.fields.iter().enumerate().skip(view.stored) {
                connection.execute(
                    "INSERT INTO view_fields (stream, position, name) VALUES (?1, ?2, ?3)",
                    rusqlite::params![&*stream, position.cast_signed(), field],
                )?;
            }
            view.stored = view.fields.len();
            connection.execute_batch(&view.sql(&name, &stream))?;
        }
        Ok(())
    }
}

impl StreamView {
    fn add(&mut self, field: String) {
        if self.known.insert(field.clone()) {
            self.fields.push(field);
        }
    }

    fn sql(&self, name: &str, stream: &str) -> String {
        let mut taken = HashSet::new();
        let mut columns: Vec<String> = Vec::with_capacity(self.fields.len() + OWN_COLUMNS.len());
        for (column, source) in OWN_COLUMNS {
            taken.insert(column.to_owned());
            columns.push(format!("{source} AS {}", identifier(column)));
        }
        for field in &self.fields {
            let column = free(&mut taken, &column_name(field));
            let path = literal(&format!("$.{field}"));
            columns.push(format!(
                "json_extract(fields, {path}) AS {}",
                identifier(&column)
            ));
        }
        let name = identifier(name);
        format!(
            "DROP VIEW IF EXISTS {name}; CREATE VIEW {name} AS SELECT {} FROM items WHERE stream = {};",
            columns.join(", "),
            literal(stream)
        )
    }
}

/// The field's name as a column: decoded, unless it has characters that no SQL text can hold.
fn column_name(field: &str) -> String {
    let name = field_name(field);
    if name.chars().any(char::is_control) {
        field.trim_matches('"').to_owned()
    } else {
        name.into_owned()
    }
}

/// The name that was wanted, with `:2`, `:3`… if another one differs only in case.
fn free(taken: &mut HashSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    // SQLite folds ASCII only.
    while !taken.insert(name.to_ascii_lowercase()) {
        name = format!("{wanted}:{number}");
        number += 1;
    }
    name
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
