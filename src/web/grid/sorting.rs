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
mod tests {
    use super::*;

    fn grid(sort: &str) -> Grid {
        let row = |key: &str, items: &str, at: Option<&str>| {
            Row::of(key, "/").cells([
                Cell::text(items),
                Cell::markup(maud::html! { form {} }),
                Cell::time(at),
            ])
        };
        let columns = [
            Column::number("Items"),
            Column::text("Act"),
            Column::time("Last seen"),
        ];
        let rows = [
            row("beta", "9", Some("2026-01-02T00:00:00Z")),
            row("Alpha", "over 10,000", None),
            row("gamma", "1,204", Some("2026-01-01T00:00:00Z")),
            row("delta", "< 0.1 %", None),
        ];
        Grid::new("Things here", "Name", columns).sorted(rows, 3, &Sorting::read("/x", sort))
    }

    fn keys(sort: &str) -> Vec<String> {
        grid(sort).rows.into_iter().map(|row| row.key).collect()
    }

    #[test]
    fn rows_are_sorted_before_the_first_of_them_are_taken() {
        assert_eq!(keys(""), ["beta", "Alpha", "gamma"]);
        assert_eq!(keys("things-here.name"), ["Alpha", "beta", "delta"]);
        assert_eq!(keys("-things-here.name"), ["gamma", "delta", "beta"]);
        assert_eq!(keys("things-here.items"), ["delta", "beta", "gamma"]);
        assert_eq!(keys("-things-here.items"), ["Alpha", "gamma", "beta"]);
    }

    #[test]
    fn a_row_that_says_nothing_comes_last_both_ways() {
        assert_eq!(keys("things-here.last-seen")[..2], ["gamma", "beta"]);
        assert_eq!(keys("-things-here.last-seen")[..2], ["beta", "gamma"]);
    }

    #[test]
    fn a_head_leads_to_its_order_and_then_to_the_other_way_round() {
        let address = |sort: &str, place: usize| {
            let grid = grid(sort);
            let column = match place.checked_sub(1) {
                None => grid.key,
                Some(place) => grid.columns[place].clone(),
            };
            column.sort.map(|(address, _)| address)
        };
        let some = |address: &str| Some(address.to_owned());
        assert_eq!(address("", 0), some("/x?sort=things-here.name"));
        assert_eq!(address("", 1), some("/x?sort=-things-here.items"));
        assert_eq!(address("", 2), None, "a button is no value");
        let again = address("-things-here.items", 1);
        assert_eq!(again, some("/x?sort=things-here.items"));
        let back = address("things-here.items", 1);
        assert_eq!(back, some("/x?sort=-things-here.items"));
        assert_eq!(keys("nothing.here"), keys(""), "an order that is unknown");
    }
}
