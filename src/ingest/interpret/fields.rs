//! Texts of a delivery: the fields of its one item, its id, and what its headers add.
//!
//! **Invariant**: what goes into the log has at most [`LOGGED_BYTES_MAX`] bytes.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::EVENT;
use crate::context::Context;
use crate::request::Address;
use base::text::hex;
use item::{Items, field_name, members, string_into, unescape};
use webhook::body;

/// Bytes of an event's name, and of a delivery's id, in the log. A sender chooses both, and each entry of the log keeps
/// them.
const LOGGED_BYTES_MAX: usize = 255;

/// What a tool says, as long as the log keeps it.
pub(super) fn logged(said: &str) -> Box<str> {
    said[..said.floor_char_boundary(LOGGED_BYTES_MAX)].into()
}

/// Whether a body is one object.
pub(super) fn is_object(json: &[u8]) -> bool {
    let text = json.strip_prefix("\u{feff}".as_bytes()).unwrap_or(json);
    text.trim_ascii_start().first() == Some(&b'{')
}

/// The text of a field of the one item that there is.
pub(super) fn field_of_item(items: &Items, path: &str) -> Option<String> {
    let mut all = items.iter();
    let (Some(item), None) = (all.next(), all.next()) else {
        return None;
    };
    field_of(item.fields, path)
}

/// The text of a field that is a text, a number or a boolean.
pub(crate) fn field_of(fields: &str, path: &str) -> Option<String> {
    let (_, value) = members(fields).find(|(name, _)| field_name(name) == path)?;
    match value.as_bytes().first()? {
        b'"' => Some(unescape(value.get(1..value.len() - 1)?).into_owned()),
        b'{' | b'[' | b'n' => None,
        _ => Some(value.to_owned()),
    }
}

/// A flat object of texts.
pub(super) fn object(fields: &[(String, String)]) -> String {
    let mut json = String::from("{");
    for (name, value) in fields {
        if json.len() > 1 {
            json.push(',');
        }
        string_into(name, &mut json);
        json.push(':');
        string_into(value, &mut json);
    }
    json.push('}');
    json
}

/// The id of a delivery as its idempotency key: a long one, or one of other than visible ASCII, by its digest.
pub(super) fn idempotency_key(id: &str) -> Arc<str> {
    let is_plain = id.bytes().all(|byte| byte.is_ascii_graphic());
    match is_plain && (1..=LOGGED_BYTES_MAX).contains(&id.len()) {
        true => id.into(),
        false => digest(id.as_bytes()).into(),
    }
}

/// The SHA-256 of some bytes as hexadecimal digits.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The fields that the headers add to the items.
pub(super) fn fields_of_headers(
    of: &Context<'_>,
    address: &Address<'_>,
    event: Option<&str>,
) -> Vec<(String, String)> {
    // Headers that nobody signed say nothing of what somebody signed.
    let takes_headers = of.signing.is_none() || of.tool().is_none_or(|tool| tool.is_generic());
    let mut more = match takes_headers {
        true => body::cloudevent_fields(address.headers.0.iter().copied()),
        false => Vec::new(),
    };
    if let Some(event) = event.filter(|_| of.names_event_in_header()) {
        more.push((EVENT.to_owned(), event.to_owned()));
    }
    more
}
