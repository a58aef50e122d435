//! One hit of a search: what it is called, and the page that shows it.
//!
//! **Invariant**: the page of a hit is a path whose parts are percent-encoded.

use crate::requests::Report;
use base::clock;
use base::text::percent_encoded;
use item::members;
use pool::Item;

/// Maximum values of an item in its title, and characters of each.
const TITLE_VALUES: usize = 3;
const TITLE_CHARS: usize = 40;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchHit {
    /// `item`, `request`, `stream`, `connector`, `key`, `read_key`, `sink` or `dead_letter`.
    pub kind: &'static str,
    pub stream: Option<String>,
    /// Its key: that of the item or the dead letter's item, the id of a request, or a name.
    pub key: String,
    /// Its title next to the key.
    pub title: String,
    /// When it was updated, received, or became a dead letter.
    pub at: Option<String>,
    /// Its page on the admin listener.
    pub page: String,
}

pub(super) fn of_item(stream: &str, item: &Item) -> SearchHit {
    SearchHit {
        kind: "item",
        stream: Some(stream.to_owned()),
        key: item.key.clone(),
        title: title(item),
        at: Some(item.updated_at.clone()),
        page: item_page(stream, &item.key),
    }
}

pub fn item_page(stream: &str, key: &str) -> String {
    let (stream, key) = (percent_encoded(stream), percent_encoded(key));
    format!("/streams/{stream}/item?key={key}")
}

pub(super) fn of_request(report: &Report) -> SearchHit {
    let entry = &report.row.entry;
    let status = report.status.as_str();
    let why = report.errors().next();
    SearchHit {
        kind: "request",
        stream: Some(entry.stream.to_string()).filter(|stream| !stream.is_empty()),
        key: entry.request_id.to_string(),
        title: match why {
            Some(why) => format!("{}: {status}: {why}", entry.connector),
            None => format!("{}: {status}", entry.connector),
        },
        at: Some(clock::rfc3339(entry.received_at)),
        page: format!("/requests/{}", entry.request_id),
    }
}

pub(super) fn of_letter(letter: &pool::LetterHit) -> SearchHit {
    SearchHit {
        kind: "dead_letter",
        stream: Some(letter.stream.clone()),
        key: letter.key.clone(),
        title: format!("{}: {}", letter.sink, letter.reason),
        at: Some(clock::rfc3339(letter.at)),
        page: format!("/sinks/{}#dead-letters", percent_encoded(&letter.sink)),
    }
}

/// The first values of an item as text, without its key.
fn title(item: &Item) -> String {
    let shown = members(&item.fields).filter_map(|(_, value)| match value.as_bytes() {
        b"null" | b"\"\"" => None,
        [b'"', ..] => serde_json::from_str::<String>(value).ok(),
        [b'[' | b'{', ..] => None,
        _ => Some(value.to_owned()),
    });
    let others = shown.filter(|value| *value != item.key);
    let cut = |value: String| value.chars().take(TITLE_CHARS).collect();
    let values: Vec<String> = others.take(TITLE_VALUES).map(cut).collect();
    values.join(" · ")
}
