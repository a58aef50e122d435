//! The columns of a feed: where each value comes from, and what it is called.
//!
//! **Invariant**: no two columns of a feed have the same name, and a column keeps its name and its place when the
//! stream gets new fields, which come behind it.

use std::collections::HashSet;

use super::query::{Format, Names, Query, Shape};
use super::xml;
use item::field_name;
use select::{FieldEntry, Fields, Own, Source};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub(super) name: String,
    /// Where its values come from.
    pub(super) source: Source,
}

/// A column that was asked for.
#[derive(Debug)]
pub struct Wanted {
    /// What it is to be called, in place of its own name.
    pub name: Option<String>,
    /// Where its values come from.
    pub source: Source,
}

/// The columns that are asked for, of a stream with these fields; `has_key` says whether the key is one of all.
pub fn wanted(chosen: &Fields, has_key: bool, fields: &[String]) -> Vec<Wanted> {
    let entries = chosen.entries();
    let named = entries.iter().filter_map(|entry| match entry {
        FieldEntry::One { source, .. } => Some(source),
        FieldEntry::Beginning(_) => None,
    });
    let named: HashSet<&Source> = named.collect();
    let begins = |field: &str, beginning: &str| field_name(field).starts_with(beginning);
    let own_name = |source| Wanted { name: None, source };
    if chosen.is_empty() || chosen.leaves_out() {
        let own = has_key.then_some(Source::Own(Own::Key));
        let all = own
            .into_iter()
            .chain(fields.iter().cloned().map(Source::Field));
        let is_left_out = |source: &Source| {
            named.contains(source)
                || entries.iter().any(|entry| match (entry, source) {
                    (FieldEntry::Beginning(one), Source::Field(field)) => begins(field, one),
                    _ => false,
                })
        };
        return all.filter(|one| !is_left_out(one)).map(own_name).collect();
    }
    let mut columns = Vec::new();
    let mut begun = HashSet::new();
    for entry in entries {
        match entry {
            FieldEntry::One { name, source } => columns.push(Wanted {
                name: name.clone(),
                source: source.clone(),
            }),
            FieldEntry::Beginning(beginning) => {
                let fields = fields.iter().filter(|field| begins(field, beginning));
                let sources = fields.cloned().map(Source::Field);
                let sources = sources.filter(|source| !named.contains(source));
                let first = sources.filter(|source| begun.insert(source.clone()));
                columns.extend(first.map(own_name));
            }
        }
    }
    columns
}

/// The columns that a query asks for, of a stream with these fields.
pub fn columns(query: &Query, fields: Vec<String>) -> Vec<Column> {
    columns_of(query, true, fields)
}

/// The same; without `has_key`, none of them is the key unless it is asked for.
pub fn columns_of(query: &Query, has_key: bool, fields: Vec<String>) -> Vec<Column> {
    let has_key = has_key && has_key_column(query);
    let wanted = wanted(&query.fields, has_key, &fields);
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
                let own = named(query.names, one.source.name().into_owned());
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
