//! Feeds as text: a line for each row, by a pattern or of its values; a value alone as it is.
//!
//! **Invariant**: there is no line break behind the last line, and none inside a line, but in a value that stands alone.

use super::cell::Row;
use super::column::Column;
use super::query::Query;
use super::separated::one_line_into;
use select::Value;

/// Between the values of a row without a pattern.
const BETWEEN: &str = " ";

pub(super) fn row(
    query: &Query,
    (columns, cells): (&[Column], &[Value<'_>]),
    (row, is_first): (Row<'_>, bool),
    out: &mut String,
) {
    if !is_first {
        out.push_str(query.join.as_deref().unwrap_or("\n"));
    }
    if let Some(pattern) = &query.text {
        return one_line_into(&row.filled(pattern, query.numbers), false, out);
    }
    let asks_for_one = query.keys.as_ref().is_some_and(|keys| keys.len() == 1);
    if let ([value], true) = (cells, asks_for_one && columns.len() == 1) {
        return out.push_str(value.text());
    }
    for (at, cell) in cells.iter().enumerate() {
        if at > 0 {
            out.push_str(BETWEEN);
        }
        one_line_into(cell.text(), false, out);
    }
}
