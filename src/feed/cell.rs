//! The values of a row, as the writers of all formats take them.
//!
//! **Invariant**: a number keeps its text unless the query wants it rounded or with a comma; a text keeps its characters.

use std::borrow::Cow;
use std::collections::HashMap;

use super::column::{Column, Source};
use super::list::Part;
use super::number::Decimal;
use super::query::Numbers;
use item::{field_name, members, string_into};
use pool::Item;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell<'a> {
    /// `null`, or a field that the item does not have.
    Empty,
    /// A text.
    Text(Cow<'a, str>),
    /// A number.
    Number(Cow<'a, str>),
    /// `true` or `false`.
    Truth(&'a str),
    /// An array, or an empty object: JSON text.
    Json(&'a str),
}

impl<'a> Cell<'a> {
    /// The value with this JSON text.
    pub(super) fn of(json: &'a str, numbers: Numbers) -> Self {
        match json.as_bytes().first() {
            Some(b'"') => Self::Text(field_name(json)),
            Some(b'[' | b'{') => Self::Json(json),
            Some(b'n') | None => Self::Empty,
            Some(b't' | b'f') => Self::Truth(json),
            Some(_) => number(json, numbers),
        }
    }

    /// The value as people read it.
    pub(super) fn text(&self) -> &str {
        match self {
            Self::Empty => "",
            Self::Text(text) | Self::Number(text) => text,
            Self::Truth(text) | Self::Json(text) => text,
        }
    }

    /// Appends it as JSON: what is nested in it as it is, or as a text for programs that want none of that.
    pub(super) fn json_into(&self, is_nested: bool, out: &mut String) {
        match self {
            Self::Empty => out.push_str("null"),
            Self::Number(text) => out.push_str(text),
            Self::Truth(text) => out.push_str(text),
            Self::Json(text) if is_nested => out.push_str(text),
            Self::Json(text) => string_into(text, out),
            Self::Text(text) => string_into(text, out),
        }
    }
}

/// A number as the query wants it. With a comma it is none for JSON.
fn number(json: &str, numbers: Numbers) -> Cell<'_> {
    let rounded = numbers
        .decimals
        .and_then(|places| Decimal::parse(json)?.rounded(places));
    let text = rounded.map_or(Cow::Borrowed(json), Cow::Owned);
    match numbers.comma && text.contains('.') {
        true => Cell::Text(Cow::Owned(text.replace('.', ","))),
        false => Cell::Number(text),
    }
}

/// A row: an item, and the how manyth it is.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub item: &'a Item,
    /// From 1.
    pub position: usize,
}

impl<'a> Row<'a> {
    /// What it has of one source. Looks through all fields.
    pub(super) fn value(&self, source: &Source, numbers: Numbers) -> Cell<'a> {
        match source {
            Source::Field(name) => members(&self.item.fields)
                .find(|(field, _)| field == name)
                .map_or(Cell::Empty, |(_, json)| Cell::of(json, numbers)),
            own => self.own(own),
        }
    }

    fn own(&self, source: &Source) -> Cell<'a> {
        match source {
            Source::Key => Cell::Text(Cow::Borrowed(&self.item.key)),
            Source::UpdatedAt => Cell::Text(Cow::Borrowed(&self.item.updated_at)),
            Source::Position => Cell::Number(Cow::Owned(self.position.to_string())),
            Source::Field(_) => Cell::Empty,
        }
    }

    /// The pattern with its values.
    pub(super) fn filled(&self, pattern: &[Part], numbers: Numbers) -> String {
        let mut text = String::new();
        for part in pattern {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Value(source) => text.push_str(self.value(source, numbers).text()),
            }
        }
        text
    }
}

/// Finds the cells of rows: looks at each field of an item once, however many columns there are.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    columns: &'a [Column],
    numbers: Numbers,
    /// The columns of each field.
    places: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(columns: &'a [Column], numbers: Numbers) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        for (place, column) in columns.iter().enumerate() {
            if let Source::Field(name) = &column.source {
                places.entry(name).or_default().push(place);
            }
        }
        Self {
            columns,
            numbers,
            places,
        }
    }

    /// The cells of a row, one for each column.
    pub(super) fn of<'b>(&self, row: Row<'b>) -> Vec<Cell<'b>> {
        let own = self.columns.iter().map(|column| row.own(&column.source));
        let mut cells: Vec<Cell<'b>> = own.collect();
        for (name, json) in members(&row.item.fields) {
            for place in self.places.get(name).into_iter().flatten() {
                cells[*place] = Cell::of(json, self.numbers);
            }
        }
        cells
    }
}
