//! Sorting of a complete list by a column, as the URL requests it: `?sort=-streams.items`.
//!
//! Lists that are read in pages have their own orders, by key or time.

use std::cmp::Ordering;

use salvo_core::Request;

use super::{Cell, Column, Direction, Grid, Kind, Row};

/// The order in the URL: the list and column, and the direction.
#[derive(Debug)]
pub(crate) struct Sorting {
    path: String,
    by: String,
    direction: Direction,
}

impl Sorting {
    pub(crate) fn of(req: &Request) -> Self {
        let sort = req.query::<String>("sort").unwrap_or_default();
        Self::read(req.uri().path(), &sort)
    }

    fn read(path: &str, sort: &str) -> Self {
        let (by, direction) = match sort.strip_prefix('-') {
            Some(by) => (by, Direction::Descending),
            None => (sort, Direction::Ascending),
        };
        Self {
            path: path.to_owned(),
            by: by.to_owned(),
            direction,
        }
    }

    /// The direction if the list is sorted by this column.
    fn direction(&self, name: &str) -> Option<Direction> {
        (self.by == name).then_some(self.direction)
    }

    /// The URL of the list sorted by this column, in reverse if it is already.
    fn address(&self, name: &str, kind: Kind) -> String {
        let descending = match self.direction(name) {
            Some(direction) => direction == Direction::Ascending,
            // Users look for the largest and the newest first.
            None => kind != Kind::Text,
        };
        let sign = if descending { "-" } else { "" };
        format!("{}?sort={sign}{name}", self.path)
    }
}

impl Grid {
    /// Sets these rows, at most `rows_max`, in the order of the URL or else unchanged. A column is sortable if any of
    /// its cells has a value.
    pub(crate) fn sorted(
        mut self,
        rows: impl IntoIterator<Item = Row>,
        rows_max: usize,
        sorting: &Sorting,
    ) -> Self {
        let all = std::iter::once(&self.key).chain(&self.columns);
        let all: Vec<_> = all.map(|one| (self.name_of(one), one.kind)).collect();
        let by = all.iter().position(|(name, _)| *name == sorting.by);
        let rows = rows.into_iter();
        self.rows = match by {
            Some(place) => sorted(rows, place, all[place].1, sorting.direction),
            None => rows.take(rows_max).collect(),
        };
        self.rows.truncate(rows_max);
        let columns = std::iter::once(&mut self.key).chain(&mut self.columns);
        for (place, (column, (name, kind))) in columns.zip(&all).enumerate() {
            if self.rows.iter().any(|row| value(row, place).is_some()) {
                column.sort = Some((sorting.address(name, *kind), sorting.direction(name)));
            }
        }
        self
    }

    /// The name of a column in a URL.
    fn name_of(&self, column: &Column) -> String {
        let name = format!("{}.{}", self.label, column.name);
        name.to_lowercase().replace(' ', "-")
    }
}

/// The value by which a row is sorted: its key, or the value of a cell.
fn value(row: &Row, place: usize) -> Option<&str> {
    match place.checked_sub(1) {
        None => Some(&row.key),
        Some(place) => row.cells.get(place).and_then(Cell::value),
    }
}

/// Sorts rows; rows without a value are last in both directions.
fn sorted(
    rows: impl Iterator<Item = Row>,
    place: usize,
    kind: Kind,
    direction: Direction,
) -> Vec<Row> {
    let (mut rows, rest): (Vec<Row>, Vec<Row>) = rows.partition(|row| value(row, place).is_some());
    rows.sort_by(|one, other| {
        let order = compare(value(one, place), value(other, place), kind);
        match direction {
            Direction::Ascending => order,
            Direction::Descending => order.reverse(),
        }
    });
    rows.extend(rest);
    rows
}

fn compare(one: Option<&str>, other: Option<&str>, kind: Kind) -> Ordering {
    let (one, other) = (one.unwrap_or_default(), other.unwrap_or_default());
    match kind {
        Kind::Number => number(one).total_cmp(&number(other)),
        Kind::Text | Kind::Time => {
            let texts = one.to_lowercase().cmp(&other.to_lowercase());
            texts.then_with(|| one.cmp(other))
        }
    }
}

/// The number in a text such as `over 10,000` or `33.3 %`; a text without one sorts below all numbers.
fn number(text: &str) -> f64 {
    let digits: String = (text.chars())
        .filter(|char| char.is_ascii_digit() || *char == '.')
        .collect();
    digits.parse().unwrap_or(f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests;
