//! The stored content of a request, as far as it is shown.
//!
//! **Invariant**: the shown content is limited, and includes the size of the rest.

use ingest::Kept;
use item::{Items, field_name, members};

/// Maximum items, and fields of each, that are shown.
const ITEMS_MAX: usize = 50;
const FIELDS_MAX: usize = 200;
/// Maximum characters of a value, and of a body.
const VALUE_CHARS_MAX: usize = 500;
const BODY_CHARS_MAX: usize = 20_000;
/// Maximum bytes of all names and values. The other limits alone allow 5 million characters.
const SHOWN_BYTES_MAX: usize = 256 << 10;

/// Stored content of a request.
#[derive(Debug)]
pub enum Content {
    Items {
        /// The first items, flattened.
        items: Vec<ItemContent>,
        /// Items that are not shown.
        left_out: usize,
    },
    Body {
        /// The beginning of its body; bytes that are not UTF-8 are replaced.
        text: String,
        /// Bytes that are not shown.
        left_out: usize,
    },
    /// Nothing is stored: the reason, and the fix.
    Nothing(&'static str),
}

#[derive(Debug)]
pub struct ItemContent {
    pub key: String,
    /// Its first fields.
    pub fields: Vec<FieldContent>,
    /// Fields that are not shown.
    pub fields_left_out: usize,
}

#[derive(Debug)]
pub struct FieldContent {
    /// Its flattened name.
    pub name: String,
    /// The beginning of the JSON text of its value.
    pub value: String,
    /// Bytes of the value that are not shown.
    pub bytes_left_out: usize,
}

impl From<&Kept> for Content {
    fn from(kept: &Kept) -> Self {
        match kept {
            Kept::Items(entry) => of_items(&entry.items),
            Kept::Body(body) => {
                let text = String::from_utf8_lossy(&body.body);
                let (shown, left_out) = beginning(&text, BODY_CHARS_MAX);
                Self::Body {
                    text: shown.to_owned(),
                    left_out,
                }
            }
            Kept::Nothing(why) => Self::Nothing(why),
        }
    }
}

fn of_items(items: &Items) -> Content {
    let mut room = SHOWN_BYTES_MAX;
    let mut shown = Vec::new();
    for item in items.iter().take(ITEMS_MAX) {
        if room == 0 {
            break;
        }
        let mut fields = Vec::new();
        let mut fields_left_out = 0;
        for (name, value) in members(item.fields) {
            if fields.len() >= FIELDS_MAX || room == 0 {
                fields_left_out += 1;
                continue;
            }
            let name = field_name(name).into_owned();
            let (value, bytes_left_out) = beginning(value, VALUE_CHARS_MAX);
            room = room.saturating_sub(name.len() + value.len());
            fields.push(FieldContent {
                name,
                value: value.to_owned(),
                bytes_left_out,
            });
        }
        shown.push(ItemContent {
            key: item.key.to_owned(),
            fields,
            fields_left_out,
        });
    }
    Content::Items {
        left_out: items.len() - shown.len(),
        items: shown,
    }
}

/// The first characters, and the number of remaining bytes. A cut at a number of bytes could split a character.
fn beginning(text: &str, chars_max: usize) -> (&str, usize) {
    let end = text.char_indices().nth(chars_max);
    let end = end.map_or(text.len(), |(end, _)| end);
    (&text[..end], text.len() - end)
}

#[cfg(test)]
mod tests;
