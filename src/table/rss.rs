//! Feeds as RSS 2.0: an item for each row; with `shape=fields` for each field, its name the title and its value the
//! description, as players fill their variables from.
//!
//! **Invariant**: the `guid` of an item is the same as long as the item is, and nothing moves by itself: there is no
//! date of building.

use super::cell::Row;
use super::column::Column;
use super::query::{Query, Shape};
use super::xml::{PROLOG, element, escape_into};
use base::clock;
use select::{Template, Value};

/// Between the values of a description that nobody wrote a pattern for.
const BETWEEN: &str = " · ";

/// What stands before the first row.
pub(super) fn begin(query: &Query, stream: &str, out: &mut String) {
    out.push_str(PROLOG);
    out.push_str("<rss version=\"2.0\"");
    if query.image.is_some() {
        out.push_str(" xmlns:media=\"http://search.yahoo.com/mrss/\"");
    }
    out.push_str("><channel>\n");
    element("title", stream, out);
    element("link", "", out);
    element("description", stream, out);
    out.push('\n');
}

pub(super) fn row(
    query: &Query,
    stream: &str,
    (columns, cells): (&[Column], &[Value<'_>]),
    row: Row<'_>,
    out: &mut String,
) {
    let filled = |pattern: &Template| row.filled(pattern, query.numbers);
    out.push_str("<item>");
    let first = cells.first().map_or("", Value::text);
    let guid = format!("{stream}/{}", row.item.key);
    if query.shape == Shape::Fields {
        element("title", first, out);
        element("description", cells.get(1).map_or("", Value::text), out);
        guid_into(&format!("{guid}/{first}"), out);
    } else {
        let title = query.title.as_ref().or(query.text.as_ref());
        let title = title.map_or_else(|| first.to_owned(), filled);
        element("title", &title, out);
        let description = query.description.as_ref();
        let description = description.map_or_else(|| others(query, columns, cells), filled);
        element("description", &description, out);
        if let Some(link) = &query.link {
            element("link", &filled(link), out);
        }
        guid_into(&guid, out);
    }
    if let Some(date) = clock::parse_rfc3339(&row.item.updated_at) {
        element("pubDate", &clock::rfc2822(date), out);
    }
    if let Some(image) = query
        .image
        .as_ref()
        .map(filled)
        .filter(|url| !url.is_empty())
    {
        out.push_str("<media:content medium=\"image\" url=\"");
        escape_into(&image, out);
        out.push_str("\"/>");
    }
    out.push_str("</item>\n");
}

/// What stands behind the last row.
pub(super) fn end(out: &mut String) {
    out.push_str("</channel></rss>\n");
}

fn guid_into(guid: &str, out: &mut String) {
    out.push_str("<guid isPermaLink=\"false\">");
    escape_into(guid, out);
    out.push_str("</guid>");
}

/// The values that are not the title, each with its name.
fn others(query: &Query, columns: &[Column], cells: &[Value<'_>]) -> String {
    let pairs = columns.iter().zip(cells).skip(1);
    let pairs = pairs.filter(|(_, cell)| !cell.text().is_empty());
    let pairs = pairs.map(|(column, cell)| format!("{}: {}", column.name, cell.text()));
    let all: Vec<String> = pairs.collect();
    all.join(query.join.as_deref().unwrap_or(BETWEEN))
}
