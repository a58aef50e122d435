//! Turns a webhook's body as it came into the JSON text that the flattener takes: one object, or an array of objects.
//!
//! Called by the webhook pipeline after the signature was checked, which is over the bytes as they came, and before
//! flattening. Its files: `header` (what the headers say), `compressed`, `fields` (HTML forms), `lines` (NDJSON),
//! `path` and `items` (the items inside an envelope), `cloudevents` (fields from headers), `percent`, `output`.
//!
//! JSON is not checked here but where it must be taken apart: the flattener is strict and has the better messages.
//!
//! **Invariant**: what comes out is at most `bytes_max` long, and no step on the way holds much more than that,
//! whatever the body claims about itself.

mod cloudevents;
mod compressed;
mod fields;
mod header;
mod items;
mod lines;
mod output;
mod path;
mod percent;
#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use cloudevents::cloudevent_fields;
pub use header::{ENCODINGS, Form, FormError};
pub use items::{ItemSource, without_base64};
pub(crate) use items::{each_item, each_value};
pub use path::at_path;

use header::{Encoding, Media};

const BYTE_ORDER_MARK: &str = "\u{feff}";
/// Characters of the caller's own text that a message repeats.
const SHOWN_CHARS_MAX: usize = 100;

/// Why a body stands for no JSON.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum DecodeError {
    /// It takes more than `bytes_max` after decompression, or as JSON; the caller answers 413.
    #[error("the body is too large after decoding; send less at once")]
    TooLarge,
    /// A sentence for the caller, who answers 400 with it.
    #[error("{0}")]
    Invalid(String),
}

/// The JSON that the body stands for. `bytes_max` bounds the decompressed size, and what a form or lines become.
/// Shares the bytes of `body` where they are the JSON already.
///
/// # Errors
/// [`DecodeError::TooLarge`] over `bytes_max`; [`DecodeError::Invalid`] if the body is not what the headers say.
pub fn decode(form: Form, body: Bytes, bytes_max: usize) -> Result<Bytes, DecodeError> {
    let body = match form.encoding {
        Encoding::Identity => body,
        encoding => compressed::decompress(encoding, &body, bytes_max)?,
    };
    let json = match form.media {
        Media::Json => body,
        Media::Text | Media::None => undeclared(form.media, &body)?,
        Media::Fields => fields::to_json(&body, bytes_max)?,
        Media::Lines => lines::to_json(&body, bytes_max)?,
    };
    if json.len() > bytes_max {
        return Err(DecodeError::TooLarge);
    }
    Ok(json)
}

/// The JSON of a form, where there is no bound but its own length.
pub(crate) fn form_to_json(body: &[u8]) -> Option<Bytes> {
    // Each byte of a form can become six in JSON: `\u0001`.
    fields::to_json(body, body.len().saturating_mul(6).saturating_add(64)).ok()
}

/// The JSON of a body that is not declared as such: older senders say `text/plain`, or nothing.
fn undeclared(media: Media, body: &Bytes) -> Result<Bytes, DecodeError> {
    let text = without_mark(body).trim_ascii();
    let came = match text.first() {
        Some(b'{' | b'[') => return Ok(body.slice_ref(text)),
        None => "is empty".to_owned(),
        Some(b'"') => "is a JSON string".to_owned(),
        Some(b'<') => "begins with `<`, as XML and HTML do".to_owned(),
        Some(_) => match String::from_utf8_lossy(text).chars().next() {
            Some(first) => format!("begins with `{}`", first.escape_debug()),
            None => "is empty".to_owned(),
        },
    };
    let declared = match media {
        Media::Text => "Content-Type text/plain",
        _ => "no Content-Type",
    };
    Err(DecodeError::Invalid(format!(
        "the body came with {declared} and {came}; send a JSON object or an array of objects with `Content-Type: application/json`"
    )))
}

/// The text after a byte order mark, which RFC 8259 allows a receiver to skip.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(BYTE_ORDER_MARK.as_bytes())
        .unwrap_or(text)
}

/// The caller's own text for a message: short, and without control characters. A control character could change what a
/// terminal shows.
fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let more = if start.len() < text.len() { "…" } else { "" };
    format!("{}{more}", start.escape_debug())
}

/// What a JSON value is, by the character that it begins with.
fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}
