//! Feeds as XML: `<items total="2"><item key="m2"><home_name>…`.
//!
//! **Invariant**: well-formed XML 1.0 whatever the names and values are; what XML cannot have is replaced, in names by
//! `_`, in values by U+FFFD.

use super::column::Column;
use super::json;
use super::query::{Names, Query, Shape};
use item::{field_name, members};
use select::Value;

/// Elements of elements, at most; what is deeper is JSON text. Each level is a call of a function, and a name can have
/// any number of dots.
const DEPTH_MAX: usize = 32;
pub(super) const PROLOG: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// What stands before the first row.
pub(super) fn begin(query: &Query, total: usize, out: &mut String) {
    out.push_str(PROLOG);
    if query.shape != Shape::One {
        out.push_str(&format!("<items total=\"{total}\">"));
    }
}

pub(super) fn row(
    query: &Query,
    (columns, cells): (&[Column], &[Value<'_>]),
    key: &str,
    out: &mut String,
) {
    if query.shape != Shape::One {
        out.push('\n');
    }
    out.push_str("<item key=\"");
    escape_into(key, out);
    out.push_str("\">");
    if query.names == Names::Nested {
        elements(&json::nested(columns, cells), DEPTH_MAX, out);
    } else {
        for (column, cell) in columns.iter().zip(cells) {
            element(&column.name, cell.text(), out);
        }
    }
    out.push_str("</item>");
}

/// What stands behind the last row.
pub(super) fn end(query: &Query, is_empty: bool, out: &mut String) {
    out.push_str(match (query.shape, is_empty) {
        (Shape::One, true) => "<item/>\n",
        (Shape::One, false) => "\n",
        (_, true) => "</items>\n",
        (_, false) => "\n</items>\n",
    });
}

fn elements(object: &str, depth_max: usize, out: &mut String) {
    for (name, value) in members(object) {
        let name = element_name(&field_name(name));
        if depth_max > 0 && value.starts_with("{\"") {
            out.push_str(&format!("<{name}>"));
            elements(value, depth_max - 1, out);
            out.push_str(&format!("</{name}>"));
        } else {
            element(&name, Value::of(value).text(), out);
        }
    }
}

/// Appends an element with text in it; `name` is one that elements can have.
pub(super) fn element(name: &str, text: &str, out: &mut String) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    escape_into(text, out);
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// Appends text as it stands between tags and in attributes.
pub(super) fn escape_into(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // Readers make a line feed of it otherwise, and spaces of all three in attributes.
            '\r' => out.push_str("&#13;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
}

/// The name as an element can have it: letters, digits, `_`, `-` and `.`, everything else `_`.
pub(super) fn element_name(name: &str) -> String {
    let mut element = String::with_capacity(name.len() + 1);
    if !name.starts_with(is_letter) {
        let can_follow =
            name.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '.'));
        if can_follow || name.is_empty() {
            element.push('_');
        }
    }
    let allowed = |character: char| {
        is_letter(character) || character.is_ascii_digit() || matches!(character, '-' | '.')
    };
    element.extend(name.chars().map(|one| if allowed(one) { one } else { '_' }));
    element
}

/// Whether a name may begin with it, in every edition of XML 1.0: the common scripts, no more.
fn is_letter(character: char) -> bool {
    matches!(character,
        'A'..='Z' | 'a'..='z' | '_' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{131}'
        | '\u{391}'..='\u{3a1}' | '\u{3a3}'..='\u{3ce}' | '\u{401}'..='\u{40c}' | '\u{40e}'..='\u{44f}'
        | '\u{451}'..='\u{45c}' | '\u{45e}'..='\u{481}' | '\u{5d0}'..='\u{5ea}' | '\u{621}'..='\u{63a}'
        | '\u{641}'..='\u{64a}' | '\u{3041}'..='\u{3094}' | '\u{30a1}'..='\u{30fa}'
        | '\u{4e00}'..='\u{9fa5}' | '\u{ac00}'..='\u{d7a3}')
}

#[cfg(test)]
mod tests;
