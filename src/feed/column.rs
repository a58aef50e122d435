//! The columns of a feed: where each value comes from, and what it is called.
//!
//! **Invariant**: no two columns of a feed have the same name, and a column keeps its name and its place when the
//! stream gets new fields, which come behind it.

use std::collections::HashSet;

use super::query::{Format, Names, Query, Shape};
use super::xml;
use item::{field_name, string_into};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// `_key`: what identifies the item.
    Key,
    /// `_updated_at`: when its data arrived.
    UpdatedAt,
    /// `_position`: 1 for the first row, and so on.
    Position,
    /// A field, its name as JSON writes it.
    Field(String),
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What it is called.
    pub(super) name: String,
    /// Where its values come from.
    pub(super) source: Source,
}

/// A column that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    /// What it is to be called, in place of its own name.
    pub(super) name: Option<String>,
    /// Where its values come from.
    pub(super) source: Source,
}

impl Source {
    /// What a name stands for.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "_key" => Self::Key,
            "_updated_at" => Self::UpdatedAt,
            "_position" => Self::Position,
            field => {
                let mut quoted = String::with_capacity(field.len() + 2);
                string_into(field, &mut quoted);
                Self::Field(quoted)
            }
        }
    }

    /// Its own name.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Key => "_key".to_owned(),
            Self::UpdatedAt => "_updated_at".to_owned(),
            Self::Position => "_position".to_owned(),
            Self::Field(quoted) => field_name(quoted).into_owned(),
        }
    }
}

/// The columns that a query asks for, of a stream with these fields.
pub fn columns(query: &Query, fields: Vec<String>) -> Vec<Column> {
    let wanted = match &query.fields {
        Some(wanted) => wanted.clone(),
        None => {
            let own = has_key_column(query).then_some(Source::Key);
            let sources = own.into_iter().chain(fields.into_iter().map(Source::Field));
            let own_name = |source| Wanted { name: None, source };
            sources.map(own_name).collect()
        }
    };
    // Names that were given are never changed: the others make room.
    let given = wanted.iter().filter_map(|one| one.name.as_deref());
    let mut taken: HashSet<String> = given.map(|name| in_format(query.format, name)).collect();
    let mut given_before = HashSet::new();
    let columns = wanted.into_iter().map(|one| {
        let name = match one.name {
            Some(name) => {
                let name = in_format(query.format, &name);
                match given_before.insert(name.clone()) {
                    true => name,
                    false => free(&mut taken, name),
                }
            }
            None => {
                let own = named(query.names, one.source.name());
                free(&mut taken, in_format(query.format, &own))
            }
        };
        Column {
            name,
            source: one.source,
        }
    });
    columns.collect()
}

/// Where items carry their key in another way, or one item is shown by its fields, there is no column for it unless it is
/// asked for.
fn has_key_column(query: &Query) -> bool {
    !matches!(query.format, Format::Xml | Format::Rss | Format::Txt) && query.shape != Shape::Fields
}

fn named(names: Names, own: String) -> String {
    match names {
        Names::Underscores => own.replace('.', "_"),
        Names::Dots | Names::Nested => own,
    }
}

/// A name as the format can have it.
fn in_format(format: Format, name: &str) -> String {
    match format {
        Format::Xml => xml::element_name(name),
        _ => name.to_owned(),
    }
}

/// The name that was wanted, with `_2`, `_3` and so on if another column has it.
fn free(taken: &mut HashSet<String>, wanted: String) -> String {
    let mut name = wanted.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{wanted}_{number}");
        number += 1;
    }
    name
}
