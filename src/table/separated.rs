//! Feeds as comma- and tab-separated values (RFC 4180, but with LF).
//!
//! **Invariant**: a row is a line: there is no line break in a value, and none with CR. Quotes stand only where they are
//! needed: for programs that do not know them, most values have none.

use super::column::Column;
use super::query::{Format, Query};
use select::{Decimal, Value};

/// What stands before the first row.
pub(super) fn begin(query: &Query, columns: &[Column], out: &mut String) {
    if query.bom {
        out.push('\u{feff}');
    }
    if query.header {
        line(query, columns.iter().map(|column| &*column.name), out);
    }
}

pub(super) fn row(query: &Query, cells: &[Value<'_>], out: &mut String) {
    line(query, cells.iter().map(Value::text), out);
}

fn line<'a>(query: &Query, values: impl Iterator<Item = &'a str>, out: &mut String) {
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(query.separator);
        }
        push(query, value, out);
    }
    out.push('\n');
}

fn push(query: &Query, value: &str, out: &mut String) {
    let begin = out.len();
    if query.safe && is_formula(value) {
        out.push('\'');
    }
    one_line_into(value, query.format == Format::Tsv, out);
    let written = &out[begin..];
    let needs_quotes = match query.format {
        // There is no tab in a value, and what has a quote only inside is read as it is.
        Format::Tsv => written.starts_with('"'),
        _ => written.contains(['"', query.separator]),
    };
    if needs_quotes {
        let quoted = format!("\"{}\"", written.replace('"', "\"\""));
        out.replace_range(begin.., &quoted);
    }
}

/// Whether a spreadsheet would compute it: it begins like a formula, and is no number (CWE-1236). Otherwise negative
/// numbers would become texts.
fn is_formula(value: &str) -> bool {
    let is_number = || {
        let unsigned = value.strip_prefix('+').unwrap_or(value);
        Decimal::parse(&unsigned.replacen(',', ".", 1)).is_some()
    };
    value.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) && !is_number()
}

/// Appends the text with a space for each line break, and, if wanted, for each tab.
pub(super) fn one_line_into(text: &str, without_tabs: bool, out: &mut String) {
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' | '\n' => out.push(' '),
            '\t' if without_tabs => out.push(' '),
            other => out.push(other),
        }
    }
}
