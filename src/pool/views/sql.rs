//! The view of one stream: its columns, and the statements that make it.
//!
//! **Invariant**: no two columns of a view have the same name, in any case of letters.

use std::collections::HashSet;

use super::{NAME_BEGIN, OWN_COLUMNS, Stored};
use item::field_name;

#[derive(Debug, Default)]
pub(super) struct StreamView {
    /// Absent until the first item.
    pub(super) name: Option<String>,
    /// Field names as written in JSON, quotes and escapes included.
    pub(super) fields: Vec<String>,
    pub(super) known: HashSet<String>,
    /// Each set is read once, because a source repeats the same few.
    pub(super) shapes: HashSet<u64>,
    pub(super) stored: Stored,
    /// The view exists.
    pub(super) made: bool,
}

impl StreamView {
    pub(super) fn add(&mut self, field: String) {
        if self.known.insert(field.clone()) {
            self.fields.push(field);
        }
    }

    /// The views as SQLite keeps them, with their names: what sources said, and what is shown. None without a name.
    pub(super) fn sql(&self, stream: &str) -> Vec<(String, String)> {
        let Some(name) = &self.name else {
            return Vec::new();
        };
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
        let columns = columns.join(", ");
        let stream = literal(stream);
        let shown = format!("shown_{}", name.strip_prefix(NAME_BEGIN).unwrap_or(name));
        let view = |name: &str, rows: &str| {
            format!(
                "CREATE VIEW {} AS SELECT {columns} FROM {rows}",
                identifier(name)
            )
        };
        let of_items = format!("items WHERE stream = {stream}");
        let of_shown = format!(
            "(SELECT key, fields, seq, created_at, updated_at FROM items WHERE stream = {stream}
             AND NOT EXISTS (SELECT 1 FROM shown WHERE shown.stream = items.stream AND shown.key = items.key)
             UNION ALL SELECT key, fields, seq, coalesce((SELECT created_at FROM items
             WHERE items.stream = shown.stream AND items.key = shown.key), updated_at), updated_at
             FROM shown WHERE stream = {stream} AND fields IS NOT NULL)"
        );
        vec![
            (name.clone(), view(name, &of_items)),
            (shown.clone(), view(&shown, &of_shown)),
        ]
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
pub(super) fn free(taken: &mut HashSet<String>, wanted: &str) -> String {
    let mut name = wanted.to_owned();
    let mut number = 2;
    // SQLite folds ASCII only.
    while !taken.insert(name.to_ascii_lowercase()) {
        name = format!("{wanted}:{number}");
        number += 1;
    }
    name
}

pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
