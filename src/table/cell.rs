//! The values of a row, as the writers of all formats take them.
//!
//! **Invariant**: a number keeps its text unless the query wants it rounded or with a comma; a text keeps its characters.

use std::collections::HashMap;

use super::column::Column;
use item::members;
use pool::Item;
use select::{Numbers, Record, Source, Template, Value};

/// A row: an item, and the how manyth it is.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    pub item: &'a Item,
    pub stream: &'a str,
    /// From 1.
    pub position: usize,
}

impl<'a> Row<'a> {
    /// As the language looks at it.
    pub fn record(&self) -> Record<'a> {
        Record {
            key: &self.item.key,
            stream: self.stream,
            updated_at: &self.item.updated_at,
            request_id: &self.item.request_id,
            position: self.position,
            fields: &self.item.fields,
            ..Record::default()
        }
    }

    /// What the daemon knows, as it is.
    fn own(&self, source: &Source) -> Value<'a> {
        match source {
            Source::Own(own) => self.record().own(*own),
            Source::Field(_) => Value::Empty,
        }
    }

    /// The template with its values.
    pub(super) fn filled(&self, template: &Template, numbers: Numbers) -> String {
        template.fill_feed(&self.record(), numbers)
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
    pub(super) fn of<'b>(&self, row: Row<'b>) -> Vec<Value<'b>> {
        let own = self.columns.iter().map(|column| row.own(&column.source));
        let mut cells: Vec<Value<'b>> = own.collect();
        for (name, json) in members(&row.item.fields) {
            for place in self.places.get(name).into_iter().flatten() {
                cells[*place] = Value::of(json).written(self.numbers);
            }
        }
        cells
    }
}
