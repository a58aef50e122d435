//! The body of a feed: what stands before, between and behind the rows, in each format.
//!
//! Feeds write all rows at once; exports (`feed/export.rs`) write them page by page with the same [`Writer`].
//!
//! **Invariant**: nothing is in a body that moves by itself: the same items and the same query give the same bytes.

use super::cell::{Cells, Row};
use super::column::Column;
use super::query::{Format, Query, Shape};
use super::rows::{Found, too_large};
use super::{json, rss, separated, txt, xml};
use select::{Own, Source, Value};

/// Bytes of a feed, at most.
pub(super) const BYTES_MAX: usize = 16 << 20;

/// Writes rows one after the other.
#[derive(Debug)]
pub struct Writer<'a> {
    query: &'a Query,
    stream: &'a str,
    columns: &'a [Column],
    cells: Cells<'a>,
    rows: usize,
}

/// The whole body.
///
/// # Errors
/// Why there is none: a sentence for the caller.
pub fn body(
    query: &Query,
    stream: &str,
    columns: &[Column],
    found: &Found,
) -> Result<String, String> {
    let as_fields = [name("name"), name("value")];
    let shown = match query.shape {
        Shape::Fields => &as_fields[..],
        _ => columns,
    };
    let mut out = String::new();
    let mut writer = Writer::new(query, stream, shown);
    let rows_max = match query.shape {
        Shape::Rows | Shape::Object => usize::MAX,
        Shape::One | Shape::Fields => 1,
    };
    let total = match query.shape {
        Shape::Fields if found.items.is_empty() => 0,
        Shape::Fields => columns.len(),
        _ => found.total,
    };
    writer.begin(total, &mut out);
    for (item, position) in found.items.iter().take(rows_max).zip(query.offset + 1..) {
        let row = Row {
            item,
            stream,
            position,
        };
        if query.shape == Shape::Fields {
            let cells = Cells::new(columns, query.numbers).of(row);
            for (column, cell) in columns.iter().zip(cells) {
                let name = Value::Text(column.name.as_str().into());
                writer.cells(row, &[name, cell], &mut out);
            }
        } else {
            writer.row(row, &mut out);
        }
        if out.len() > BYTES_MAX {
            return Err(too_large());
        }
    }
    writer.end(&mut out);
    if out.len() > BYTES_MAX {
        return Err(too_large());
    }
    Ok(out)
}

fn name(name: &str) -> Column {
    Column {
        name: name.to_owned(),
        source: Source::Own(Own::Position),
    }
}

impl<'a> Writer<'a> {
    pub fn new(query: &'a Query, stream: &'a str, columns: &'a [Column]) -> Self {
        Self {
            query,
            stream,
            columns,
            cells: Cells::new(columns, query.numbers),
            rows: 0,
        }
    }

    /// Continues after this number of rows, because an export has a writer for each page.
    pub fn after(self, rows: usize) -> Self {
        Self { rows, ..self }
    }

    /// What stands before the first row; `total` is how many there are in all.
    pub fn begin(&self, total: usize, out: &mut String) {
        match self.query.format {
            Format::Json => json::begin(self.query, out),
            Format::Csv | Format::Tsv => separated::begin(self.query, self.columns, out),
            Format::Xml => xml::begin(self.query, total, out),
            Format::Rss => rss::begin(self.query, self.stream, out),
            Format::Txt | Format::Ndjson => {}
        }
    }

    pub fn row(&mut self, row: Row<'_>, out: &mut String) {
        let cells = self.cells.of(row);
        self.cells(row, &cells, out);
    }

    /// A row of these values.
    fn cells(&mut self, row: Row<'_>, cells: &[Value<'_>], out: &mut String) {
        let is_first = self.rows == 0;
        self.rows += 1;
        let (query, table) = (self.query, (self.columns, cells));
        match query.format {
            Format::Json => json::row(query, table, (&row.item.key, is_first), out),
            Format::Ndjson => json::line(query, self.columns, cells, out),
            Format::Csv | Format::Tsv => separated::row(query, cells, out),
            Format::Xml => xml::row(query, table, &row.item.key, out),
            Format::Rss => rss::row(query, self.stream, table, row, out),
            Format::Txt => txt::row(query, table, (row, is_first), out),
        }
    }

    /// What stands behind the last row.
    pub fn end(&self, out: &mut String) {
        let is_empty = self.rows == 0;
        match self.query.format {
            Format::Json => json::end(self.query, is_empty, out),
            Format::Xml => xml::end(self.query, is_empty, out),
            Format::Rss => rss::end(out),
            Format::Csv | Format::Tsv | Format::Txt | Format::Ndjson => {}
        }
    }
}
