//! Feeds as JSON: an array without an envelope, an object by key, one object; or a line for each row (ndjson).
//!
//! **Invariant**: an object of rows names all columns, in their order; a program that maps by place finds each at the
//! same place in every row.

use super::column::Column;
use super::query::{Names, Query, Shape};
use item::{nest, string_into};
use select::Value;

/// What stands before the first row.
pub(super) fn begin(query: &Query, out: &mut String) {
    out.push_str(match query.shape {
        Shape::Rows | Shape::Fields => "[",
        Shape::Object => "{",
        Shape::One => "",
    });
}

pub(super) fn row(
    query: &Query,
    (columns, cells): (&[Column], &[Value<'_>]),
    (key, is_first): (&str, bool),
    out: &mut String,
) {
    if !is_first {
        out.push_str(",\n");
    }
    if query.shape == Shape::Object {
        string_into(key, out);
        out.push(':');
    }
    object(query, columns, cells, out);
}

/// What stands behind the last row.
pub(super) fn end(query: &Query, is_empty: bool, out: &mut String) {
    out.push_str(match query.shape {
        Shape::Rows | Shape::Fields => "]",
        Shape::Object => "}",
        Shape::One if is_empty => "{}",
        Shape::One => "",
    });
}

/// A row that is a line of its own.
pub(super) fn line(query: &Query, columns: &[Column], cells: &[Value<'_>], out: &mut String) {
    object(query, columns, cells, out);
    out.push('\n');
}

fn object(query: &Query, columns: &[Column], cells: &[Value<'_>], out: &mut String) {
    if query.names == Names::Nested {
        out.push_str(&nested(columns, cells));
    } else {
        flat(columns, cells, false, out);
    }
}

/// The row with the parts of names between dots as objects.
pub(super) fn nested(columns: &[Column], cells: &[Value<'_>]) -> String {
    let mut object = String::new();
    flat(columns, cells, true, &mut object);
    nest(&object)
}

fn flat(columns: &[Column], cells: &[Value<'_>], is_nested: bool, out: &mut String) {
    out.push('{');
    for (at, (column, cell)) in columns.iter().zip(cells).enumerate() {
        if at > 0 {
            out.push(',');
        }
        string_into(&column.name, out);
        out.push(':');
        cell.json_into(is_nested, out);
    }
    out.push('}');
}
